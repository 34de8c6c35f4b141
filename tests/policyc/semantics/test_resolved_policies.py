from __future__ import annotations

from decimal import Decimal

import pytest

from policyc.semantics.policy import Delivery, Wish
from policyc.semantics.targets import AlphaDPTTarget


def codes(found):
    return [finding.code for finding in found]


def laid_out(coefficients, row):
    """One number a cell."""
    return tuple(coefficients.get(cell, 0) for cell in range(row.cells))


def rows(policy):
    return policy.postprocess[0].constraints


def test_what_is_not_said_is_filled_in(findings, count_policy):
    """Delivery, objective and the compiler's own choices have defaults; they do not bear on privacy."""
    policy, found = findings(count_policy)
    assert not found
    assert policy.delivery == Delivery("offline")
    assert policy.objective == "mean_squared_error"
    assert policy.budget == policy.mechanism == policy.estimate == Wish("auto")
    assert policy.stream.start is None


def test_units_become_milliseconds_and_steps(findings, count_policy):
    """A step is a number of milliseconds; the text stays as written."""
    policy, _ = findings(count_policy.replace("5min", "2w"))
    assert policy.stream.step_milliseconds == 14 * 86_400_000
    assert policy.stream.step_text == "2w"


@pytest.mark.parametrize(("unit", "remedy"), [("m", "5min"), ("mo", "30d"), ("y", "365d"), ("months", "30d")])
def test_ambiguous_units_are_refused(findings, count_policy, unit, remedy):
    """Minutes or months is not for the compiler to decide."""
    _, found = findings(count_policy.replace("5min", f"5{unit}"))
    assert codes(found) == ["E0210"]
    assert "ambiguous" in found[0].message
    assert f"`{remedy}`" in found[0].help


@pytest.mark.parametrize(
    ("unit", "meant"), [("day", "d"), ("hours", "h"), ("minutes", "min"), ("secs", "s"), ("weeks", "w"), ("hr", "h")]
)
def test_units_in_words_are_known(findings, count_policy, unit, meant):
    """Written out, what was meant is said."""
    for written in (f"5{unit}", f"5{unit.upper()}"):
        _, found = findings(count_policy.replace("5min", written))
        assert [(one.code, one.help) for one in found] == [("E0210", f"did you mean `5{meant}`?")]
    _, found = findings(count_policy.replace("5min", f"5 {unit}"))
    assert [one.code for one in found] == ["E0122"]
    assert f"`5{meant}`" in found[0].help


def test_a_duration_for_a_horizon_is_turned_into_steps(findings, count_policy):
    """The help line does the division, whichever line of the stream comes first."""
    _, found = findings(count_policy.replace("288 steps", "1d"))
    assert codes(found) == ["E0211"]
    assert found[0].help == "write `288 steps`"


def test_targets_keep_exact_decimals(findings, rooms_policy):
    """Promised numbers never pass through a float."""
    policy, _ = findings(rooms_policy.replace("alpha = 1.0", "alpha = 0.1000000000000000000001"))
    assert isinstance(policy.targets[0], AlphaDPTTarget)
    assert policy.targets[0].alpha == Decimal("0.1000000000000000000001")


def test_prefixes_have_the_cells_of_what_they_add_up(findings, rooms_policy):
    """A running total of a release by cell has a value for each cell."""
    policy, found = findings(rooms_policy.replace("target", "release total = prefix(r)\ntarget", 1))
    assert not found
    assert [r.by for r in (*policy.releases, *policy.made)] == ["room", "room"]


def test_a_constraint_on_every_cell_is_a_row_a_cell(findings, rooms_policy):
    """Values of a release by cell are its states, `otherwise` last."""
    policy, found = findings(rooms_policy + "postprocess r { r >= 0 }")
    assert not found
    assert [laid_out(row.current, row) for row in rows(policy)] == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    assert {(row.relation, row.bound, row.text, row.line) for row in rows(policy)} == {(">=", 0, "r >= 0", 6)}


def test_sums_populations_and_cells_become_coefficients(findings, rooms_policy):
    """Both sides are brought to one, with exact arithmetic."""
    text = 'postprocess r { sum(r) == population, 0.1 * r["a"] + 3 <= 0.3 - 2 * r["away"] }'
    policy, found = findings(rooms_policy + text)
    assert not found
    total, mixed = rows(policy)
    assert (laid_out(total.current, total), total.bound) == ((1, 1, 1), 500)
    assert (laid_out(mixed.current, mixed), mixed.relation, mixed.bound) == (
        (Decimal("0.1"), 0, 2),
        "<=",
        Decimal("-2.7"),
    )


def test_the_step_before_has_coefficients_of_its_own(findings, rooms_policy):
    """`previous` works on every cell, on one, and under a sum."""
    policy, found = findings(rooms_policy + 'postprocess r { r - previous(r) <= 40, sum(r) >= previous(r["b"]) }')
    assert not found
    assert [(laid_out(row.current, row), laid_out(row.previous, row)) for row in rows(policy)] == [
        ((1, 0, 0), (-1, 0, 0)),
        ((0, 1, 0), (0, -1, 0)),
        ((0, 0, 1), (0, 0, -1)),
        ((1, 1, 1), (0, -1, 0)),
    ]


def test_a_release_without_cells_has_one_value(findings, count_policy):
    """`sum` of it is itself."""
    policy, found = findings(count_policy + "postprocess r { sum(r) <= 9, r\n  >=   0, integer(r) }")
    assert not found
    assert [laid_out(row.current, row) for row in rows(policy)] == [(1,), (1,)]
    assert rows(policy)[1].text == "r >= 0"
    assert policy.postprocess[0].integer


@pytest.mark.parametrize(
    ("constraints", "blamed"),
    [
        ("r >= 3, r <= 2", ["r <= 2"]),
        ("r >= 0, sum(r) == 10, r <= 3, r - previous(r) <= 1", ["r <= 3"]),
        ("r - previous(r) >= 10, r <= 100, r >= 0", ["r <= 100", "r >= 0"]),
        ('r["a"] <= 1, r["b"] <= 1, r["a"] + r["b"] >= 3, r["away"] >= 0', ['r["b"] <= 1', 'r["a"] + r["b"] >= 3']),
    ],
)
def test_contradictions_name_a_smallest_set(findings, rooms_policy, constraints, blamed):
    """Only constraints that are needed for the contradiction are named, also when it comes with time."""
    policy, found = findings(rooms_policy + f"postprocess r {{ {constraints} }}")
    assert codes(found) == ["E0607"]
    text = policy.source.text
    assert [text[label.span.start : label.span.end] for label in found[0].labels] == blamed


@pytest.mark.parametrize(
    "constraints", ["sum(r) == population, r >= 0, integer(r)", 'sum(r) == 500, r["a"] <= 40, r >= 0', "r <= 0"]
)
def test_constraints_that_can_hold_are_left_alone(findings, rooms_policy, constraints):
    """The solver is asked only when no constant series shows that all can hold, and then agrees."""
    assert not findings(rooms_policy + f"postprocess r {{ {constraints} }}")[1]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("evnt_level", "event_level"),
        ("epsilonn", "epsilon"),
        ("cout", "count"),
        ("unbunded", "unbounded"),
        ("lapace", "laplace"),
    ],
)
def test_misspelt_words_are_guessed(findings, count_policy, written, meant):
    """Every word that can be misspelt has its nearest word in the help line."""
    text = count_policy.replace("288 steps", "unbounded") + "mechanism laplace()\ndeliver realtime\n"
    _, found = findings(text.replace(meant, written))
    assert codes(found) == ["E0205"]
    assert found[0].help == f"did you mean `{meant}`?"


def test_findings_come_together_and_in_order(findings, rooms_policy):
    """One pass shows all that is wrong, from the top of the policy to its end."""
    text = rooms_policy.replace("by room", "by rom").replace("alpha = 1.0", "alpha = 0").replace("0.7", "0.6")
    _, found = findings(text + "objective mean\n")
    assert codes(found) == ["E0220", "E0209", "E0401", "E0205"]
    assert found == sorted(found, key=lambda d: d.span)


@pytest.mark.parametrize("text", ["", "# nothing\n", "target alpha_dpt(alpha = 1)"])
def test_a_policy_without_its_parts_is_refused(findings, text):
    """Nothing comes of a policy that lacks a name, a stream or a release."""
    policy, found = findings(text)
    assert policy is None
    assert found


PILOT = """\
policy p "one line"
stream s { user u time t step 1d horizon 30 steps start "2026-01-01" }
release r = count(s)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(5 steps, enforced = keep_first)
signal pilot(file("last.csv"), evidence = "last year")
"""


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("{n}", 1),
        ("2025-01-{n:02},{v}", 1),
        ("{n},{v}", 1),
        ("{v},2025-01-{n:02}", 1),
        ("{v},{w}", 2),
        ("{w},x,{v}", 2),
    ],
)
def test_a_pilot_is_the_only_series_of_its_file(line, numbers, findings, tmp_path):
    """Dates, words and line numbers are no series; two series are refused instead of one of them taken."""
    rows = [line.format(n=n + 1, v=100 + n % 3, w=n * n) for n in range(20)]
    if line == "{n}":
        rows = [str(100 + n % 3) for n in range(20)]
    for header in ([], [line.replace("{", "a").replace("}", "b")]):
        (tmp_path / "last.csv").write_text("\n".join([*header, *rows]) + "\n")
        policy, found = findings(PILOT)
        if numbers == 1:
            assert policy is not None
            assert policy.signal.arguments["series"][:4] == (100, 101, 102, 100)
        else:
            assert [(d.code, d.message) for d in found] == [("E0212", "the pilot file has several columns of numbers")]


@pytest.mark.parametrize("column", ["simulated", "Simulated"])
@pytest.mark.parametrize("field", ["user u", "time t", "count(s)"])
def test_no_column_says_that_events_are_simulated(findings, count_policy, field, column):
    """Of such events nothing would ever be released."""
    own = f"sum(s.{column}, clamp = 0 .. 5)" if "count" in field else f"{field[:-1]}{column}"
    _, found = findings(count_policy.replace(field, own))
    assert "E0224" in codes(found)
