"""Kafka by librdkafka: what a source and a sink there have in common."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from policyc_runtime.errors import DataError

if TYPE_CHECKING:
    import types

ADDRESS = re.compile(r"kafka://(?P<hosts>[^/\s]+)/(?P<topic>[A-Za-z0-9._-]{1,249})")
ANSWER = 10.0  # seconds to wait for an answer of a broker
START = 30.0  # seconds that brokers may be away when this starts
AWAY = (
    "_TRANSPORT", "_DESTROY", "_DESTROY_BROKER", "_TIMED_OUT", "_UNKNOWN_PARTITION", "_ALL_BROKERS_DOWN",
    "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION",
)  # fmt: skip
BROKERS = ("bootstrap.servers", "metadata.broker.list")  # one property under two names
PATIENCE = 300.0  # seconds that brokers may be away, as while they start again
OURS = ("enable.", "transactional.", "auto.offset.reset", "group.id", "acks", "isolation.level")


Answer = TypeVar("Answer")


class Topic(NamedTuple):
    """Where a topic is, and how librdkafka comes there.

    Args:
        hosts: `host:port`, several with commas.
        name: the topic's.
        properties: of librdkafka, such as those of its security.
    """

    hosts: str
    name: str
    properties: Mapping[str, str]

    @classmethod
    def of(cls, address: str, properties: Mapping[str, str]) -> Topic:
        """The topic of an address.

        Raises:
            DataError: E0870, it is none, or a property is not one's own to choose.
        """
        if "@" in address:
            place = f"kafka://…@{address.rpartition('@')[2]}"
            raise unusable(place, "an address has no name and no password", "write them into the file of `--kafka`")
        found = ADDRESS.fullmatch(address)
        if found is None:
            address = re.split("[?;]", address, maxsplit=1)[0]  # behind it may stand a password
            raise unusable(address, "it is no address of a topic", "write it like kafka://host:9092/topic")
        ports = [host.rpartition(":")[2] for host in found["hosts"].split(",") if re.search(r":[^\]]*$", host)]
        if wrong := [port for port in ports if not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16)]:
            raise unusable(address, f"`{wrong[0]}` is no port", "write a number from 1 to 65535 behind the host")
        taken = next((name for name in properties if name.startswith(OURS)), None)
        if taken is not None:
            raise unusable(address, f"`{taken}` decides whether rows are taken in once", "leave it out")
        other = next((name for name in properties if name in BROKERS), None)
        if other is not None:
            reason = (
                f"`{other}` in the file of properties names brokers, which would take the place of `{found['hosts']}`"
            )
            raise unusable(address, reason, "leave it out of the file that `--kafka` names: the address says them")
        return cls(found["hosts"], found["topic"], properties)

    @property
    def address(self) -> str:
        """As it was written."""
        return f"kafka://{self.hosts}/{self.name}"

    def settings(self, **more: str | int | bool) -> dict[str, Any]:
        """What librdkafka is told."""
        told = {name.replace("_", "."): value for name, value in more.items()}
        return {"bootstrap.servers": self.hosts, "log_level": 0, **self.properties, **told}

    def client(self, kind: Callable[[dict[str, Any]], Answer], **more: str | int | bool) -> Answer:
        """A consumer or producer of librdkafka; DataError E0870 where it does not take a property.

        What it says quotes the value, which may be a password.
        """
        try:
            return kind(self.settings(**more))
        except library().KafkaException as error:
            told = str(error.args[0].str())
        except (TypeError, ValueError, RuntimeError, OverflowError, AttributeError) as error:  # of the client itself
            told = str(error)
        one = max((name for name in self.properties if name in told), key=len, default=None)
        said = "it does not take the properties, or one of their values"
        if one is not None:
            said = f"it knows no property `{one}`" if "No such" in told else f"it does not take the value of `{one}`"
        raise unusable(self.address, said, "mend the file of properties that `--kafka` names")

    def cluster(self, client: Any) -> str:
        """What the cluster calls itself; empty where it does not say.

        Raises:
            DataError: E0870, no broker answers.
        """
        return str(self.answered(lambda: client.list_topics(self.name, timeout=ANSWER).cluster_id) or "")

    def partitions(self, client: Any) -> list[int]:
        """The topic's partitions, in order.

        Raises:
            DataError: E0870, no broker answers, or there is no such topic.
        """
        found = self.answered(lambda: client.list_topics(self.name, timeout=ANSWER).topics[self.name])
        if found.error is not None or not found.partitions:
            raise self.refused(found.error)
        return sorted(found.partitions)

    def answered(self, ask: Callable[[], Answer]) -> Answer:
        """What brokers answer, asked again while they are away, for half a minute.

        Raises:
            DataError: E0870, they refuse, or are away longer.
        """
        kafka = library()
        until = time.monotonic() + START
        while True:
            try:
                return ask()
            except kafka.KafkaException as error:
                if not is_away(error.args[0]) or time.monotonic() > until:
                    raise self.refused(error.args[0]) from None
            time.sleep(0.2)

    def refused(self, error: Any) -> DataError:
        """The refusal to go on after an error of the brokers."""
        said = "it has no partitions" if error is None else str(error.str())
        return unusable(
            self.address,
            said.rstrip("."),
            "see that brokers and topic are there and may be used, then start again: what was taken in is kept, and "
            "the rest is read from where it is",
        )


def one_topic(a: Topic, b: Topic) -> bool:
    """Whether two addresses, which may name other brokers of a cluster, are those of one topic."""
    if a.name != b.name:
        return False
    clusters = set()
    for topic in (a, b):
        client = topic.client(library().Consumer, group_id="policyc")
        try:
            clusters.add(topic.cluster(client))
        finally:
            client.close()
    return len(clusters) == 1 or "" in clusters  # one that does not say which it is may be the other


def is_away(error: Any) -> bool:
    """Whether an error of librdkafka is that of brokers which may come back."""
    kinds = library().KafkaError
    return bool(error.retriable()) or error.code() in {
        getattr(kinds, name, None) for name in AWAY
    }  # older ones lack some


def library() -> types.ModuleType:
    """confluent-kafka; DataError E0870 where it is not installed."""
    try:
        import confluent_kafka
    except ImportError:
        raise unusable("kafka://", "confluent-kafka is not installed", "pip install 'policyc[kafka]'") from None
    module: types.ModuleType = confluent_kafka
    return module


def unusable(address: str, reason: str, remedy: str) -> DataError:
    """The refusal of a topic, and why."""
    return DataError("E0870", "this topic cannot be used", where=address, because=reason, help=remedy)
