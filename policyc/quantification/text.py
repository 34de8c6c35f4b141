"""The report for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from policyc.diagnostics.text import visible
from policyc.quantification.meaning import meaning
from policyc.quantification.report import HEADS, MOST_ROWS, Report
from policyc_check.rounding import rounded_down

WIDTH = 100


def render_report(report: Report) -> str:
    """Words and tables, without the last line's end."""
    found, heads = report.found, [HEADS[a] for a in report.knows]
    parts = [
        f"{report.title}\n\n  budgets  {report.spent}\n  chains   {report.chains}\n",
        f"{wrapped(meaning(report))}\n",
    ]
    parts.append(table(["at most, nats; the adversary knows", *heads], report.tolerances()))
    parts.append(table(["about one step", *heads], report.growth()))
    persons = report.persons()
    if persons:
        most = (
            f"{MOST_ROWS} of {len(found.chains):,}, most first" if len(found.chains) > MOST_ROWS else "about one step"
        )
        parts.append(table([f"{'user' if found.knowledge.personal else 'group'} ({most})", *heads], persons))
    if quantiles := report.quantiles():
        parts.append(table(["at most this about one step of", *heads], quantiles))
    rows = report.steps()
    more = f" ({len(rows)} of {len(found.total):,} shown)" if len(rows) < len(found.total) else ""
    parts.append(table([f"step{more}", "budget", *(HEADS[a] for a in report.knowing)], rows))
    if report.alpha is not None:
        parts.append(tolerance(report))
    return visible_lines("\n".join(parts))


def tolerance(report: Report) -> str:
    """Whether what is tolerated is kept, by adversary."""
    steps = len(report.found.spent.budgets)
    lines = []
    for adversary in report.knows:
        within = report.found.window(adversary, 1).nats
        if adversary not in report.kept:
            over = report.exceeded and within > rounded_down(report.alpha or Decimal(0))
            held = "not kept" if over else "kept for ever"
        elif report.kept[adversary] >= steps:
            held = f"kept for all {steps:,} steps"
        else:
            held = f"kept for the first {report.kept[adversary]:,} of {steps:,} steps"
        lines.append(f"  {HEADS[adversary]:<10} {held}")
    return f"alpha {report.alpha} about one step\n" + "\n".join(lines) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned text: words to the left, numbers to the right."""
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = (
        "  "
        + "  ".join([row[0].ljust(widths[0]), *(text.rjust(w) for text, w in zip(row[1:], widths[1:], strict=True))])
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines) + "\n"


def wrapped(text: str) -> str:
    """A paragraph of so many columns."""
    import textwrap

    return textwrap.fill(text.replace(" %", "\0%"), WIDTH).replace("\0", " ")  # a number keeps its sign


def visible_lines(text: str) -> str:
    """Names may be of a file that somebody else wrote: nothing of theirs moves the cursor."""
    return "\n".join(map(visible, text.split("\n"))).rstrip("\n")
