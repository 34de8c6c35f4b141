"""The TextMate grammar that editors colour policies by, made from the language's own keywords, kinds and options."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from policyc.editor.completion import FUNCTIONS
from policyc.editor.explanations import FIELDS, STATEMENTS
from policyc.semantics.made import MEDIAN
from policyc.semantics.reading import OneOf
from policyc.semantics.signatures import signatures

CONSTANTS = ("auto", "false", "month", "stationary", "true", "unbounded")
UNITS = ("d", "h", "min", "ms", "s", "w")


def textmate() -> dict[str, Any]:
    """The grammar, as `grammar/editors/policy.tmLanguage.json` has it.

    A word is a keyword only where a statement or a field begins, or where it may follow: elsewhere it can be a name.
    """
    column = r"(?:[A-Za-z_]\w*|\"(?:\\.|[^\"\\])*\")"
    kinds = sorted({kind for known in signatures().values() for kind in known} | {"file", "median"} | set(FUNCTIONS))
    parameters = [one for known in signatures().values() for kind in known.values() for one in kind]
    options = sorted({one.name for one in (*parameters, *MEDIAN) if not one.positional})
    words = sorted({word for one in parameters if isinstance(one.read, OneOf) for word in one.read.options})
    bare = sorted({kind for keyword in ("deliver", "objective") for kind in signatures()[keyword]})
    stream = {
        "begin": r"\b(stream)\s+([A-Za-z_]\w*)\s*(\{)",
        "beginCaptures": _captures("keyword.control", "entity.name.type", "punctuation.section.block.begin"),
        "end": r"\}",
        "endCaptures": _captures(None, whole="punctuation.section.block.end"),
        "patterns": [
            {"include": "#comment"},
            _coloured(rf"\b(cell)\s+({column})\s+(in)\b", "keyword.other", "variable.other", "keyword.other"),
            _coloured(rf"\b(user|time)\s+({column})", "keyword.other", "variable.other"),
            _coloured(
                rf"\b({_any(word for word in FIELDS if word not in {'cell', 'user', 'time'})})\b", "keyword.other"
            ),
            _coloured(r"\b(otherwise|levels)\b", "keyword.other"),
            {"begin": r"\{", "end": r"\}", "patterns": [{"include": "#value"}]},
            {"include": "#value"},
        ],
    }
    statements = [word for word in STATEMENTS if word not in {"stream", "release", "policy", "postprocess"}]
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "policyc policy",
        "scopeName": "source.policy",
        "fileTypes": ["policy"],
        "patterns": [
            {"include": "#comment"},
            stream,
            _coloured(r"\b(policy|release|postprocess)\s+([A-Za-z_]\w*)", "keyword.control", "entity.name.type"),
            _coloured(rf"\b({_any(statements)})\s+({_any(bare)})\b(?!\s*\()", "keyword.control", "constant.language"),
            _coloured(rf"(?:^|(?<=[)}}\w]))\s*\b({_any(statements)})\b(?=\s+[A-Za-z_])", "keyword.control"),
            _coloured(rf"\b(by|for)\s+({column})", "keyword.other", "variable.other"),
            {"include": "#value"},
        ],
        "repository": {
            "comment": {"patterns": [{"name": "comment.line.number-sign.policy", "match": "#.*$"}]},
            "value": {
                "patterns": [
                    {"include": "#comment"},
                    {
                        "name": "string.quoted.double.policy",
                        "begin": '"',
                        "end": '"|$',
                        "patterns": [{"name": "constant.character.escape.policy", "match": r"\\[\"\\]"}],
                    },
                    _coloured(r"\b([0-9]+(?:_[0-9]+)*)\s+(steps?)\b", "constant.numeric", "keyword.other.unit"),
                    _coloured(rf"\b([0-9]+(?:_[0-9]+)*)({_any(UNITS)})\b", "constant.numeric", "keyword.other.unit"),
                    _coloured(
                        r"\b([0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*)?(?:[eE][+-]?[0-9]+)?)\b", "constant.numeric"
                    ),
                    _coloured(rf"\b({_any(options)})\b(?=\s*=(?!=))", "variable.parameter"),
                    _coloured(r"\b([A-Za-z_]\w*)\b(?=\s*=(?!=))", "variable.other"),
                    _coloured(rf"\b({_any(kinds)})\b(?=\s*\()", "support.function"),
                    _coloured(rf"(?<==)\s*({_any(words)})\b", "constant.language"),
                    _coloured(rf"\b({_any(CONSTANTS)})\b", "constant.language"),
                    _coloured(r"\b(population)\b", "variable.language"),
                    _coloured(r"(==|<=|>=|\.\.|[=+\-*])", "keyword.operator"),
                ]
            },
        },
    }


def written() -> str:
    """The text of the file."""
    return json.dumps(textmate(), indent=2) + "\n"


def _any(words: Iterable[str]) -> str:
    """One of these, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


def _coloured(match: str, *names: str) -> dict[str, Any]:
    """A pattern whose groups have these colours."""
    return {"match": match, "captures": _captures(*names)}


def _captures(*names: str | None, whole: str | None = None) -> dict[str, Any]:
    found = {str(group): {"name": f"{name}.policy"} for group, name in enumerate(names, 1) if name is not None}
    return found if whole is None else {"0": {"name": f"{whole}.policy"}}
