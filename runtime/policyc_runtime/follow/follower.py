"""Keeps a plan running: takes events in, closes steps by the clock, and releases each as `policyc run` does.

What came is on disk before a step closes; that it is closed, before its rows are counted; what was counted, before
noise is drawn; noise, before anything is published. Killed anywhere and started again, it goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from policyc_runtime.carried import goes_on
from policyc_runtime.errors import DataError, LedgerError
from policyc_runtime.follow.arrivals import Arrivals
from policyc_runtime.follow.clock import FollowClock
from policyc_runtime.follow.intake import Intake, wanted_columns
from policyc_runtime.follow.lines import Lines
from policyc_runtime.follow.lock import followed_alone
from policyc_runtime.follow.noise_ahead import NoiseAhead
from policyc_runtime.follow.sinks import FileSink, Sink
from policyc_runtime.follow.source import Source
from policyc_runtime.follow.timetable import Timetable
from policyc_runtime.ledger_checkpoint import read_checkpoint
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.noisy_values import ready_steps, waiting_steps
from policyc_runtime.output import note_left
from policyc_runtime.randomness import Randomness, SystemRandomness
from policyc_runtime.release import release
from policyc_runtime.sources.memory import CheckedRows
from policyc_runtime.sources.moments import agreed_start, iso_moment, unsaid_start
from policyc_runtime.sources.participation import can_carry_on, measured_releases
from policyc_runtime.sources.step_counts import every_user_in_a_cell

if TYPE_CHECKING:
    from policyc_runtime.plan import Plan
    from policyc_runtime.published_values import Release

HOUR = 3_600_000_000  # microseconds
LONGEST_READ = 500_000  # microseconds: how soon a signal is answered
TOGETHER = 1024  # steps that were due while nobody was there are released in groups of so many


class Followed(NamedTuple):
    """What is told after steps were published, all of it public.

    Args:
        first: of them.
        stop: behind the last of them.
        closed: when the last one was due to close, microseconds since 1970.
        ready: when its values were there.
        published: when they were published.
    """

    first: int
    stop: int
    closed: int
    ready: int
    published: int


class Options(NamedTuple):
    """How a plan is followed.

    Args:
        ledger: the sqlite file that remembers.
        pin: as of `release`.
        account: as of `release`.
        start: the moment of step 0, ISO, where the plan does not say it.
        lateness: microseconds after its end at which a step closes.
        pause: microseconds after that at which it is published.
    """

    ledger: Path
    pin: Path | None
    account: Path | None
    start: str | None
    lateness: int
    pause: int


def require_followable(plan: Plan) -> None:
    """Nothing when every step can be released as soon as it is over.

    Raises:
        DataError: E0861, it cannot: values wait for later steps, or which rows count depends on later ones; or one row
            that does not come would stop it.
    """
    reason, remedy = None, "write `deliver realtime` into the policy and compile it into another directory; this plan "
    remedy += "is run on whole histories by `policyc run`"
    if plan.delivery.kind == "offline":
        reason = "it delivers `offline`: its values are made of the whole stream"
    elif not can_carry_on(plan):
        reason = "`keep_sample` chooses of all steps of a user, those to come as well"
    elif ready_steps(plan, 1) < 1:
        reason = "its mechanism measures several steps together"
    elif waiting_steps(plan):
        reason = f"values of a step wait for {waiting_steps(plan):,} later ones"
    elif any(every_user_in_a_cell(plan, release) for release in measured_releases(plan)):
        reason = "every user of the population has to be in a cell at each step: one row that does not come would stop "
        reason += "it for good, and tell that"
        remedy = 'give the cell of the policy `otherwise "elsewhere"`, for users who are not seen, and compile it again'
    if reason is not None:
        raise DataError(
            "E0861",
            "this plan cannot be followed",
            where="plan.json",
            because=reason,
            help=remedy,
        )


class Follower:
    """A plan, where its events come from and where its values go.

    Args:
        plan: verified at every release.
        source: of events.
        sinks: of values.
        options: how.
        clock: that steps close by.
        randomness: where noise comes from; default the operating system's generator.
        told: called after steps were published, and once before; with how many are out, and how many of these this
            start or this call brought out.
        stopping: whether to end, asked between steps.

    `finished` says at the end whether the last step of the horizon is published.
    """

    def __init__(
        self,
        plan: Plan,
        source: Source,
        sinks: Sequence[Sink],
        options: Options,
        clock: FollowClock,
        *,
        randomness: Randomness | None = None,
        told: Callable[[Followed | None, Timetable, int, int], None] = lambda *_: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        require_followable(plan)
        self._plan = plan
        self._source = source
        self._sinks = sinks
        self._options = options
        self._clock = clock
        self._randomness = NoiseAhead(randomness or SystemRandomness())
        self._told = told
        self._stopping = stopping
        self._done = 0
        self.finished = False

    def run(self) -> None:
        """Follow until the horizon is reached, the source ends, or somebody says so.

        Raises:
            KernelError: as `release` does; what was taken in stays.
        """
        plan, ledger = self._plan, self._options.ledger
        with followed_alone(ledger), Arrivals(ledger, wanted_columns(plan)) as arrivals, ExitStack() as stack:
            released, fixed = self._released()
            times = Timetable(plan, self._start(fixed), self._options.lateness, self._options.pause)
            intake = Intake(plan, times.start)
            stack.callback(intake.close)
            arrivals.forget(released)  # what was counted stands in the history, before noise in the ledger
            arrivals.close_steps(released)
            self._done = released
            began = self._clock.now()
            there = min((arrivals.published(sink.name) for sink in self._sinks), default=released)
            self._publish(arrivals.closed, times, arrivals, None)  # what was closed; and shows whether all is well
            self._told(None, times, self._done, self._done - there)
            self._source.begin(arrivals.positions)
            stack.callback(self._source.close)
            lines = Lines(wanted_columns(plan), self._source.name, named=self._source.named)
            marked = -1  # for which step the source was asked what is there
            ended: int | None = None  # when the source was seen to have no more; what closes later has no events
            fresh = True  # something was read since values were published, however soon more are due
            while self._done < times.horizon and not self._stopping():
                now, due = self._clock.now(), times.closes(self._done)
                ended = now if ended is None and self._source.ended else ended
                if ended is not None and self._done >= times.closed(ended):
                    break
                if now >= due and self._source.tells_waiting and marked != self._done:
                    self._source.mark()
                    marked = self._done
                if now >= due and fresh and self._has_read(now, began):
                    fresh = False
                    closed = min(times.closed(now), self._done + TOGETHER)
                    self._publish(closed, times, arrivals, times.closes(closed - 1))
                else:
                    waits = due - now if due > now else LONGEST_READ if fresh else 0
                    self._take(min(waits, LONGEST_READ) / 1e6, lines, intake, arrivals)
                    fresh = True
            self.finished = self._done >= times.horizon

    def _has_read(self, now: int, began: int) -> bool:
        """Whether what waited in the source at the start was read: else it would be late for what is due by now."""
        patient = self._source.tells_waiting or now < began + self._options.lateness
        return self._source.caught_up or not patient

    def _take(self, seconds: float, lines: Lines, intake: Intake, arrivals: Arrivals) -> None:
        batch = self._source.read(seconds)
        if batch.lines or batch.positions:
            fields, unread = lines.fields(batch.lines)
            found = intake.sorted(fields)
            arrivals.take(found.rows, found.unusable + unread, batch.positions)

    def _publish(self, steps: int, times: Timetable, arrivals: Arrivals, closed: int | None) -> None:
        """Release the first so many steps, which close here, and publish those that are new."""
        arrivals.close_steps(steps)
        with ExitStack() as pieces:
            noted = {sink.name: arrivals.published(sink.name) for sink in self._sinks}
            latest = 1 + max(self._done - min(noted.values(), default=self._done), 0)
            released = self._release(steps, arrivals, latest)
            for sink in self._sinks:
                sink.ready(released, noted[sink.name], pieces)
            ready = self._clock.now()
            moment = ready if closed is None else times.publication(closed, ready)
            if not self._clock.wait_until(moment, self._stopping):
                return  # noise is in the ledger: the next start publishes it
            if steps:
                for sink in self._sinks:
                    sink.publish()
            published = self._clock.now()
        for sink in self._sinks:
            arrivals.note_published(sink.name, steps)
        arrivals.forget(steps)
        first, self._done = self._done, steps
        if closed is not None:
            self._told(Followed(first, steps, closed, ready, published), times, steps, steps - first)
        if steps:
            note_left(released, [draft for sink in self._sinks if isinstance(sink, FileSink) for draft in sink.drafts])
        if steps < times.horizon:
            with self._looked_at(latest=1 if goes_on(self._plan) else None) as book:
                self._randomness.rehearse(self._plan, book)

    def _release(self, steps: int, arrivals: Arrivals, latest: int) -> Release:
        return release(
            self._plan,
            CheckedRows(arrivals.rows(steps)),
            self._options.ledger,
            continued=True,
            start=self._options.start,
            steps=steps,
            output=next((sink.name for sink in self._sinks if isinstance(sink, FileSink)), None),
            pin=self._options.pin,
            account=self._options.account,
            randomness=self._randomness,
            latest=latest,
        )

    def _looked_at(self, latest: int | None = None) -> LedgerReader:
        """The ledger; where it is as it was left, its chain is not computed again."""
        ledger, pin = self._options.ledger, self._options.pin
        return LedgerReader.open_read_only(ledger, pin, checkpoint=read_checkpoint(ledger), latest=latest)

    def _released(self) -> tuple[int, int | None]:
        """How many steps are in the ledger, and the moment of step 0 that it fixed."""
        try:
            with self._looked_at() as book:
                return book.steps, book.start
        except LedgerError as error:
            if error.code != "E0820" or self._options.ledger.exists():
                raise
            return 0, None

    def _start(self, fixed: int | None) -> int:
        start = agreed_start(self._plan, self._options.start, fixed)
        if start is None:
            raise unsaid_start(
                self._source.name,
                "no event may say it: steps close by the clock from then on, and what is over by then at once",
                f"--start {iso_moment(self._clock.now() // HOUR * HOUR, self._plan)}",
            )
        return start
