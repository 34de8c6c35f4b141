"""What is offered, explained and renamed at a place of a text, without an editor."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from prompt import policyc

from policyc.diagnostics import Source
from policyc.diagnostics.edits import edited
from policyc.editor.completion import suggestions
from policyc.editor.explanations import CONNECTIVES, FIELDS, STATEMENTS, explanation
from policyc.editor.places import Places
from policyc.editor.renaming import Refused, rename
from policyc.offers import budget_offers, estimator_offers, mechanism_offers
from policyc.semantics.checked import findings_in
from policyc.semantics.signatures import signatures
from policyc.syntax.format import FIELD_ORDER, ORDER
from policyc.syntax.parse import keywords

POLICY = """\
policy p "one line"
stream s {
  user u
  time t
  cell "my room" in {"a", "b \\"c\\""} otherwise "away"
  step 5min
  horizon 288 steps
  population 500
}
release r = count(s) by "my room"
release q = ratio(r, population)
target alpha_dpt(alpha = 1.0)
correlation markov(forward = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]], initial = stationary, evidence = "e")
"""


def offered(text: str, folder: Path = Path("nowhere")) -> dict[str, str]:
    """What is offered at the bar, and what it inserts."""
    before, after = text.split("|")
    return {one.label: one.written for one in suggestions(Source("p.policy", before + after), folder, len(before))}


@pytest.mark.parametrize(
    ("begun", "some", "none"),
    [
        ("|", {"policy", "target", "mechanism"}, {"user", "by"}),
        ("targ|", {"target"}, set()),
        ("# targ|", set(), {"target"}),
        ('policy a "targ|', set(), {"target"}),
        ("stream s {\n  user u\n  |\n  time t\n}", {"cell", "step", "dataset"}, {"user", "time", "target"}),
        ("stream s { horizon |", {"unbounded"}, {"user"}),
        ("stream s { cell x |", {"in"}, {"user"}),
        (POLICY + "mechanism |", {"auto", *mechanism_offers()}, {"smoother"}),
        (POLICY + "estimate |", {"auto", *estimator_offers()}, {"laplace"}),
        (POLICY + "budget |", {"auto", *budget_offers()}, set()),
        (POLICY + "budget parts(|", {"r"}, {"u"}),
        (POLICY + "objective mean_absolute_error(|", {"r"}, set()),
        (POLICY + "mechanism dft(|", {"coefficients", "noise"}, {"rate"}),
        (POLICY + "mechanism dft(noise = |", {"gaussian", "laplace"}, {"coefficients"}),
        (POLICY + "mechanism dft(noise = laplace, |", {"coefficients"}, {"noise"}),
        (POLICY + "estimate map(prior = u|", {"uniform", "initial"}, set()),
        (POLICY + "target user_level(epsilon = 1, neighbors = |", {"add_remove", "replace"}, {"epsilon"}),
        (POLICY + "release x = |", {"count", "sum", "total", "change"}, {"r"}),
        (POLICY + "release x = count(|", {"s"}, {"r"}),
        (POLICY + "release x = prefix(|", {"r"}, {"s", "x"}),
        (POLICY + "release x = count(s) by |", {"my room"}, {"u"}),
        (POLICY + "release x = change(r, baseline = median(|", {"every", "steps"}, {"r"}),
        (POLICY + "postprocess |", {"r", "q"}, {"x"}),
        (POLICY + "postprocess r { |", {"r", "population", "sum", "suppress"}, {"target"}),
        (POLICY + 'postprocess r { r["|', {"a", 'b "c"', "away"}, {"r"}),
        (POLICY + "postprocess r { suppress(r, where = |", {"q"}, {"population"}),
    ],
)
def test_what_is_offered(begun: str, some: set[str], none: set[str]) -> None:
    """Statements, fields, kinds, options, values and names, each where it can stand."""
    found = set(offered(begun))
    assert some <= found
    assert not none & found


def test_examples_and_quotes_are_written() -> None:
    """What must be given comes with an example; names that need quotes have them."""
    assert offered(POLICY + "release x = |")["count"] == "count(my_stream)"
    assert offered(POLICY + "target |")["alpha_dpt"] == "alpha_dpt(alpha = 1.0)"
    assert offered(POLICY + "release x = count(s) by |")["my room"] == '"my room"'
    assert offered(POLICY + 'postprocess r { r["|')['b "c"'] == 'b \\"c\\"'


def test_files_are_those_beside_the_policy(tmp_path: Path) -> None:
    """Data that a policy can name, and nothing else."""
    for name in ("cells.csv", "chain.npy", "notes.txt"):
        (tmp_path / name).write_text("x")
    assert set(offered('stream s { cell x in file("|', tmp_path)) == {"cells.csv", "chain.npy"}


def test_what_is_offered_for_a_kind_can_be_read() -> None:
    """Every kind of every statement, as it is inserted, has no fault of syntax and no unknown word."""
    for keyword in set(signatures()) - {"release", "postprocess"}:
        for written in offered(f"{keyword} |").values():
            codes = {one.code for one in findings_in(Source("p.policy", f"{keyword} {written}\n"), Path("nowhere"))}
            assert not {code for code in codes if code < "E0200" or code in {"E0205", "E0207"}}, written


def test_every_word_of_the_language_is_explained() -> None:
    """Editors have a few words for each keyword of the grammar, statements and fields in the order of the formatter."""
    assert set(STATEMENTS) | set(FIELDS) | set(CONNECTIVES) == set(keywords())
    assert (set(STATEMENTS), set(FIELDS)) == (set(ORDER), set(FIELD_ORDER))


def test_explanations() -> None:
    """A finding has its page, a kind its call, a keyword a line; comments and strings nothing."""
    text = POLICY + "mechanism subsample(rat = 0.1) # target\n"
    source = Source("p.policy", text)
    findings = findings_in(source, Path("nowhere"))

    def shown(sign: str) -> str | None:
        found = explanation(source, text.index(sign) + 1, findings)
        return None if found is None else found[0]

    assert (shown("rat =") or "").startswith("# E0205")
    assert "mechanism subsample(rate = 0.1" in (shown("subsample") or "")
    assert (shown("horizon") or "").startswith("`horizon`: how many steps")
    assert shown("target\n") is None
    assert shown("one line") is None


def test_a_release_is_renamed_where_it_is_named() -> None:
    """Everywhere, in objectives and parts too; not a word that is spelt alike."""
    text = POLICY + (
        "objective mean_squared_error(r = 2)\nbudget parts(r = 1)\n"
        'postprocess r { r - previous(r) <= 4, sum(r) == population, r["a"] >= 0,'
        " integer(r), suppress(r, where = q) }\n"
    )
    source = Source("p.policy", text)
    edits = rename(source, text.index("release r") + 8, "rooms")
    after = edited(text, edits)
    assert len(edits) == 11
    assert edited(after, rename(Source("p.policy", after), after.index("release rooms") + 8, "r")) == text
    for name in ("q", "S", "population", "1", "a b"):
        with pytest.raises(Refused):
            rename(source, text.index("release r") + 8, name)
    with pytest.raises(Refused):
        rename(source, text.index("alpha_dpt"), "rooms")
    with pytest.raises(Refused):
        rename(Source("p.policy", text + "target ("), text.index("release r") + 8, "rooms")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_places_are_counted_as_the_editor_does(encoding: str) -> None:
    """There and back, at every character; behind the end of a line is its end."""
    text = "ab\n日本𝄞x\n\nend"
    places = Places(text, encoding)  # type: ignore[arg-type]
    assert [places.offset(*places.line_and_unit(at)) for at in range(len(text) + 1)] == list(range(len(text) + 1))
    assert places.line_and_unit(text.index("x")) == (1, {"utf-8": 10, "utf-16": 4, "utf-32": 3}[encoding])
    assert places.offset(0, 99) == 2
    assert places.offset(99, 0) == len(text)


def test_any_beginning_is_survived(some, gallery: Path) -> None:
    """Wherever a policy ends, and wherever one points in it, there is an answer."""
    text = (gallery / "fleet.policy").read_text(encoding="utf-8")
    for end in some(range(len(text)), 30):
        half = Source("p.policy", text[:end])
        suggestions(half, gallery, end)
        suggestions(Source("p.policy", text), gallery, end)
        explanation(half, end, findings_in(half, gallery))


def test_a_missing_extra_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pygls the command says what to install."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pygls" else found(name, *more)
    )
    done = policyc("lsp", cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'policyc[editor]'" in done.stderr
