"""The other forms of a certificate: schema, PDF, registry record."""

from __future__ import annotations

import copy
import html
import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from markdown_it import MarkdownIt

from policyc.emit import pdf, verify_directory
from policyc.emit.certificate import Beside, PolicyText, render_html, render_markdown
from policyc.emit.context import certificate_content
from policyc.emit.directory import rewrite_certificate, write_on_demand
from policyc.emit.on_demand import ON_DEMAND
from policyc.emit.pdf import render_pdf
from policyc.emit.registry import registry_record, render_registry
from policyc.emit.signatures import Signature, Signer
from policyc.pipeline import Compilation
from policyc_check.errors import KernelError
from policyc_runtime.plan import Plan, load_plan

HAND_MADE = ["traffic", "fleet", "endless_traffic", "independent_count"]
DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads(files("policyc.emit").joinpath("certificate.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(params=HAND_MADE)
def content(request: pytest.FixtureRequest, attachments: dict[str, str]) -> Any:
    return certificate_content(request.getfixturevalue(request.param), attachments)


@pytest.fixture
def saved(save_plan: Callable[[Path, Plan], Path], planned_fleet: Plan, tmp_path: Path) -> Path:
    return save_plan(tmp_path / "fleet.plan", planned_fleet)


def test_certificates_keep_the_published_schema(content: Any, schema: Any) -> None:
    """Every kind of certificate validates, and the schema itself is one."""
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(content, schema, jsonschema.Draft202012Validator)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["bikeshare", "checkins", "departures", "fleet", "speeds", "traffic", "wards"])
def test_every_certificate_of_the_gallery_keeps_the_schema(
    name: str, compiled_gallery: Callable[[str], Compilation], schema: Any
) -> None:
    """What the gallery compiles to validates too, and its registry record reads back."""
    content = certificate_content(compiled_gallery(name).plan, {})
    jsonschema.validate(content, schema, jsonschema.Draft202012Validator)
    assert yaml.safe_load(render_registry(content))["deployment"]["basic"]["name"] == name


@pytest.mark.law
@pytest.mark.parametrize("name", HAND_MADE)
def test_the_schema_refuses_what_is_no_certificate(
    name: str, request: pytest.FixtureRequest, attachments: dict[str, str], schema: Any
) -> None:
    """A block that is missing, a number that is none, a promise without its unit are refused."""
    content: Any = certificate_content(request.getfixturevalue(name), attachments)
    worse = []
    for key in content:
        worse.append({k: v for k, v in content.items() if k != key})
    for key, value in (("value", "about 1"), ("value", 1.0), ("unit", "bits"), ("neighboring_relation", "any")):
        other = copy.deepcopy(content)
        other["promises"][0][key] = value
        worse.append(other)
    for other in worse:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(other, schema, jsonschema.Draft202012Validator)


def test_a_pdf_twice_is_the_same_bytes(content: Any) -> None:
    """No date and no chance is in it; it is a PDF, and another signer makes another one."""
    first = render_pdf(content)
    assert first == render_pdf(json.loads(json.dumps(content)))
    assert first.startswith(b"%PDF-")
    assert b"CreationDate" not in first
    assert render_pdf(content, Beside((Signature("", Signer("Ada Bell", "2026-11-21"), "ed25519:00"),))) != first


def test_words_of_a_policy_cannot_command_the_typesetter(traffic: Plan, attachments: dict[str, str]) -> None:
    """Typst markup in a purpose is set as words: a file it names is not read, and nothing fails."""
    nasty = '#read("/etc/passwd") $x$ @y <z> *b* _i_ `#panic()` "q" \\ ] #[ // c'
    policy = traffic.policy.model_copy(update={"purpose": nasty})
    content = certificate_content(traffic.model_copy(update={"policy": policy}).sealed(), attachments)
    assert render_pdf(content).startswith(b"%PDF-")


def test_without_the_extra_the_message_says_what_to_install(content: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its libraries a PDF is refused with the command to install them."""
    monkeypatch.setattr(pdf, "find_spec", lambda _name: None)
    with pytest.raises(KernelError, match="not installed") as refused:
        render_pdf(content)
    assert "policyc[pdf]" in (refused.value.help or "")


@pytest.mark.law
def test_documents_on_demand_are_verified(saved: Path) -> None:
    """Once written they are claims of their own: they hold, an altered byte fails, rendering again mends it."""
    for name in ON_DEMAND:
        path = write_on_demand(saved, name)
        original = path.read_bytes()
        assert all(claim.holds for claim in verify_directory(saved))
        for place in range(0, len(original), len(original) // 3):
            path.write_bytes(original[:place] + bytes([original[place] ^ 1]) + original[place + 1 :])
            assert [claim for claim in verify_directory(saved) if claim.holds is False], (name, place)
        rewrite_certificate(saved)
        assert path.read_bytes() == original


def test_rendering_again_changes_nothing(saved: Path) -> None:
    """`rewrite_certificate` gives the bytes that `compile` wrote."""
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    rewrite_certificate(saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


def test_another_plan_takes_its_documents_away(
    save_plan: Callable[[Path, Plan], Path], saved: Path, traffic: Plan
) -> None:
    """A PDF of the old certificate does not stay beside a new one."""
    for name in ON_DEMAND:
        write_on_demand(saved, name)
    save_plan(saved, traffic)
    assert not [name for name in ON_DEMAND if (saved / name).exists()]


def test_a_registry_record_keeps_the_registry_s_schema(content: Any) -> None:
    """The record reads back from YAML as it is, and has the fields, types and words that the registry accepts."""
    text = render_registry(content)
    record = yaml.safe_load(text)
    jsonschema.validate(record, json.loads((DATA / "registry_schema.json").read_text()))
    told = record["deployment"]
    promises = content["promises"]
    assert promises[0]["sentence"].rstrip(".") in told["privacy_loss"]["privacy_parameters_details"]
    alpha = any(promise["kind"] == "alpha_dpt" for promise in promises)
    assert (told["dp_variant"]["variant_name"] == "Custom") == alpha
    assert ("privacy_parameters" in told["privacy_loss"]) != alpha
    assert record == yaml.safe_load(yaml.safe_dump(record, allow_unicode=True))


def test_what_a_plan_cannot_know_is_marked(content: Any) -> None:
    """Curator, use, region and authors are for a person to fill in; the date is the registry's placeholder."""
    record = registry_record(content)["deployment"]
    assert record["basic"]["data_curators"] == record["administrative"]["registry_authors"] == ["TO BE FILLED IN"]
    assert record["basic"]["publication_date"] == "1900-01-01"


def test_a_pdf_has_lines_to_sign_on_and_no_date(fleet: Plan, attachments: dict[str, str]) -> None:
    """Who signs by hand finds lines for name, role, date and signature; the file itself is the same on every day."""
    pytest.importorskip("typst")
    for word in ("Name", "Role, organisation", "Date", "Signature"):
        assert f"[{word}]" in pdf.BY_HAND
    content = certificate_content(fleet, attachments)
    first = render_pdf(content)
    assert first == render_pdf(content)
    assert b"CreationDate" not in first


NASTY = """policy traffic "x"  # </pre><script>alert(1)</script> &amp; *b* #read("/etc/passwd") ] $x$
# ``` and ````, \u202eturned around\u202c, a bell \x07, a tab\there, {{ 7 * 7 }} "q" \\
"""


def test_the_policy_is_the_appendix_of_every_page(saved: Path) -> None:
    """What was compiled stands at the end of the pages, letter by letter, with the name and hash of its file."""
    policy = (saved / "fleet.policy").read_text()
    page, text = (saved / "certificate.html").read_text(), (saved / "certificate.md").read_text()
    shown = re.search(r"<pre>(.*?)</pre>", page, re.S)
    assert shown is not None
    assert html.unescape(shown[1]) == policy.strip("\n")
    assert text.endswith(f"\n```policy\n{policy.strip(chr(10))}\n```\n")
    plan = load_plan(saved)
    assert all(part.count(plan.policy.source.sha256) == 2 for part in (page, text))


def test_another_policy_is_not_shown(saved: Path) -> None:
    """A policy that changed since is not passed off as the compiled one, and it, not the pages, is said to differ."""
    policy = saved / "fleet.policy"
    policy.write_text(policy.read_text() + "# changed\n")
    refuted = [claim for claim in verify_directory(saved) if claim.holds is False]
    assert [Path(claim.where).name for claim in refuted] == ["fleet.policy"]
    unchecked = {Path(claim.where).name for claim in verify_directory(saved) if claim.holds is None}
    assert unchecked == {"certificate.html", "certificate.md"}
    rewrite_certificate(saved)
    assert "Appendix" not in (saved / "certificate.html").read_text() + (saved / "certificate.md").read_text()


def test_no_policy_can_break_its_page(content: Any) -> None:
    """Markup of any language in a policy is shown and not obeyed; what nobody sees stands by its code."""
    beside = Beside(policy=PolicyText.of("traffic.policy", "0" * 64, NASTY.encode()))
    page = render_html(content, beside)
    assert "<script" not in page
    assert "\\u{202e}turned around\\u{202c}, a bell \\u{0007}, a tab\there, {{ 7 * 7 }}" in page
    assert not re.search("[\u202e\x07]", page + render_markdown(content, beside))
    tokens = MarkdownIt("commonmark").parse(render_markdown(content, beside))
    assert tokens[-1].type == "fence"
    assert "`````" not in tokens[-1].content
    assert "``` and ````" in tokens[-1].content
    first = render_pdf(content, beside)
    assert first == render_pdf(content, beside) != render_pdf(content)
