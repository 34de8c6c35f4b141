"""How a followed plan stands, as a text file that Prometheus reads: nothing of it depends on what arrived."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from policyc_runtime.files import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from policyc_runtime.account_bound import Standing
    from policyc_runtime.follow.follower import Followed
    from policyc_runtime.follow.timetable import Timetable

FIRST = b"# HELP policyc_follow_"  # what such a file begins with


def write_metrics(
    file: Path, name: str, followed: Followed | None, done: int, times: Timetable, account: Standing | None = None
) -> None:
    """Replace the file at once.

    Args:
        file: where.
        name: the policy's.
        followed: what was published last; None before anything was.
        done: how many steps are published.
        times: when steps close.
        account: what stands in that of the plan's data set, where it names one.
    """
    lag = 0 if followed is None else followed.published - followed.closed
    values = [
        ("steps_published", "counter", "Steps whose values are published.", done),
        ("steps_left", "gauge", "Steps that the promise still covers.", times.horizon - done),
        ("lag_seconds", "gauge", "From when the last step was due to close until it was published.", lag / 1e6),
        ("lateness_seconds", "gauge", "How long after its end a step closes.", times.lateness / 1e6),
    ]
    if done < times.horizon:
        text = "When the next step closes, seconds since 1970."
        values.append(("next_close_timestamp_seconds", "gauge", text, times.closes(done) / 1e6))
    if account is not None:
        unit = "of the account of the data set, nats or rho."
        values += [
            ("account_limit", "gauge", f"The promise {unit}", float(account.limit)),
            ("account_spent", "gauge", f"What plans that ran tell, {unit}", _amount(account.spent)),
            ("account_requested", "gauge", f"What plans that did not run yet add, {unit}", _amount(account.requested)),
            ("account_left", "gauge", f"What is left {unit}", account.left),
        ]
    label = name.replace("\\", "\\\\").replace('"', '\\"')
    lines = []
    for metric, kind, told, value in values:
        full = f"policyc_follow_{metric}"
        lines += [f"# HELP {full} {told}", f"# TYPE {full} {kind}", f'{full}{{policy="{label}"}} {value}']
    write_text(file, "\n".join(lines) + "\n")


def _amount(value: float | None) -> float:
    return math.inf if value is None else value
