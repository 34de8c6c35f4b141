"""Findings as people, programs and review tools see them."""

from __future__ import annotations

import json

import jsonschema
import pytest

from policyc.diagnostics import Diagnostic, Label, PolicyError, Source, Span
from policyc.diagnostics.json_output import render_json
from policyc.diagnostics.pages import all_codes, page_title, read_page
from policyc.diagnostics.sarif import render_sarif
from policyc.diagnostics.text import count_findings, render_kernel_error, render_text
from policyc_check.errors import PlanRejectedError

TEXT = "policy wards\n" * 10 + "  horizon     unbounded\n" + "\n" * 5 + "target alpha_dpt(alpha = 0.8)\n"
SOURCE = Source("wards.policy", TEXT)
TARGET = TEXT.index("target")
FOREVER = Diagnostic(
    "E0107",
    "this promise cannot hold for ever",
    Span(TARGET, TARGET + 29),
    note="needs leakage that stops growing",
    because="leakage grows by epsilon at every step",
    help="give a horizon",
    labels=(Label(Span(TEXT.index("unbounded"), TEXT.index("unbounded") + 9), "the stream never ends"),),
)


def test_model_message() -> None:
    """A finding is shown as in the model: place, line, carets, labels, reason, remedy, count."""
    assert render_text([FOREVER], SOURCE) == (
        "error[E0107]: this promise cannot hold for ever\n"
        "  --> wards.policy:17:1\n"
        "17 | target alpha_dpt(alpha = 0.8)\n"
        "   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ needs leakage that stops growing\n"
        "11 |   horizon     unbounded\n"
        "   |               --------- the stream never ends\n"
        "   = because: leakage grows by epsilon at every step\n"
        "   = help: give a horizon\n"
        "\n"
        "1 error\n"
    )


def test_count() -> None:
    """The last line counts errors and warnings in words."""
    warning = Diagnostic("W0301", "x", Span(0, 1))
    assert count_findings([FOREVER, warning, FOREVER]) == "2 errors, 1 warning"
    assert count_findings([warning, warning]) == "2 warnings"
    assert count_findings([]) == "no findings"
    assert render_text([], SOURCE) == ""


@pytest.mark.parametrize(
    ("text", "span", "shown", "carets"),
    [
        ("a b\nc d", Span(2, 7), "a b", "  ^"),
        ("\tab", Span(1, 3), "    ab", "    ^^"),
        ("a\tb", Span(0, 3), "a    b", "^^^^^^"),
        ("東京 x", Span(3, 4), "東京 x", "     ^"),
        ("e\u0301 x", Span(3, 4), "e\u0301 x", "  ^"),
        ("a\n\nb", Span(2, 2), "", "^"),
        ("ab", Span(2, 2), "ab", "  ^"),
        ("a\x1b[2Jb", Span(5, 6), "a�[2Jb", "     ^"),
    ],
)
def test_underlines(text: str, span: Span, shown: str, carets: str) -> None:
    """Carets stand under their text: over several lines the first, with tabs, wide, combining and hidden characters."""
    lines = render_text([Diagnostic("E0101", "m", span)], Source("x", text)).split("\n")
    assert lines[2].split("|", 1)[1].removeprefix(" ") == shown
    assert lines[3] == f"  | {carets}"


def test_long_lines_are_cut() -> None:
    """Of a line of a megabyte only the neighborhood is shown."""
    source = Source("x", "a" * 500_000 + " here " + "b" * 500_000)
    text = render_text([Diagnostic("E0101", "m", Span(500_001, 500_005))], source)
    assert max(map(len, text.split("\n"))) < 150
    line, carets = text.split("\n")[2:4]
    assert line[carets.index("^") :].startswith("here")


def test_color_only_adds_escapes() -> None:
    """Colored text is the plain text with escape codes in between."""
    import re

    colored = render_text([FOREVER], SOURCE, color=True)
    assert "\x1b[1;31m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render_text([FOREVER], SOURCE)


def test_json() -> None:
    """JSON has a record a finding, with lines and columns from 1 and exclusive ends."""
    (record,) = json.loads(render_json([FOREVER], SOURCE))
    assert record["code"] == "E0107"
    assert record["severity"] == "error"
    assert [record[k] for k in ("file", "line", "column", "end_line", "end_column")] == ["wards.policy", 17, 1, 17, 30]
    assert record["help"] == "give a horizon"
    assert record["labels"][0]["message"] == "the stream never ends"
    assert record["labels"][0]["line"] == 11
    assert json.loads(render_json([], SOURCE)) == []


SARIF_SHAPE = {
    "type": "object",
    "required": ["version", "runs", "$schema"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "required": ["id", "shortDescription", "help"],
                                            "properties": {
                                                "shortDescription": {"required": ["text"]},
                                                "help": {"required": ["text"]},
                                            },
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "required": ["message", "ruleId", "level", "locations"],
                            "properties": {
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {"required": ["text"]},
                                "locations": {"type": "array", "items": {"$ref": "#/$defs/location"}},
                                "relatedLocations": {"type": "array", "items": {"$ref": "#/$defs/location"}},
                            },
                        },
                    },
                },
            },
        },
    },
    "$defs": {
        "location": {
            "required": ["physicalLocation"],
            "properties": {
                "physicalLocation": {
                    "required": ["artifactLocation", "region"],
                    "properties": {
                        "artifactLocation": {"properties": {"uri": {"type": "string", "pattern": r"^[^\s\\:]+$"}}},
                        "region": {
                            "required": ["startLine"],
                            "additionalProperties": {"type": "integer", "minimum": 1},
                        },
                    },
                }
            },
        }
    },
}


def test_sarif() -> None:
    """SARIF has the shape of version 2.1.0; its rules are the pages of what was found."""
    other = Source("my policies/a.policy", "x")
    log = json.loads(
        render_sarif([(SOURCE, [FOREVER]), (other, [FOREVER.__class__("E0101", "m", Span(0, 1))])], "0.1.0")
    )
    jsonschema.validate(log, SARIF_SHAPE)
    (run,) = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["E0101", "E0107"]
    assert [result["ruleIndex"] for result in run["results"]] == [1, 0]
    uris = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]]
    assert uris == ["wards.policy", "my%20policies/a.policy"]
    jsonschema.validate(json.loads(render_sarif([], "0.1.0")), SARIF_SHAPE)


def test_kernel_errors() -> None:
    """A refusal of the kernel has the shape of a finding, with its place in words."""
    error = PlanRejectedError(
        "E0801", "plan refused", where="plan.json: releases.0", because="too much", help="compile again"
    )
    assert render_kernel_error(error) == (
        "error[E0801]: plan refused\n  --> plan.json: releases.0\n   = because: too much\n   = help: compile again\n"
    )
    assert render_kernel_error(PlanRejectedError("E0801", "plan refused")) == "error[E0801]: plan refused\n"


def test_pages() -> None:
    """Every page begins with its code and a title; an unknown code, or a path, has no page."""
    assert "E0101" in all_codes()
    for code in all_codes():
        assert read_page(code).startswith(f"# {code}: ")
        assert page_title(code)
        assert page_title(code)[-1] != "."
    for code in ("E9999", "../pages/E0101", "", "e0101"):
        with pytest.raises(LookupError):
            read_page(code)


def test_policy_error_names_the_first_error() -> None:
    """The exception itself names file, line, code and message, for those who print it bare."""
    error = PolicyError(SOURCE, [Diagnostic("W0301", "w", Span(0, 1)), FOREVER])
    assert str(error) == "wards.policy:17:1: E0107: this promise cannot hold for ever"


def test_a_place_is_on_one_line_whatever_a_file_is_called():
    """Line breaks, colors and bytes that are no text stand as escapes."""
    from policyc.diagnostics.text import render_kernel_error
    from policyc_runtime.errors import DataError

    text = render_kernel_error(DataError("E0810", "no", where="a\nb\x1b[31m\udcff größe.csv"))
    assert text.splitlines()[1] == "  --> a\\nb\\x1b[31m\\udcff größe.csv"


def test_nobody_gets_colors_who_asked_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal has colors, unless NO_COLOR is set to anything; what is no terminal has none."""
    from policyc.diagnostics.text import wants_color

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert wants_color()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_color()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    assert not wants_color()
