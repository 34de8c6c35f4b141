"""10,000 events a second from brokers that go away, into a process that is killed: every row once, every step once.

Half a minute; with `--full` an hour.
"""

from __future__ import annotations

import ctypes
import datetime
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted import VISITS

from policyc import compile_policy
from policyc_runtime.follow.arrivals import STATE, Arrivals
from policyc_runtime.ledger_private import private_file

kafka = pytest.importorskip("confluent_kafka", reason="needs the extra `kafka`")

RATE = 10_000  # events a second
PARTITIONS = 64
MOST_BEHIND = 600  # seconds for what waits in the topic at the end to be read, on a machine that is busy
MOST_MEMORY = 700  # megabytes
FOUND = sorted(Path(kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*.so*"))
pytestmark = [
    pytest.mark.law,
    pytest.mark.skipif(
        not FOUND, reason="needs the librdkafka that confluent-kafka brings, whose brokers can be stopped"
    ),
]


class Brokers:
    """Two brokers that can be stopped and started, by librdkafka's C functions."""

    def __init__(self) -> None:
        self._library = library = ctypes.CDLL(str(FOUND[0]))
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
            getattr(library, name).restype = ctypes.c_void_p
        library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        said = ctypes.create_string_buffer(512)
        client = ctypes.c_void_p(library.rd_kafka_new(0, ctypes.c_void_p(library.rd_kafka_conf_new()), said, 512))
        self._cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(client, 2))
        self.hosts = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def topic(self, name: str, partitions: int) -> None:
        assert self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 2) == 0

    def down(self, broker: int, *, stopped: bool) -> None:
        call = "rd_kafka_mock_broker_set_down" if stopped else "rd_kafka_mock_broker_set_up"
        assert getattr(self._library, call)(self._cluster, broker) == 0


def compiled(folder: Path, step: int) -> Path:
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    text = VISITS.replace("2026-01-01T00:00:00Z", now.strftime("%Y-%m-%dT%H:%M:%SZ"))
    (folder / "visits.policy").write_text(text.replace("step 1h", f"step {step}s").replace("horizon 4", "horizon 900"))
    compile_policy(folder / "visits.policy").save(folder / "visits.plan")
    return folder / "visits.plan" / "ledger.sqlite"


def started(folder: Path, hosts: str, lateness: int) -> subprocess.Popen[str]:
    topics = ["--input", f"kafka://{hosts}/in", "--output", f"kafka://{hosts}/out", "--output", "out.parquet"]
    command = [sys.executable, "-m", "policyc", "follow", "visits.plan", *topics, "--lateness", f"{lateness}s"]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def produce(producer: Any, event: bytes) -> None:
    """Into the topic, when there is room: brokers are away, or this machine is busy."""
    while True:
        try:
            return producer.produce("in", event)
        except BufferError:
            producer.poll(0.1)


def memory(process: subprocess.Popen[str]) -> int:
    """The most that a process ever had, in megabytes."""
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)


def arrived(ledger: Path) -> int:
    """How many rows were read from the topic, those that came too late included."""
    state = private_file(ledger, "arrivals") / STATE
    with (
        suppress(sqlite3.OperationalError),  # before it is there, or while what was killed is put right
        closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True, timeout=30)) as opened,
    ):
        return int(opened.execute("SELECT coalesce(sum(value), 0) FROM number WHERE name <> 'closed'").fetchone()[0])
    return 0


def steps_closed(ledger: Path) -> int:
    with Arrivals(ledger, ("person", "at", "money")) as arrivals:
        return arrivals.closed


def end(process: subprocess.Popen[str], how: signal.Signals) -> None:
    process.send_signal(how)
    _, err = process.communicate(timeout=120)
    assert process.returncode in (-how if how == signal.SIGKILL else 0, 0), err
    assert how == signal.SIGKILL or err.count("asking for kafka://") == 2  # before it waits for brokers


def test_nothing_is_lost_or_twice_at_ten_thousand_events_a_second(tmp_path, full):
    """Kills and brokers that are away, all the while; memory stays bounded, and what is published verifies.

    What lies in the topic is counted, not what was sent: these brokers know a row that is sent again, as they were
    stopped before they could say that they have it, of transactional producers alone. Where it is so late that its step
    is closed, it is one of those that took long to deliver.
    """
    seconds, step, lateness = (3600, 10, 30) if full else (30, 4, 6)
    generator = np.random.default_rng(9)
    brokers, ledger = Brokers(), compiled(tmp_path, step)
    brokers.topic("in", PARTITIONS)  # these brokers keep 5 MB of a partition: together some minutes
    brokers.topic("out", 1)
    quiet: dict[str, Any] = {"bootstrap.servers": brokers.hosts, "log_level": 0, "enable.idempotence": True}
    slow = 0

    def delivered(error: Any, message: Any) -> None:
        nonlocal slow
        assert error is None
        slow += message.latency() > lateness / 2

    producer = kafka.Producer({**quiet, "linger.ms": 20, "on_delivery": delivered})
    process, most, sent, kills = started(tmp_path, brokers.hosts, lateness), 0, 0, 0
    begin = time.monotonic()
    next_kill, next_stop, down = 8.0, 5.0, 0
    while (passed := time.monotonic() - begin) < seconds:
        now = datetime.datetime.now(datetime.UTC).isoformat()
        for user in generator.integers(0, 100_000, int(passed * RATE) - sent).tolist():
            produce(producer, json.dumps({"person": f"u{user}", "at": now, "money": 1}).encode())
            sent += 1
            if sent % 2_000 == 0:
                producer.poll(0)
        producer.poll(0.02)
        most = max(most, memory(process))
        if passed > next_kill:
            end(process, signal.SIGKILL)
            process, kills = started(tmp_path, brokers.hosts, lateness), kills + 1
            print(f"after {passed:.0f} s: {sent:,} sent, {kills} kills, at most {most} MB", flush=True)
            next_kill += float(generator.uniform(12, 20)) * (10 if full else 1)
        if passed > next_stop:
            brokers.down(down // 2 % 2 + 1, stopped=down % 2 == 0)
            down, next_stop = down + 1, next_stop + (1.5 if down % 2 == 0 else 6.0)
    for broker in (1, 2):
        brokers.down(broker, stopped=False)
    assert producer.flush(60) == 0
    lying = in_topic(brokers.hosts)
    assert lying >= sent
    until = time.monotonic() + MOST_BEHIND
    while arrived(ledger) < lying and time.monotonic() < until:
        most = max(most, memory(process))
        time.sleep(1)
    time.sleep(2 * lateness + 3 * step)
    end(process, signal.SIGTERM)
    drawn = steps_closed(ledger)
    if len(published(brokers.hosts)) < 2 * drawn:  # it ended while a step waited for its moment
        process, until = started(tmp_path, brokers.hosts, lateness), time.monotonic() + 60
        while len(published(brokers.hosts)) < 2 * drawn and time.monotonic() < until:
            time.sleep(0.5)
        end(process, signal.SIGTERM)
    with Arrivals(ledger, ("person", "at", "money")) as arrivals:
        counts = {name: arrivals.number(name) for name in ("taken", "late", "unusable")}
        closed = arrivals.closed
    used = os.times()
    print(f"{used.children_user + used.children_system:.0f} s CPU in {time.monotonic() - begin:.0f} s")
    print(f"{sent:,} sent, {lying:,} in the topic, {slow} slowly; {counts}, {closed} steps, {kills} kills, {most} MB")
    assert counts["taken"] + counts["late"] == lying
    assert counts["late"] <= slow
    assert counts["unusable"] == 0
    assert closed >= seconds // step
    assert most < MOST_MEMORY
    told = [json.loads(line) for line in published(brokers.hosts)]
    assert 2 * drawn <= len(told) <= 2 * closed
    assert [(one["step"], one["release"]) for one in told] == [
        (s, r) for s in range(len(told) // 2) for r in ("there", "spent")
    ]
    verify = [sys.executable, "-m", "policyc", "verify", "visits.plan", "--quick", "--allow-unchecked"]
    said = subprocess.run(
        [*verify, "--release", "out.parquet"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr


def in_topic(hosts: str) -> int:
    """How many rows the brokers have, those included that they let go of."""
    reader = kafka.Consumer({"bootstrap.servers": hosts, "group.id": "count", "log_level": 0})
    try:
        topic = (kafka.TopicPartition("in", part) for part in range(PARTITIONS))
        return sum(reader.get_watermark_offsets(part, timeout=30)[1] for part in topic)
    finally:
        reader.close()


def published(hosts: str) -> list[bytes]:
    reader = kafka.Consumer({"bootstrap.servers": hosts, "group.id": "test", "log_level": 0})
    low, high = reader.get_watermark_offsets(kafka.TopicPartition("out", 0), timeout=10)
    reader.assign([kafka.TopicPartition("out", 0, low)])
    found: list[bytes] = []
    until = time.monotonic() + 30
    while len(found) < high - low and time.monotonic() < until:
        found += [message.value() for message in reader.consume(high - low, 0.2) if not message.error()]
    reader.close()
    return found
