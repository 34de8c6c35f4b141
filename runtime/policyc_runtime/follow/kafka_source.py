"""Events of a Kafka topic, one JSON object a message.

Where each partition goes on stands with what was taken in, not at the broker, so nothing is taken in twice or left out
however this ends. A step is released when all is read that was in the topic when it closed: a broker that is away for a
while delays a step and takes nothing from it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from policyc_runtime.follow.kafka import ANSWER, PATIENCE, START, Topic, is_away, library, unusable
from policyc_runtime.follow.source import Batch

MOST_MESSAGES = 10_000  # in a batch
LONGEST_WAIT = 0.2  # seconds for a batch to fill
MOST_HELD = 65_536  # kilobytes that librdkafka reads ahead


class KafkaSource:
    """All partitions of a topic."""

    named = False
    tells_waiting = True
    ended = False

    def __init__(self, topic: Topic) -> None:
        self.name = topic.address
        self._topic = topic
        self._kafka = library()
        consumer = partial(topic.client, self._kafka.Consumer, group_id="policyc", enable_auto_commit=False)
        self._consumer: Any = consumer(
            enable_partition_eof=True,
            auto_offset_reset="error",
            queued_max_messages_kbytes=MOST_HELD,
        )
        # reads no rows: brokers answer the requests of a connection in turn, and a fetch waits there for rows
        self._asker: Any = consumer()
        self._cluster = ""
        self._next: dict[int, int] = {}
        self._until: dict[int, int] | None = None  # what to read before a step closes; None while no broker says it
        self._asked = 0.0
        self._said: Any = None  # the error of the brokers that answered last, while they do not say what is there

    def begin(self, positions: Mapping[str, int]) -> None:
        """Read on from these positions, and partitions that have none from their beginning.

        Raises:
            DataError: E0870, the topic cannot be used, or has no more what comes next.
        """
        partitions = self._topic.partitions(self._asker)
        self._cluster = self._topic.cluster(self._asker)
        noted = any(name.endswith(f"/{self._name(partition)}") for name in positions for partition in partitions)
        if noted and not self._cluster:
            reason = "its brokers do not say which cluster they are, and what was taken in is of one that did"
            raise unusable(self.name, reason, "start again: rows that were taken in would be read a second time")
        for partition in partitions:
            low, high = self._topic.answered(partial(self._ends, partition))
            # earlier builds noted a topic's name alone, which other clusters have as well
            place = positions.get(self._place(partition), None if noted else positions.get(self._name(partition)))
            if place is not None and not low <= place <= high:
                raise unusable(
                    self.name,
                    f"partition {partition} has offsets {low:,} to {high:,}, and this went as far as {place:,}",
                    "give back what it had: rows that were not read are gone, or it is another topic of this name; "
                    "another topic is read from its beginning",
                )
            self._next[partition] = low if place is None else place
        self._assign()

    def mark(self) -> None:
        """All that is in the topic now is to be read before the next step closes."""
        self._until, self._asked = None, time.monotonic()
        self._ask()

    def read(self, seconds: float) -> Batch:
        """Messages that came, in the order of each partition.

        Raises:
            DataError: E0870, the brokers refuse.
        """
        lines, positions = [], {}
        for message in self._consumer.consume(MOST_MESSAGES, min(seconds, LONGEST_WAIT)):
            if (error := message.error()) is not None:
                if error.code() == self._kafka.KafkaError._PARTITION_EOF:
                    # behind the last message may stand where a transaction ended, which nobody is given
                    self._next[message.partition()] = max(self._next[message.partition()], message.offset())
                elif not is_away(error):
                    raise self._topic.refused(error)
                continue
            lines.append(message.value() or b"")
            self._next[message.partition()] = message.offset() + 1
            positions[self._place(message.partition())] = message.offset() + 1
        return Batch(lines, positions)

    @property
    def caught_up(self) -> bool:
        """Whether all was read that was there at the last mark.

        Raises:
            DataError: E0870, no broker said for a long time what is there, or they refuse to.
        """
        if self._until is None:
            self._ask()
        if self._until is None:
            waited = time.monotonic() - self._asked
            if self._said is not None and waited > START:
                raise self._topic.refused(self._said)
            if waited > PATIENCE:
                raise unusable(self.name, f"no broker answered for {PATIENCE:.0f} seconds", "start again when they do")
            return False
        return all(self._next[partition] >= end for partition, end in self._until.items())

    def close(self) -> None:
        """Let it go."""
        self._consumer.close()
        self._asker.close()

    def _ask(self) -> None:
        try:
            topic = self._asker.list_topics(self._topic.name, timeout=1.0).topics[self._topic.name]
            if topic.error is not None:
                raise self._kafka.KafkaException(topic.error)
            found = {partition: self._ends(partition, 1.0)[1] for partition in self._next}
        except self._kafka.KafkaException as error:
            self._said = None if is_away(error.args[0]) else error.args[0]
            return
        self._said = None
        new = sorted(set(topic.partitions) - set(self._next))
        if new:  # a partition that was added is read from its beginning
            self._next |= dict.fromkeys(new, 0)
            self._assign()
            return
        self._until = found

    def _ends(self, partition: int, seconds: float = ANSWER) -> tuple[int, int]:
        place = self._kafka.TopicPartition(self._topic.name, partition)
        low, high = self._asker.get_watermark_offsets(place, timeout=seconds)
        return int(low), int(high)

    def _assign(self) -> None:
        places = [self._kafka.TopicPartition(self._topic.name, part, at) for part, at in self._next.items()]
        self._consumer.assign(places)

    def _name(self, partition: int) -> str:
        return f"{self._topic.name}[{partition}]"

    def _place(self, partition: int) -> str:
        return f"{self._cluster}/{self._name(partition)}" if self._cluster else self._name(partition)
