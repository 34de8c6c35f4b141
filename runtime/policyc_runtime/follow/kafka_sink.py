"""Released values to the first partition of a Kafka topic, one NDJSON line a message, in their order.

The producer is idempotent, so brokers keep messages once and in order; what stands at the partition's end already, of
a publication that was not noted, is read and not sent again: where brokers refused a line and took later ones, it comes
behind these.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from policyc_runtime.follow.kafka import ANSWER, PATIENCE, Topic, library, unusable
from policyc_runtime.follow.released_lines import released_lines

if TYPE_CHECKING:
    from contextlib import ExitStack

    from policyc_runtime.published_values import Release

PARTITION = 0
PIECE = 0.5  # seconds: how soon a signal is answered while brokers are away


class KafkaSink:
    """A partition that nobody else writes to."""

    def __init__(self, topic: Topic, stopping: Callable[[], bool] = lambda: False) -> None:
        """Args: `stopping` is asked while brokers are away, whether to end without them."""
        self.name = topic.address
        self._topic = topic
        self._stopping = stopping
        self._kafka = library()
        self._producer: Any = topic.client(self._kafka.Producer, enable_idempotence=True)
        topic.partitions(self._producer)
        self._compared = False
        self._lines: list[bytes] = []
        self._failed: list[Any] = []

    def ready(self, release: Release, noted: int, pieces: ExitStack) -> None:  # noqa: ARG002
        """Make the lines, without those that are there."""
        lines = [line.encode() for line in released_lines(release, noted, release.steps.stop)]
        there = set() if self._compared else self._at_the_end(len(lines))
        self._lines, self._compared = [line for line in lines if line not in there], True

    def publish(self) -> None:
        """Send them; DataError E0870 where brokers do not take them."""
        for line in self._lines:
            while True:
                try:
                    self._producer.produce(self._topic.name, line, partition=PARTITION, on_delivery=self._delivered)
                    break
                except BufferError:  # as much waits as librdkafka holds
                    self._producer.poll(1.0)
                    self._go_on()
                except self._kafka.KafkaException as error:  # the topic is gone, or takes no such line
                    raise self._topic.refused(error.args[0]) from None
                except SystemError:  # the client's way to say that it gave up; why was told on delivery, if at all
                    raise self._topic.refused(self._failed[0]) if self._failed else self._gave_up() from None
        until = time.monotonic() + PATIENCE
        while self._producer.flush(PIECE) and not self._failed and time.monotonic() < until:
            self._go_on()
        if len(self._producer) or self._failed:
            raise self._topic.refused(self._failed[0]) if self._failed else self._silent()
        self._lines = []

    def close(self) -> None:
        """Let it go."""
        self._producer.purge()
        self._producer.flush(ANSWER)

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(error)

    def _go_on(self) -> None:
        if self._stopping():
            raise unusable(self.name, "no broker has taken the values yet", "start again: they are sent then")

    def _silent(self) -> Exception:
        return unusable(self.name, f"no broker took the values in {PATIENCE:.0f} seconds", "start again when they do")

    def _gave_up(self) -> Exception:
        return unusable(self.name, "the producer gave up after an error of the brokers", "start again: none is twice")

    def _at_the_end(self, lines: int) -> set[bytes]:
        """The last lines of the partition, so many: each tells step, release and cell, and was sent once."""
        consumer: Any = self._topic.client(
            self._kafka.Consumer, group_id="policyc", enable_auto_commit=False, auto_offset_reset="error"
        )
        try:
            place = self._kafka.TopicPartition(self._topic.name, PARTITION)
            low, high = self._topic.answered(lambda: consumer.get_watermark_offsets(place, timeout=ANSWER))
            first = max(low, high - lines)
            consumer.assign([self._kafka.TopicPartition(self._topic.name, PARTITION, first)])
            end: set[bytes] = set()
            until = time.monotonic() + PATIENCE
            at = first
            while at < high:
                for message in consumer.consume(high - at, 1.0):
                    if message.error() is None:
                        end.add(message.value() or b"")
                        at = message.offset() + 1
                if time.monotonic() > until:
                    raise self._silent()
        finally:
            consumer.close()
        return end
