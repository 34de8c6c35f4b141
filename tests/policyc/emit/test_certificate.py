from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pytest

from policyc.emit.certificate import markdown, prose, render_html, render_json, render_markdown
from policyc.emit.context import certificate_content
from policyc.planning.leakage.losses import losses_of
from policyc.planning.leakage.recursion import total_leakage
from policyc_check.errors import PlanRejectedError
from policyc_check.steps.budgets import total_budgets
from policyc_runtime.estimation import estimator_kinds
from policyc_runtime.plan import Plan

PLANS = ["traffic", "fleet", "endless_traffic", "independent_count"]


@pytest.fixture(params=PLANS)
def content(request: pytest.FixtureRequest, attachments: dict[str, str]) -> Any:
    return certificate_content(request.getfixturevalue(request.param), attachments)


class Words(HTMLParser):
    """The text of a page without styles, pictures' axes and tags."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in {"style", "svg"}:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.inside and tag == self.inside[-1]:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.words.append(data)


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    else:
        yield str(value)


@pytest.mark.parametrize("name", ["traffic", "fleet"])
def test_golden(name: str, request: pytest.FixtureRequest, attachments: dict[str, str], golden: Any) -> None:
    """The certificates of the traffic and the fleet plan say what they said before, word by word."""
    content: Any = certificate_content(request.getfixturevalue(name), attachments)
    content["integrity"]["code_sha256"] = "its SHA-256"  # another one after every change of any file
    digest = content["integrity"]["plan_digest"]  # of another machine it may be another, by last digits
    golden(f"certificates/{name}.json", render_json(content).replace(digest, "…"))
    golden(f"certificates/{name}.md", render_markdown(content).replace(digest, "…"))


def test_rendering_twice_gives_the_same_bytes(content: Any, request: pytest.FixtureRequest) -> None:
    """Nothing in a certificate depends on when or how often it is made."""
    assert render_json(content) == render_json(json.loads(render_json(content)))
    assert render_html(content) == render_html(json.loads(render_json(content)))
    assert render_markdown(content) == render_markdown(json.loads(render_json(content)))


def test_the_first_part_answers_what_an_auditor_asks_first(content: Any) -> None:
    """Unit, neighbors, adversary, span, total, assumptions and their failure, noise, reruns, accuracy come early."""
    page = Words()
    page.feed(render_html(content).split("<h2>What it means</h2>")[0])
    words = re.sub(r"[\s`]", "", "".join(page.words))
    for sentence in (
        content["promises"][0]["sentence"],
        content["promises"][0]["neighbors"],
        content["not_covered"][0]["text"],
        *(text for entry in content["assumptions"] for text in (entry["statement"], entry["if_it_fails"])),
        content["operation"]["randomness"],
        content["operation"]["rerun"],
        content["accuracy"][0]["sentence"],
    ):
        assert re.sub(r"[\s`]", "", sentence) in words


def test_two_computations_agree(traffic: Plan, attachments: dict[str, str]) -> None:
    """Computing the content again gives the same content."""
    assert certificate_content(traffic, attachments) == certificate_content(traffic, attachments)


def test_the_page_is_self_contained(content: Any) -> None:
    """A page loads nothing: no address, no script, no linked style, no image."""
    page = render_html(content)
    assert not re.search(r"https?:|//[a-z]|<script|<link|<img|<iframe|@import|url\(|srcset|javascript:", page)


def test_nothing_is_in_the_page_that_is_not_in_the_json(content: Any) -> None:
    """Every number of the page's text stands in the JSON."""
    parser = Words()
    parser.feed(render_html(content))
    known = " ".join(texts(content))
    fixed = {"256", "1", "2", "3", "0"}  # SHA-256, L1, P1: words of the template
    numbers = set(re.findall(r"\d[\d,]*\.?\d*", " ".join(parser.words)))
    missing = {n for n in (number.rstrip(".,") for number in numbers) if n not in known and n not in fixed}
    assert missing == set()


def test_an_epsilon_never_stands_alone(content: Any) -> None:
    """Every promise carries number, unit, time span and what it is about in one sentence, the adversary in the next."""
    for promise in content["promises"]:
        sentence, adversary = promise["sentence"].split(". ")[:2]
        assert f"{promise['value']} {promise['unit']}" in sentence
        assert promise["time_scope"] in sentence
        assert "one user" in sentence
        assert adversary.startswith("That is so for an adversary who knows ")


def test_every_assumption_says_who_vouches_and_what_remains(content: Any) -> None:
    """No assumption is stated without its voucher and without what holds when it fails."""
    for assumption in content["assumptions"]:
        assert all(assumption[key] for key in ("title", "statement", "vouched_by", "if_it_fails"))


def test_bounds_grow_with_the_window(content: Any) -> None:
    """A longer window is never promised less leakage, and knowing the chain is never less than ignoring it."""
    rows = content["implied_bounds"]["rows"]
    for column in ("independent", "chain"):
        values = [Decimal(row[column]) for row in rows if row[column] and row[column][0].isdigit()]
        assert values == sorted(values)
    for row in rows:
        if row["chain"] and row["chain"][0].isdigit():
            assert Decimal(row["chain"]) >= Decimal(row["independent"])


def test_tolerance_grows_from_the_claim(traffic: Plan, attachments: dict[str, str]) -> None:
    """A chain known less well leaks more, starting above the claim, never above the sum of budgets."""
    content: Any = certificate_content(traffic, attachments)
    leaks = [Decimal(row["total_leakage"]) for row in content["correlation"]["tolerance"]]
    assert leaks == sorted(leaks)
    assert traffic.claims.total_leakage is not None
    assert leaks[0] > traffic.claims.total_leakage
    assert traffic.claims.budget_sum is not None
    assert leaks[-1] <= traffic.claims.budget_sum + Decimal("0.001")
    budgets, record = total_budgets(traffic, traffic.stream.horizon), traffic.correlation.chains[0]
    for row in content["correlation"]["tolerance"]:
        sides = losses_of(record.chain(), float(row["rho"]))
        told = min(float(total_leakage(budgets, *sides, record.lags).max()), float(traffic.claims.budget_sum))
        assert float(row["total_leakage"]) == pytest.approx(told, rel=1e-4)
        assert float(row["total_leakage"]) >= told


def test_a_plan_with_a_false_claim_gets_no_certificate(traffic: Plan, attachments: dict[str, str]) -> None:
    """A claim a billionth too good is refused before anything is rendered."""
    assert traffic.claims.total_leakage is not None
    better = traffic.claims.model_copy(update={"total_leakage": traffic.claims.total_leakage - Decimal("1e-9")})
    with pytest.raises(PlanRejectedError):
        certificate_content(traffic.model_copy(update={"claims": better}).sealed(), attachments)


def test_a_check_that_did_not_run_is_not_claimed(traffic: Plan, attachments: dict[str, str]) -> None:
    """Stated matrices are called compared only where both directions are there to compare."""
    content: Any = certificate_content(traffic, attachments)
    assert "derived" in content["correlation"]["chains"][0]["reversal"]
    record = traffic.correlation.chains[0]
    rows = record.chain().backward
    backward = tuple(tuple(Decimal(repr(float(p))) for p in row) for row in rows)
    for initial in ("stationary", None):
        chain = record.model_copy(update={"backward": backward, "initial": initial})
        plan = traffic.model_copy(update={"correlation": traffic.correlation.model_copy(update={"chains": (chain,)})})
        told: Any = certificate_content(plan.sealed(), attachments)
        assert "backward one differs by at most" in told["correlation"]["chains"][0]["reversal"]


def test_large_chains_are_told_by_hash(traffic: Plan) -> None:
    """A matrix of more than 20 states is named by its hash instead of printed."""
    from policyc.emit.blocks.correlation import _matrix

    rows = tuple(tuple(Decimal(1) if i == j else Decimal(0) for j in range(21)) for i in range(21))
    assert "rows" not in (_matrix(rows) or {})
    assert "rows" in (_matrix(rows[:20]) or {})


def test_the_check_of_the_chain_is_explained(fleet: Plan, attachments: dict[str, str]) -> None:
    """An estimator that asks the noisy values says in every format why that is free, what it may find, and where."""
    (part,) = fleet.releases
    smoother = part.model_copy(update={"estimator": estimator_kinds()["smoother"].model_validate({"name": "smoother"})})
    told: Any = certificate_content(fleet.model_copy(update={"releases": (smoother,)}).sealed(), attachments)
    check = told["postprocessing"][0]["check_of_the_chain"]
    assert check["candidates"][0] == "declared chain"
    assert "no chain" in check["candidates"]
    for page in (render_markdown(told), render_html(told)):
        for words in ("released values and public numbers only, so it costs no privacy", "No chain", "hash-chained"):
            assert words in page


def test_words_of_the_policy_cannot_break_the_page(traffic: Plan, attachments: dict[str, str]) -> None:
    """Markup, backticks and bars in a purpose or an evidence are shown as they are."""
    nasty = '<script>alert("x")</script> `code` | [a](b) & "q"'
    policy = traffic.policy.model_copy(update={"purpose": nasty})
    chain = traffic.correlation.chains[0].model_copy(update={"evidence": nasty})
    correlation = traffic.correlation.model_copy(update={"chains": (chain,)})
    content = certificate_content(
        traffic.model_copy(update={"policy": policy, "correlation": correlation}).sealed(), attachments
    )
    assert "<script" not in render_html(content)
    assert "<script" not in render_markdown(content)


def test_prose_and_markdown() -> None:
    """Backticks become code in HTML, and stay code in Markdown, where other signs are escaped."""
    assert prose("a `b<c` d") == "a <code>b&lt;c</code> d"
    assert markdown("a_b `c_d` | e") == "a\\_b `c_d` \\| e"
    assert markdown(None) == "–"


@pytest.mark.law
def test_a_long_stream_makes_a_small_page(long_traffic: Plan, attachments: dict[str, str]) -> None:
    """The page of 100,000 steps stays below 1.5 MB."""
    content = certificate_content(long_traffic, attachments)
    assert len(render_html(content)) < 1_500_000
    assert len(render_json(content)) < 1_500_000
