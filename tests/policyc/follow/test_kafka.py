"""Kafka in and out, against librdkafka's own cluster: each row counts once, each value is published once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer
from scripted import BEGIN, HOUR, SECOND, VISITS, Played, planned

from policyc.cli.follow import _require_other_topics
from policyc_runtime.errors import DataError
from policyc_runtime.follow.arrivals import Arrivals
from policyc_runtime.follow.follower import Follower, Options
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.sources.history import History
from policyc_runtime.sources.moments import EPOCH, MICROSECOND

kafka = pytest.importorskip("confluent_kafka", reason="needs the extra `kafka`")

from policyc_runtime.follow.kafka import Topic, one_topic  # noqa: E402
from policyc_runtime.follow.kafka_sink import KafkaSink  # noqa: E402
from policyc_runtime.follow.kafka_source import KafkaSource  # noqa: E402

QUIET = {"log_level": 0}


class Cluster:
    """Two brokers in this process, and one client that writes and reads."""

    def __init__(self) -> None:
        self._brokers = kafka.Producer({"test.mock.num.brokers": 2, "bootstrap.servers": "none", **QUIET})
        found = self._brokers.list_topics(timeout=10).brokers.values()
        self.hosts = ",".join(f"{broker.host}:{broker.port}" for broker in found)

    def topic(self, name: str) -> Topic:
        return Topic.of(f"kafka://{self.hosts}/{name}", {})

    def send(self, name: str, lines: list[str]) -> None:
        for line in lines:
            self._brokers.produce(name, line.encode())
        assert self._brokers.flush(20) == 0

    def received(self, name: str, partition: int = 0) -> list[bytes]:
        reader = kafka.Consumer({"bootstrap.servers": self.hosts, "group.id": "test", **QUIET})
        _, high = reader.get_watermark_offsets(kafka.TopicPartition(name, partition), timeout=10)
        reader.assign([kafka.TopicPartition(name, partition, 0)])
        found: list[bytes] = []
        until = time.monotonic() + 20
        while len(found) < high and time.monotonic() < until:
            found += [message.value() for message in reader.consume(high, 0.2) if not message.error()]
        reader.close()
        return found


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return Cluster()


def line(person: str, at: int) -> str:
    return json.dumps({"person": person, "at": (EPOCH + at * MICROSECOND).isoformat(), "money": 1})


def follow(plan: Plan, folder: Path, source: Any, sinks: list[Any], now: int, **more: Any) -> None:
    """With the clock standing behind the last step: all is read, and everything is published."""
    clock = Played([], now=now)
    options = Options(folder / "l", None, None, None, 60 * SECOND, SECOND)
    follower = Follower(plan, source, sinks, options, clock, randomness=SimulationRandomness(3), **more)
    try:
        follower.run()
    finally:
        for sink in sinks:
            sink.close()


def counted(plan: Plan, folder: Path) -> np.ndarray:
    with History(folder / "l", plan) as history:
        return history.counted(0, None).counts["there"][:, 0]


def test_rows_of_all_partitions_are_counted_and_values_sent_once(cluster, tmp_path):
    """What waits in the topic when steps close is read first; started again, nothing is sent a second time."""
    plan = planned(tmp_path)
    cluster.send("in1", [line(f"u{n}", BEGIN + n % 4 * HOUR) for n in range(80)])
    cluster.send("out1", ["before"])
    for _ in range(2):
        sink = KafkaSink(cluster.topic("out1"))
        follow(plan, tmp_path, KafkaSource(cluster.topic("in1")), [sink], BEGIN + 9 * HOUR)
    assert counted(plan, tmp_path).tolist() == [20] * 4
    told = [json.loads(value) for value in cluster.received("out1") if value != b"before"]
    assert [(one["step"], one["release"]) for one in told] == [(s, r) for s in range(4) for r in ("there", "spent")]


def test_what_was_sent_and_not_noted_is_compared(cluster, tmp_path):
    """Ended between sending and noting, after all or half of the values: the topic has each once."""
    plan = planned(tmp_path)
    cluster.send("in2", [line("a", BEGIN)])
    topics = cluster.topic("in2"), cluster.topic("out2")
    cluster.send("seed2", ["x"])
    cluster._brokers.produce("out2", b"before", partition=0)
    cluster._brokers.flush(10)
    follow(plan, tmp_path, KafkaSource(topics[0]), [KafkaSink(topics[1])], BEGIN + 9 * HOUR)
    whole = cluster.received("out2")
    assert len(whole) == 9
    for noted in (0, 2, 4):
        with Arrivals(tmp_path / "l", ("person",)) as arrivals:
            arrivals.note_published(topics[1].address, noted)
        follow(plan, tmp_path, KafkaSource(topics[0]), [KafkaSink(topics[1])], BEGIN + 9 * HOUR)
    assert cluster.received("out2") == whole


def test_a_line_that_was_refused_alone_is_sent_alone(cluster, tmp_path):
    """Brokers took what came after a line that they refused: the line comes last, and no other twice."""
    plan = planned(tmp_path)
    cluster.send("in8", [line("a", BEGIN)])
    follow(plan, tmp_path, KafkaSource(cluster.topic("in8")), [KafkaSink(cluster.topic("whole8"))], BEGIN + 9 * HOUR)
    whole = cluster.received("whole8")
    for text in [*whole[:3], *whole[4:]]:
        cluster._brokers.produce("out8", text, partition=0)
    cluster._brokers.flush(10)
    follow(plan, tmp_path, KafkaSource(cluster.topic("in8")), [KafkaSink(cluster.topic("out8"))], BEGIN + 9 * HOUR)
    assert cluster.received("out8") == [*whole[:3], *whole[4:], whole[3]]


class EndOfPartition:
    """What librdkafka says behind the last message, where the end of a transaction stands beyond it."""

    def __init__(self, said: Any) -> None:
        self.error, self.partition = said.error, said.partition
        self._offset = said.offset() + 1

    def offset(self) -> int:
        return self._offset


class OfTransactions:
    """A consumer of a topic that ends in the end of a transaction, which the tests' cluster does not write."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def consume(self, most: int, seconds: float) -> list[Any]:
        found = self._consumer.consume(most, seconds)
        return [EndOfPartition(one) if one.error() is not None else one for one in found]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


def test_where_transactions_ended_nothing_is_waited_for(cluster):
    """Their ends take an offset each and are given to nobody: all before them was read."""
    cluster.send("in5", [str(number) for number in range(20)])
    source = KafkaSource(cluster.topic("in5"))
    source._consumer = OfTransactions(source._consumer)
    source.begin({})
    ends = source._ends
    source._ends = lambda *asked: (0, ends(*asked)[1] + 1)
    source.mark()
    lines, until = 0, time.monotonic() + 20
    while not source.caught_up and time.monotonic() < until:
        lines += len(source.read(0.2).lines)
    assert (lines, source.caught_up) == (20, True)
    source.close()


def test_what_is_there_is_told_while_brokers_wait_for_rows(cluster):
    """A fetch of an idle topic is answered late, and brokers answer a connection's requests in turn."""
    cluster.send("in9", [str(number) for number in range(20)])
    source = KafkaSource(Topic.of(cluster.topic("in9").address, {"fetch.wait.max.ms": "20000"}))
    source.begin({})
    source.mark()
    until = time.monotonic() + 20
    while not source.caught_up and time.monotonic() < until:
        source.read(0.2)
    for _ in range(5):
        source.read(0.2)  # nothing comes: fetches wait at both brokers
    source.mark()
    assert (source._until is not None, source.caught_up) == (True, True)
    source.close()


@pytest.mark.law
def test_rows_are_taken_in_once_however_it_ends(cluster, tmp_path):
    """Ended at any moment, before or after rows are noted as taken in: all count, and none twice."""
    plan, generator = planned(tmp_path, VISITS.replace("per_step = 2", "per_step = 2")), np.random.default_rng(4)
    sent = 0
    for _turn in range(6):
        count = int(generator.integers(1, 40))
        cluster.send("in3", [line(f"u{sent + n}", BEGIN + 5) for n in range(count)])
        sent += count
        turns = iter(range(int(generator.integers(1, 8))))
        stopping = lambda turns=turns: next(turns, None) is None  # noqa: E731
        follow(plan, tmp_path, KafkaSource(cluster.topic("in3")), [], BEGIN + 1, stopping=stopping)
    follow(plan, tmp_path, KafkaSource(cluster.topic("in3")), [], BEGIN + 9 * HOUR)
    assert counted(plan, tmp_path).tolist() == [sent, 0, 0, 0]
    with Arrivals(tmp_path / "l", ("person",)) as arrivals:
        assert (arrivals.number("taken"), arrivals.number("late")) == (sent, 0)


@pytest.mark.parametrize("name", ["_TRANSPORT", "_DESTROY", "_DESTROY_BROKER", "_ALL_BROKERS_DOWN"])
def test_brokers_that_start_again_are_waited_for(cluster, name):
    """Whatever librdkafka calls it that a connection is gone; another error is told at once."""
    topic, asked = cluster.topic("any"), iter([getattr(kafka.KafkaError, name, kafka.KafkaError._DESTROY)])

    def ask() -> str:
        for code in asked:
            raise kafka.KafkaException(kafka.KafkaError(code))
        return "there"

    assert topic.answered(ask) == "there"
    asked = iter([kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED])
    with pytest.raises(DataError):
        topic.answered(ask)


def test_a_topic_that_is_not_there_or_lost_rows_is_one_message(cluster, tmp_path):
    """No address, no topic, a position beyond its end, a property that decides what counts."""
    with pytest.raises(DataError, match="cannot be used") as refused:
        Topic.of("kafka://host", {})
    assert refused.value.code == "E0870"
    with pytest.raises(DataError) as refused:
        Topic.of("kafka://host/topic", {"enable.auto.commit": "true"})
    assert "once" in str(refused.value.because)
    with pytest.raises(DataError, match="cannot be used"):
        Topic.of("kafka://host/topic", {"transactional.id": "x"})
    with pytest.raises(DataError) as refused:
        KafkaSource(cluster.topic("missing")).begin({})
    assert "Unknown topic" in str(refused.value.because)
    cluster.send("in4", ["x"])
    with pytest.raises(DataError) as refused:
        KafkaSource(cluster.topic("in4")).begin({"in4[0]": 999})
    assert "went as far as 999" in str(refused.value.because)


@pytest.mark.parametrize(
    ("code", "said"), [("TOPIC_AUTHORIZATION_FAILED", "authorization"), ("UNKNOWN_TOPIC_OR_PART", "Unknown topic")]
)
@pytest.mark.parametrize("place", ["the offsets", "the topic"])
def test_a_topic_that_may_not_be_read_any_more_is_named(place, code, said, cluster, monkeypatch):
    """Brokers answer, and refuse: after half a minute, not five, and with what they say."""
    cluster.send("in7", ["x"])
    source, error = KafkaSource(cluster.topic("in7")), kafka.KafkaError(getattr(kafka.KafkaError, code))
    source.begin({})

    def refuses(*_: Any) -> tuple[int, int]:
        raise kafka.KafkaException(error)

    if place == "the offsets":
        monkeypatch.setattr(source, "_ends", refuses)
    else:
        gone = SimpleNamespace(topics={"in7": SimpleNamespace(error=error, partitions={})})
        monkeypatch.setattr(source, "_asker", SimpleNamespace(list_topics=lambda *_, **__: gone))
    source.mark()
    assert not source.caught_up
    source._asked -= 31
    with pytest.raises(DataError) as refused:
        _ = source.caught_up
    assert said in str(refused.value.because)


def test_a_password_in_an_address_is_refused_and_not_repeated():
    with pytest.raises(DataError) as refused:
        Topic.of("kafka://me:secret@host:9092/topic", {})
    assert (refused.value.code, refused.value.where) == ("E0870", "kafka://…@host:9092/topic")
    assert "secret" not in f"{refused.value} {refused.value.because} {refused.value.help}"


@pytest.mark.parametrize(
    "hosts", ["host:0", "host:65536", "host:abc", "host:", "good:9092,host:-1", "host:٩٠٩٢", "[::1]:x"]
)
def test_what_is_no_port_is_refused_at_once(hosts):
    """And not asked for half a minute."""
    with pytest.raises(DataError, match="cannot be used") as refused:
        Topic.of(f"kafka://{hosts}/in", {})
    assert "is no port" in str(refused.value.because)


@pytest.mark.parametrize("hosts", ["host", "host:9092", "a:1,b:65535", "[::1]", "[::1]:9092"])
def test_hosts_have_ports_or_none(hosts):
    assert Topic.of(f"kafka://{hosts}/in", {}).hosts == hosts


@pytest.mark.parametrize("behind", ["?password=s3cr3t", ";sasl.password=s3cr3t"])
def test_what_stands_behind_a_topic_is_not_repeated(behind):
    with pytest.raises(DataError) as refused:
        Topic.of(f"kafka://host/in{behind}", {})
    assert (refused.value.code, refused.value.where) == ("E0870", "kafka://host/in")
    assert "s3cr3t" not in f"{refused.value} {refused.value.because} {refused.value.help}"


def test_topics_of_two_clusters_are_two(cluster):
    """Whatever they are called: what was taken in of one is not left out of the other, and brokers are one cluster."""
    other = Cluster()
    for one in (cluster, other):
        one.send("both", [str(number) for number in range(9)])
    hosts = cluster.hosts.split(",")
    near = [Topic.of(f"kafka://{host}/both", {}) for host in hosts]
    assert one_topic(*near)
    assert not one_topic(near[0], Topic.of(f"kafka://{hosts[0]}/out", {}))
    assert not one_topic(near[0], other.topic("both"))
    positions: dict[str, int] = {}
    for place, rows in ((cluster, 9), (cluster, 0), (other, 9)):
        source = KafkaSource(place.topic("both"))
        source.begin(positions)
        source.mark()
        lines, until = 0, time.monotonic() + 20
        while not source.caught_up and time.monotonic() < until:
            batch = source.read(0.2)
            lines, positions = lines + len(batch.lines), positions | dict(batch.positions)
        source.close()
        assert lines == rows


def test_values_go_to_a_topic_once_however_it_is_named(cluster):
    """Two of its brokers' addresses are one topic, of outputs too; other topics are others."""
    cluster.send("values", ["x"])
    hosts = cluster.hosts.split(",")
    outputs = [f"kafka://{host}/values" for host in hosts]
    for given, source in ((outputs, "-"), (outputs, f"kafka://{hosts[0]}/events")):
        with pytest.raises(typer.BadParameter, match="named already"):
            _require_other_topics(source, ["-", *given], {})
    _require_other_topics("-", [outputs[0], f"kafka://{hosts[0]}/others", "out.csv"], {})


def test_brokers_that_do_not_say_which_they_are_are_no_others(cluster, monkeypatch):
    """Rows would be read twice, or values lie among events."""
    cluster.send("in12", ["x"])
    source = KafkaSource(cluster.topic("in12"))
    source.begin({})
    noted = {source._place(partition): 0 for partition in source._next}
    source.close()
    monkeypatch.setattr(Topic, "cluster", lambda *_: "")
    with pytest.raises(DataError, match="cannot be used") as refused:
        KafkaSource(cluster.topic("in12")).begin(noted)
    assert "which cluster they are" in str(refused.value.because)
    assert one_topic(cluster.topic("in12"), cluster.topic("in12"))


def test_positions_that_earlier_builds_noted_are_gone_on_from(cluster):
    """They have the topic's name alone."""
    cluster.send("in10", ["x"])
    partition = next(p for p in range(64) if cluster.received("in10", p))
    source = KafkaSource(cluster.topic("in10"))
    source.begin({f"in10[{partition}]": 1})
    assert source._next[partition] == 1
    source.close()


def test_a_signal_ends_the_wait_for_brokers(cluster):
    """Noise is in the ledger, and the next start sends the values."""
    cluster.send("out11", ["before"])
    stopped: list[int] = []
    sink = KafkaSink(cluster.topic("out11"), lambda: bool(stopped))
    sink._lines, stopped = [b"{}"], [1]
    sink._producer = SimpleNamespace(produce=lambda *_, **__: None, flush=lambda _: 1, purge=lambda: None)
    with pytest.raises(DataError, match="cannot be used") as refused:
        sink.publish()
    assert "they are sent then" in str(refused.value.help)


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list"])
def test_brokers_are_those_of_the_address(name):
    """Properties that name others would have events read from, or values written to, where nobody said."""
    with pytest.raises(DataError) as refused:
        Topic.of("kafka://host:9092/topic", {"security.protocol": "ssl", name: "elsewhere:9092"})
    assert (refused.value.code, refused.value.where) == ("E0870", "kafka://host:9092/topic")
    assert f"`{name}`" in str(refused.value.because)
    assert "elsewhere" not in str(refused.value)
    assert "--kafka" in str(refused.value.help)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("no.such.property", "N0SECRET", "it knows no property `no.such.property`"),
        ("security.protocol", "N0SECRET", "the value of `security.protocol`"),
        ("ssl.ca.location", "N0SECRET.pem", "the value of `ssl.ca.location`"),
        ("error_cb", "N0SECRET", "the value of `error_cb`"),
        ("default.topic.config", "N0SECRET", "the properties, or one of their values"),
    ],
)
@pytest.mark.parametrize("place", [KafkaSource, KafkaSink])
def test_properties_that_librdkafka_does_not_take_are_one_message(place, name, value, said):
    with pytest.raises(DataError) as refused:
        place(Topic.of("kafka://host/topic", {"security.protocol": "ssl", name: value}))
    assert (refused.value.code, said in str(refused.value.because)) == ("E0870", True)
    assert "N0SECRET" not in f"{refused.value}{refused.value.where}{refused.value.because}{refused.value.help}"
    assert "--kafka" in str(refused.value.help)


def test_a_producer_that_gave_up_is_one_message(cluster):
    """The client says so by an error of Python's own, without what brokers said; that was told before, or not."""
    cluster.send("out9", ["before"])
    for said in (None, kafka.KafkaError(kafka.KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)):
        sink = KafkaSink(cluster.topic("out9"))
        sink._producer, sink._lines = GaveUp(), [b"{}"]
        sink._failed = [] if said is None else [said]
        with pytest.raises(DataError) as refused:
            sink.publish()
        assert (refused.value.code, "gave up" in str(refused.value.because)) == ("E0870", said is None)


class GaveUp:
    def produce(self, *_: Any, **__: Any) -> None:
        raise SystemError("returned NULL without setting an exception")


def test_a_topic_that_takes_a_line_no_longer_is_one_message(cluster, tmp_path):
    """What librdkafka says at once, such as that a line is too long: nothing is noted as published."""
    cluster.send("in6", [line("a", BEGIN)])
    cluster.send("out6", ["before"])
    sink = KafkaSink(Topic.of(f"kafka://{cluster.hosts}/out6", {"message.max.bytes": "1000"}))
    sink._lines = [b"x" * 2000]
    with pytest.raises(DataError, match="cannot be used") as refused:
        sink.publish()
    assert "too large" in str(refused.value.because)
    sink.close()
