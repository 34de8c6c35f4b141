"""The command that keeps a plan running."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from policyc.cli.arguments import AccountOption, LedgerOption, PlanDirectory

if TYPE_CHECKING:
    from policyc_runtime.account_bound import Standing
    from policyc_runtime.follow.follower import Followed, Options
    from policyc_runtime.follow.sinks import Sink
    from policyc_runtime.follow.source import Source
    from policyc_runtime.follow.timetable import Timetable
    from policyc_runtime.plan import Plan

KAFKA = "kafka://"
UNITS = {"ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
DURATION = re.compile(rf"(\d{{1,9}})({'|'.join(UNITS)})")
PAUSE = "1s"
SHORT = 500_000  # microseconds: counting a step takes this long on a busy machine


def _duration(option: str, text: str) -> int:
    """`30s` in microseconds."""
    found = DURATION.fullmatch(text.strip())
    if found is None:
        said = f"{text!r} is no duration: write a number and one of {', '.join(UNITS)}, such as 30s"
        raise typer.BadParameter(said, param_hint=option)
    return int(found[1]) * UNITS[found[2]]


def follow(
    directory: PlanDirectory,
    source: Annotated[
        str, typer.Option("--input", metavar="SOURCE", help="`-`: NDJSON or CSV lines; kafka://HOST/TOPIC.")
    ],
    outputs: Annotated[
        list[str], typer.Option("--output", metavar="OUT", help="CSV or Parquet, or NDJSON: `-`, kafka://HOST/TOPIC.")
    ],
    lateness: Annotated[
        str | None,
        typer.Option(
            "--lateness",
            metavar="TIME",
            help="A step closes this long after its end. Default: a tenth of it, 1s to 5min.",
        ),
    ] = None,
    pause: Annotated[
        str, typer.Option("--pause", metavar="TIME", help="Values are published this long after a step closed.")
    ] = PAUSE,
    metrics: Annotated[
        Path | None,
        typer.Option("--metrics", metavar="FILE", help="Write how it stands there, as Prometheus reads it."),
    ] = None,
    kafka: Annotated[
        Path | None, typer.Option("--kafka", metavar="FILE", help="Properties of librdkafka, `name = value` a line.")
    ] = None,
    ledger: LedgerOption = None,
    account: AccountOption = None,
    start: Annotated[
        str | None,
        typer.Option("--start", metavar="MOMENT", help="When step 0 begins, if the policy does not say it; first run."),
    ] = None,
) -> None:
    """Keep a plan running: events arrive, steps close by the clock, and each is published once, also without events.

    \b
    A row that comes for a closed step is dropped; moments without a zone are UTC, or the policy's clock.
    SIGTERM and Ctrl-C end it between steps; started again it goes on. It says what it does on standard error.
    For programs: values as NDJSON (`--output -`), how it stands (`--metrics`: steps, lag, the account), exit codes.

    \b
    tail -F events.ndjson | policyc follow visits.plan --input - --output visits.csv
    policyc follow visits.plan --input - --output - --lateness 30s
    policyc follow visits.plan --input kafka://broker:9092/seen --output kafka://broker:9092/visits
    """
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):  # first: what is asked of it while all is read is heard, too
        signal.signal(number, lambda got, _: stopped.append(got))
    from policyc.emit import require_signed, require_unchanged
    from policyc_runtime.follow.clock import MachineClock
    from policyc_runtime.follow.follower import Follower, Options, require_followable
    from policyc_runtime.follow.timetable import usual_lateness
    from policyc_runtime.ledger_seal import LEDGER, PIN
    from policyc_runtime.plan import load_plan

    plan = load_plan(directory)
    require_unchanged(directory, plan)
    require_signed(directory, plan)
    require_followable(plan)
    late = usual_lateness(plan) if lateness is None else _duration("--lateness", lateness)
    waits = _duration("--pause", pause)
    if waits == 0:
        said = "without a pause values would be out when counting is done, and that moment tells how much came"
        raise typer.BadParameter(said, param_hint="--pause")
    options = Options(ledger or directory / LEDGER, directory / PIN, account, start, late, waits)
    metrics = _metrics_file(metrics, _output_files(plan, outputs, options), options)
    if source != "-" and source in outputs:
        raise typer.BadParameter("events come from this topic: values would be among them", param_hint="--output")
    with ExitStack() as stack:
        told = _properties(kafka)
        sinks = []
        for sink in _sinks(outputs, told, lambda: bool(stopped)):
            stack.callback(sink.close)
            sinks.append(sink)
        read = _source(source, told)
        _require_other_topics(source, outputs, told)
        follower = Follower(
            plan,
            read,
            sinks,
            options,
            MachineClock(late),
            told=lambda *said: _say(plan, metrics, account, *said),
            stopping=lambda: bool(stopped),
        )
        follower.run()
    why = "the last step is published" if follower.finished else "asked to" if stopped else "the input is at its end"
    _tell(f"ended: {why}")


def _tell(text: str) -> None:
    """One line on standard error; where nobody can read it, values are published without it."""
    with suppress(OSError):
        typer.echo(text, err=True)


def _source(name: str, properties: Mapping[str, str]) -> Source:
    from policyc_runtime.follow.standard_input import StandardInput

    if name == "-":
        _require_open(sys.stdin, "--input", os.O_WRONLY)
        return StandardInput()
    if not name.startswith(KAFKA):
        raise typer.BadParameter("events come from `-`, standard input, or kafka://host/topic", param_hint="--input")
    from policyc_runtime.follow.kafka import Topic
    from policyc_runtime.follow.kafka_source import KafkaSource

    topic = Topic.of(name, properties)
    _tell(f"asking for {name}")  # brokers may be away for half a minute
    return KafkaSource(topic)


def _require_other_topics(source: str, outputs: list[str], properties: Mapping[str, str]) -> None:
    """Nothing when values go to no topic that events come from, and to none twice, by whatever brokers it is named."""
    named = [name for name in outputs if name.startswith(KAFKA)]
    if not named or (len(named) == 1 and not source.startswith(KAFKA)):
        return
    from policyc_runtime.follow.kafka import Topic, one_topic

    events = Topic.of(source, properties) if source.startswith(KAFKA) else None
    topics = [Topic.of(name, properties) for name in named]
    for number, (name, topic) in enumerate(zip(named, topics, strict=True)):
        if events is not None and one_topic(events, topic):
            said = f"{name} is the topic that events come from: values would be among them"
            raise typer.BadParameter(said, param_hint="--output")
        if any(one_topic(other, topic) for other in topics[:number]):
            said = f"{name} is a topic that is named already: values would stand there twice"
            raise typer.BadParameter(said, param_hint="--output")


def _sinks(names: list[str], properties: Mapping[str, str], stopping: Callable[[], bool]) -> Iterator[Sink]:
    from policyc_runtime.follow.sinks import FileSink, StandardOutput

    files = [name for name in names if _is_file(name)]
    if len(files) > 1 or len(set(names)) < len(names):
        raise typer.BadParameter("values go to one file at most, and to every other place once", param_hint="--output")
    for name in names:
        if name.startswith(KAFKA):
            from policyc_runtime.follow.kafka import Topic
            from policyc_runtime.follow.kafka_sink import KafkaSink

            topic = Topic.of(name, properties)
            _tell(f"asking for {name}")
            yield KafkaSink(topic, stopping)
        else:
            if name == "-":
                _require_open(sys.stdout, "--output", os.O_RDONLY)
            yield StandardOutput(stopping=stopping) if name == "-" else FileSink(name)


def _require_open(stream: TextIO | None, option: str, never: int) -> None:
    """Nothing when a standard stream is there: the number of a closed one is that of the next file, say the ledger.

    `never` is how it may not be opened: for reading alone, or for writing alone.
    """
    if stream is None or fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_ACCMODE == never:
        raise typer.BadParameter("`-` is closed here: nothing is read from it or written to it", param_hint=option)


def _output_files(plan: Plan, outputs: list[str], options: Options) -> list[Path]:
    """The files that values go to, none of which is the ledger's."""
    from policyc_runtime.output_place import output_paths, require_beside

    named = [*(one.name for one in plan.releases), *(one.name for one in plan.made)]
    files = [file for out in outputs if _is_file(out) for file in output_paths(named, out).values()]
    require_beside(files, options.ledger, options.pin)
    return files


def _is_file(output: str) -> bool:
    return output != "-" and not output.startswith(KAFKA)


def _metrics_file(name: Path | None, outputs: list[Path], options: Options) -> Path | None:
    """The file that a name means; what is there may be written over: metrics or nothing, no output and no ledger."""
    from policyc_check.errors import KernelError
    from policyc_check.files import read_ordinary
    from policyc_runtime.files import followed
    from policyc_runtime.follow.metrics import FIRST
    from policyc_runtime.output_place import require_beside

    if name is None:
        return None
    try:
        file = followed(name)
        if file.resolve() in {followed(out).resolve() for out in outputs}:
            raise typer.BadParameter("values go to this file: name another", param_hint="--metrics")
        require_beside([file], options.ledger, options.pin)
        there = read_ordinary(file) if file.exists() else b""
    except KernelError as error:
        raise typer.BadParameter(f"{error.because}: name another", param_hint="--metrics") from None
    except OSError as error:
        raise typer.BadParameter(f"{error.strerror}: name another", param_hint="--metrics") from None
    if there and not there.startswith(FIRST):
        raise typer.BadParameter("this file exists and holds no metrics: name another", param_hint="--metrics")
    return file


def _properties(file: Path | None) -> dict[str, str]:
    """What a file says, `name = value` a line."""
    if file is None:
        return {}
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise typer.BadParameter("this file is no text: write `name = value` a line", param_hint="--kafka") from None
    told = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        name, sign, value = line.partition("=")
        if line.startswith("#") or not line:
            continue
        if not sign or not name.strip():
            lacks = "no name before its `=`" if sign else "no `=`"
            raise typer.BadParameter(f"line {number} has {lacks}: write `name = value` a line", param_hint="--kafka")
        told[name.strip()] = value.strip()
    return told


@lru_cache(maxsize=1)
def _standing(account: Path, changed: int) -> Standing:  # noqa: ARG001
    """What stands in an account, added up again when somebody wrote to it: that takes seconds of many plans."""
    from policyc_runtime.account import Account

    with Account.open(account, to_write=False) as opened:
        return opened.standing()


def _overdue(waiting: int, done: int) -> str:
    """What is published at once, in words: of a stream that begins in the past, which may have other events to show."""
    steps = "1 step is overdue: it is" if waiting == 1 else f"{waiting:,} steps are overdue: they are"
    which = "it" if waiting == 1 else "them"
    way = f"; to release {which} from events of {'its' if waiting == 1 else 'their'} own, end this and `policyc run "
    way += f"--continued --steps {waiting}` first"
    return f"{steps} published as soon as events that wait, if any, are read{'' if done else way}"


def _drawn_before(done: int, fresh: int) -> str:
    """Which steps had their noise when somebody ended an earlier start, and were published by this one."""
    which = f"step {done - 1:,}" if fresh == 1 else f"steps {done - fresh:,} to {done - 1:,}"
    return f", {which} just now: noise was drawn before" if fresh else ""


def _say(
    plan: Plan,
    metrics: Path | None,
    account: Path | None,
    followed: Followed | None,
    times: Timetable,
    done: int,
    fresh: int,
) -> None:
    """One line on standard error, and the metrics: what is public."""
    from policyc_check.errors import KernelError
    from policyc_runtime.follow.metrics import write_metrics
    from policyc_runtime.sources.moments import iso_moment

    if metrics is not None:
        at = "" if account is None else f"the account {account}: "
        try:
            standing = None if account is None else _standing(account, account.stat().st_mtime_ns)
            at = ""
            write_metrics(metrics, plan.policy.name, followed, done, times, standing)
        except (OSError, KernelError) as error:  # values are published without them
            said = error.strerror if isinstance(error, OSError) else str(error)
            _tell(f"warning: {metrics} is not written: {at}{said}")
    if followed is None:
        of_all = "" if plan.stream.horizon is None else f" of {plan.stream.horizon:,}"
        now = time.time_ns() // 1000
        begins = "began" if times.start <= now else "begins"
        _tell(
            f"{plan.policy.name}: {done:,}{of_all} steps are published{_drawn_before(done, fresh)}; step 0 {begins} at "
            f"{iso_moment(times.start, plan)}; steps close {times.lateness / 1e6:g} s after their end, and are "
            f"published {times.pause / 1e6:g} s after that",
        )
        if times.pause < SHORT:
            said = "reading and counting may take longer than the pause, which tells that so much came"
            _tell(f"warning: {said}: let `--pause` be longer than the busiest step takes")
        if (waiting := times.closed(now) - done) > 0:  # less where a clock was set back, or steps close later now
            _tell(_overdue(waiting, done))
        return
    last, later = followed.stop - 1, (followed.published - followed.closed) / 1e6
    steps = f"step {last:,}" if followed.first == last else f"steps {followed.first:,} to {last:,}"
    due = "due" if followed.first == last else "the last due"
    _tell(f"{steps}: {due} {iso_moment(followed.closed, plan)}, published {later:.1f} s later")
