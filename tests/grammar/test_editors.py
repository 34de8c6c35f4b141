"""Colours in editors, and the extension of VS Code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from policyc.diagnostics import Source, Span
from policyc.editor.colours import written
from policyc.editor.explanations import WORDS
from policyc.offers import budget_offers, estimator_offers, mechanism_offers
from policyc.syntax import parse_policy, tree
from policyc.version import __version__

ROOT = Path(__file__).parents[2]
EDITORS = ROOT / "grammar" / "editors"
GRAMMAR = EDITORS / "policy.tmLanguage.json"
POLICIES = sorted((ROOT / "policies").rglob("*.policy"))
npm = pytest.mark.skipif(shutil.which("npm") is None, reason="no npm here")
ENGINE = ("vscode-textmate@9.3.2", "vscode-oniguruma@2.0.1")


def test_the_grammar_is_made_from_the_language(pytestconfig: pytest.Config) -> None:
    """The file has every keyword, kind and option that there is; `--bless` writes it again."""
    if pytestconfig.getoption("--bless"):
        GRAMMAR.write_text(written(), encoding="utf-8")
    text = GRAMMAR.read_text(encoding="utf-8")
    assert text == written(), "the language has changed: pytest --bless tests/grammar"
    offers = [*budget_offers().values(), *mechanism_offers().values(), *estimator_offers().values()]
    named = {*WORDS, *(one.name for one in offers), *(option.name for one in offers for option in one.options)}
    assert not named - set(re.findall(r"[a-z_0-9]+", text.replace("\\\\b", " ")))


def test_the_extension_says_what_the_product_says() -> None:
    """Its version is the product's, and it starts the command that there is."""
    package = json.loads((EDITORS / "vscode" / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((EDITORS / "vscode" / "package-lock.json").read_text(encoding="utf-8"))
    assert package["version"] == lock["version"] == __version__
    assert package["dependencies"] == lock["packages"][""]["dependencies"]
    assert 'args: ["lsp"]' in (EDITORS / "vscode" / package["main"]).read_text(encoding="utf-8")


# ---------------------------------------------------------------- with node

Colours = Callable[[list[str]], list[list[list[tuple[int, int, list[str]]]]]]


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Colours:
    """`colours(texts)`: the tokens of every line of every text, by TextMate's engine."""
    folder = tmp_path_factory.mktemp("engine")
    _run(folder, "npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *ENGINE)
    shutil.copy(Path(__file__).parent / "tokenise.js", folder)

    def colours(texts: list[str]) -> list[list[list[tuple[int, int, list[str]]]]]:
        done = subprocess.run(
            ["node", "tokenise.js", str(GRAMMAR)],
            cwd=folder, input=json.dumps(texts), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return colours


def _run(folder: Path, *words: str) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def nodes(part: object) -> Iterator[object]:
    """A node and all below it."""
    yield part
    if isinstance(part, tuple) and not isinstance(part, Span):
        for one in part:
            yield from nodes(one)
    elif is_dataclass(part):
        for one in fields(part):
            yield from nodes(getattr(part, one.name))


def expected(policy: tree.Tree) -> Iterator[tuple[int, str]]:
    """Places of a policy, and the colour that each has."""
    for comment in policy.comments:
        yield comment.span.start, "comment.line.number-sign.policy"
    for node in nodes(policy.statements):
        if isinstance(node, tree.Statement):
            yield node.span.start, "keyword.control.policy"
        elif isinstance(node, tree.CellField | tree.StreamField):
            yield node.span.start, "keyword.other.policy"
        elif isinstance(node, tree.Call) and node.function.text != "levels":
            yield node.function.span.start, "support.function.policy"
        elif isinstance(node, tree.SumOf | tree.Previous | tree.IntegerConstraint):
            yield node.span.start, "support.function.policy"
        elif isinstance(node, tree.Number | tree.Steps | tree.Duration):
            sign = policy.source.text[node.span.start] == "-"
            yield node.span.start + sign, "constant.numeric.policy"


@pytest.mark.law
@npm
def test_every_part_of_every_policy_has_its_colour(colours: Colours) -> None:
    """Statements, fields, calls, options, numbers, strings and comments of the gallery, as the parser reads them."""
    texts = [path.read_text(encoding="utf-8") for path in POLICIES]
    texts += ["policy p \"target # x\"\nstream s { user target time stream step 1d horizon unbounded } # y\n"
              "release budget = count(s)\ntarget event_level(epsilon = 1.0)\ndeliver realtime\n"]  # fmt: skip
    seen = set()
    for text, lines in zip(texts, colours(texts), strict=True):
        policy = parse_policy(Source("p.policy", text))
        for offset, scope in expected(policy):
            line, column = policy.source.line_and_column(offset)
            (found,) = [scopes for start, end, scopes in lines[line - 1] if start <= column - 1 < end]
            assert scope in found, (text.split("\n")[line - 1], column, scope, found)
            seen.add(scope)
        named = [node.name for node in nodes(policy.statements) if isinstance(node, tree.Argument) and node.name]
        quoted = [node for node in nodes(policy.statements) if isinstance(node, tree.Text)]
        for node in (*named, *quoted):
            scope = "string.quoted.double.policy" if isinstance(node, tree.Text) else "variable.parameter.policy"
            line, column = policy.source.line_and_column(node.span.start)
            (found,) = [scopes for start, end, scopes in lines[line - 1] if start <= column - 1 < end]
            assert {scope, "variable.other.policy"} & set(found), node  # a column, or the name of a release
    assert len(seen) == 5


@pytest.mark.law
@npm
def test_every_word_that_can_be_written_has_a_colour(colours: Colours) -> None:
    """Every statement with every kind and every option that it has, one a line."""
    from policyc.semantics.signatures import signatures

    cases: list[tuple[str, str, str]] = []
    for keyword, kinds in signatures().items():
        head = {"release": "release r =", "postprocess": "postprocess r {"}.get(keyword, keyword)
        for kind, parameters in kinds.items():
            shown = kind if keyword in {"deliver", "objective"} and not parameters else f"{kind}("
            scope = "support.function.policy" if shown.endswith("(") else "constant.language.policy"
            cases.append((f"{head} {shown}", kind, scope))
            cases += [
                (f"{head} {kind}({one.name} = 1", one.name, "variable.parameter.policy")
                for one in parameters if not one.positional
            ]  # fmt: skip
    for (line, word, scope), (tokens,) in zip(cases, colours([line for line, _, _ in cases]), strict=True):
        assert [s for a, b, s in tokens if line[a:b].strip() == word and scope in s], (line, word, tokens)
        first = next(scopes for start, _, scopes in tokens if start == 0)
        assert "keyword.control.policy" in first, line


@pytest.mark.law
@npm
def test_the_extension_packs(tmp_path: Path) -> None:
    """As its page says: one file that has the client, its library, the grammar and the licence."""
    text = (EDITORS / "README.md").read_text(encoding="utf-8")
    command = next(line for line in text.splitlines() if "vsce" in line).removeprefix("$ ")
    copied = tmp_path / "grammar" / "editors"
    shutil.copytree(EDITORS, copied, ignore=shutil.ignore_patterns("node_modules"))
    shutil.copy(ROOT / "LICENSE", tmp_path)
    environment = {**os.environ, "npm_config_audit": "false", "npm_config_fund": "false"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=copied, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(copied / "vscode" / f"policyc-{__version__}.vsix") as packed:
        names = set(packed.namelist())
        grammar = packed.read("extension/policy.tmLanguage.json").decode()
    wanted = {"package.json", "client.js", "language-configuration.json", "policy.tmLanguage.json", "LICENSE.txt"}
    assert {f"extension/{name}" for name in wanted} <= names
    assert "extension/node_modules/vscode-languageclient/node.js" in names
    assert grammar == written()
    _run(copied / "vscode", "node", "--check", "client.js")
