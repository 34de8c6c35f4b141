"""Promises whose losses add up: nothing left to chance (`delta = 0`), and `rho`; compiled, run, verified, certified."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import yaml

import policyc.emit
from policyc import compile_policy
from policyc.diagnostics import Diagnostic, Source
from policyc.emit import verify_directory
from policyc.emit.context import certificate_content
from policyc.emit.difference import compare_plans, is_weaker
from policyc.emit.registry import registry_record, render_registry
from policyc.emit.summary import render_summary
from policyc.semantics import check_policy, resolve_policy
from policyc.syntax import parse_policy
from policyc_check.errors import KernelError, PlanRejectedError
from policyc_check.users.claims import setting_of, stream_largest_loss, stream_profile, stream_rho
from policyc_check.users.gaussian import gaussian_delta
from policyc_check.verify import verified_claims
from policyc_runtime.laboratory.empirical import audit
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan
from policyc_runtime.refusal import verify
from policyc_runtime.release import release
from policyc_runtime.released_file import release_claims

PURE, RHO = "epsilon = 0.5, delta = 0", "rho = 0.02"
DATA = Path(__file__).parents[1] / "data"
POLICY = """policy visits "visitors"
stream seen {{ user person time at {cell} step 1h horizon {horizon} start "2026-01-01" }}
{releases}
target user_level({promise}, neighbors = {neighbors})
participation at_most({bound}, enforced = keep_first)
deliver {deliver}
{end}
"""
PLAIN = {
    "cell": "",
    "horizon": "24 steps",
    "releases": "release there = count(seen)",
    "neighbors": "add_remove",
    "bound": "4 steps",
    "deliver": "realtime",
    "end": "",
}


def text_of(promise: str, **changes: str) -> str:
    """The policy."""
    return POLICY.format(**(PLAIN | {"promise": promise} | changes))


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Plan]:
    def plan_of(promise: str, **changes: str) -> Plan:
        path = tmp_path / "visits.policy"
        path.write_text(text_of(promise, **changes), encoding="utf-8")
        return compile_policy(path).plan

    return plan_of


def errors(text: str, folder: Path, first: str = "E") -> list[Diagnostic]:
    """What `policyc check` finds wrong."""
    policy, found = resolve_policy(parse_policy(Source("visits.policy", text)), folder)
    found = [*found, *(check_policy(policy) if policy is not None else [])]
    return [finding for finding in found if finding.code.startswith(first)]


def events(folder: Path) -> Path:
    """Of 30 users with a cell and a speed, more than the bound keeps."""
    generator = np.random.default_rng(3)
    rows = []
    for user in range(30):
        for hour in range(24):
            if generator.random() < 0.4:
                rows.append(f"p{user},2026-01-01T{hour:02}:30:00,{'AB'[user % 2]},{generator.uniform(0, 30):.1f}")
    path = folder / "events.csv"
    path.write_text("\n".join(["person,at,place,speed", *rows]) + "\n", encoding="utf-8")
    return path


def resealed(plan: Plan, *path: Any, value: Any) -> Plan:
    """The plan with one number replaced, sealed again."""
    content = json.loads(plan.to_json())
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value(inner[path[-1]]) if callable(value) else value
    return Plan.model_validate_json(json.dumps(content)).sealed()


MECHANISMS = [
    (PURE, "laplace()", {}),
    (PURE, "fast(samples = 5, process_sd = 3)", {}),
    (PURE, "dft(noise = laplace)", {"deliver": "offline"}),
    (PURE, "dft()", {"deliver": "within(3 steps)"}),
    (PURE, "auto", {"neighbors": "replace"}),
    (RHO, "gaussian()", {}),
    (RHO, "laplace()", {"neighbors": "replace"}),
    (RHO, "fast()", {}),
    (RHO, "dft(coefficients = 5)", {"deliver": "offline"}),
    (RHO, "dft(noise = laplace)", {"deliver": "offline"}),
    (RHO, "lmmse(weight = 0.5)", {}),
    (RHO, "common_noise()", {"bound": "20 steps"}),
    (RHO, "filter_subsample(rate = 0.5)", {"deliver": "offline"}),
    (RHO, "binary_tree()", {"releases": "release there = count(seen)\nrelease sofar = prefix(there)"}),
    (RHO, "toeplitz()", {"releases": "release there = count(seen)\nrelease sofar = prefix(there)"}),
    (RHO, "auto", {"horizon": "unbounded"}),
    (PURE, "auto", {"horizon": "unbounded", "bound": "3 steps, per_step = 2"}),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("promise", "mechanism", "changes"), MECHANISMS)
def test_every_mechanism_that_is_offered_runs_and_verifies(
    make: Callable[..., Plan], tmp_path: Path, promise: str, mechanism: str, changes: dict[str, str]
) -> None:
    """It is compiled, released, verified and simulated; a hundredth less noise is refused, by the name of the claim."""
    plan = make(promise, end=f"mechanism {mechanism}", **changes)
    verify(plan)
    done = release(plan, events(tmp_path), tmp_path / "l", steps=24, pin=None)
    write_release(done, tmp_path / "out.csv")
    claims = [*ledger_claims(plan, tmp_path / "l"), *release_claims(plan, tmp_path / "l", tmp_path / "out.csv")]
    assert all(claim.holds for claim in claims)
    assert simulate(plan, 1, 2, (), steps=24).errors
    for index, part in enumerate(plan.releases):
        if part.mechanism.name == "derived":
            continue
        less = part.mechanism.with_noise(0.99)  # type: ignore[union-attr]
        changed = (*plan.releases[:index], part.model_copy(update={"mechanism": less}), *plan.releases[index + 1 :])
        with pytest.raises(PlanRejectedError, match="recomputed") as refused:
            verify(plan.model_copy(update={"releases": changed}).sealed())
        assert refused.value.code == "E0843"


@pytest.mark.parametrize(
    ("promise", "path", "value"),
    [
        (PURE, ("claims", "user_level", 0, "epsilon"), "0.499999"),
        (PURE, ("targets", 0, "epsilon"), "0.499999"),
        (PURE, ("claims", "user_level", 0, "delta"), "0.1"),
        (PURE, ("claims", "user_level", 0, "beyond", 0, "epsilon"), "0.999"),
        (PURE, ("claims", "user_level", 0, "beyond"), []),
        (PURE, ("claims", "user_level"), []),
        (PURE, ("targets", 0, "relation"), "replace_one"),
        (PURE, ("participation", "bound"), 5),
        (PURE, ("releases", 0, "mechanism", "scale"), "7.99999999"),
        (RHO, ("claims", "user_level", 0, "rho"), "0.019999"),
        (RHO, ("targets", 0, "rho"), "0.019999"),
        (RHO, ("claims", "user_level", 0, "curve", 0, "epsilon"), lambda e: str(Decimal(e) * Decimal("0.999"))),
        (RHO, ("claims", "user_level", 0, "curve", 2, "epsilon"), lambda e: str(Decimal(e) * Decimal("0.999"))),
        (RHO, ("claims", "user_level", 0, "curve", 0, "delta"), "1E-5"),
        (RHO, ("claims", "user_level", 0, "curve"), []),
        (RHO, ("claims", "user_level", 0, "beyond", 0, "rho"), "0.0399"),
        (RHO, ("claims", "user_level", 0, "beyond", 1, "curve", 1, "epsilon"), "0.1"),
        (RHO, ("claims", "user_level", 0, "beyond", 0, "curve"), []),
        (RHO, ("claims", "user_level"), []),
        (RHO, ("targets", 0, "relation"), "replace_one"),
        (RHO, ("releases", 0, "mechanism", "stddev"), "9.99999999"),
    ],
)
def test_a_plan_that_claims_more_is_refused(
    make: Callable[..., Plan], promise: str, path: tuple[Any, ...], value: Any
) -> None:
    """Every claim made smaller, or its noise, in a plan that is sealed again: the check refuses it."""
    plan = make(promise)
    assert all(claim.holds for claim in verified_claims(plan))
    with pytest.raises((KernelError, ValueError)):
        verify(resealed(plan, *path, value=value))


def test_a_claim_of_another_kind_is_none(make: Callable[..., Plan]) -> None:
    """An epsilon is no claim of a promised rho, nor the other way round; and no noise keeps what it cannot."""
    pure, rho = make(PURE), make(RHO)
    for plan, other in ((pure, rho), (rho, pure)):
        claims = plan.claims.model_copy(update={"user_level": other.claims.user_level})
        with pytest.raises(PlanRejectedError, match="differs"):
            verify(plan.model_copy(update={"claims": claims}).sealed())
    gaussian = rho.releases[0].model_copy(update={"name": "there"})
    with pytest.raises(PlanRejectedError, match="no limit"):
        verify(pure.model_copy(update={"releases": (gaussian,)}).sealed())
    coins = make("epsilon = 1, delta = 1e-6", end="mechanism binomial()").releases[0]
    with pytest.raises(PlanRejectedError, match="no rho is known"):
        verify(rho.model_copy(update={"releases": (coins,)}).sealed())
    sampled = make("epsilon = 1, delta = 1e-6", end="mechanism subsample(rate = 0.5)", deliver="offline")
    for target, claims in ((pure.targets, pure.claims), (rho.targets, rho.claims)):
        with pytest.raises(PlanRejectedError, match=r"no limit|no rho"):
            verify(sampled.model_copy(update={"targets": target, "claims": claims}).sealed())


SEVERAL = (
    "release all = count(seen)\nrelease there = count(seen) by place\nrelease speed = sum(seen.speed, clamp = 0 .. 30)"
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("objective", ["mean_squared_error", "mean_absolute_error"])
@pytest.mark.parametrize("promise", [PURE, RHO])
def test_parts_of_several_releases_add_up_to_the_promise(
    make: Callable[..., Plan], promise: str, objective: str
) -> None:
    """Exactly, to no more than it and hardly less; and the certificate says what each takes."""
    cell = 'cell place in {"A", "B"}'
    plan = make(promise, releases=SEVERAL, cell=cell, end=f"objective {objective}")
    target = plan.targets[0]
    losses = []
    for part in plan.measured:
        setting = setting_of(plan, part, target)  # type: ignore[union-attr]
        lost = part.mechanism.largest_loss(setting) if promise == PURE else part.mechanism.rho(setting)
        assert lost is not None
        losses.append(lost)
    limit = Fraction("0.5") if promise == PURE else Fraction("0.02")
    assert limit * (1 - Fraction(1, 10**8)) < sum(losses) <= limit
    assert min(losses) > limit / 100
    told = [entry["lost"] for entry in certificate_content(plan, {})["mechanisms"]]  # type: ignore[index, call-overload, union-attr]
    numbers = [float(re.sub("[a-z ]", "", words)) for words in told]
    assert numbers == pytest.approx([float(loss) for loss in losses], rel=1e-5)
    assert sum(map(Fraction, map(str, numbers))) >= sum(losses)


def test_parts_are_those_of_least_error(make: Callable[..., Plan]) -> None:
    """Of two counts, one by two cells, moving a tenth of a part from one to the other raises the summed error."""
    cell = 'cell place in {"A", "B"}'
    for promise, power in ((PURE, 1), (RHO, 2)):
        both = "release all = count(seen)\nrelease there = count(seen) by place"
        plan = make(promise, releases=both, cell=cell, neighbors="replace")
        sizes = [part.mechanism.noise_size for part in plan.measured]  # type: ignore[attr-defined]
        limit = [part.mechanism.noise_size**-power for part in plan.measured]  # type: ignore[attr-defined]
        moves = [1.0, 1.0]
        for index, part in enumerate(plan.measured):
            setting = setting_of(plan, part, plan.targets[0])  # type: ignore[union-attr]
            lost = part.mechanism.largest_loss(setting) if power == 1 else part.mechanism.rho(setting)
            moves[index] = float(lost or 0) / limit[index]

        def error(part: float, moves: list[float] = moves, power: int = power, total: float = 0.0) -> float:
            whole = sum(moves[i] * sizes[i] ** -power for i in (0, 1))  # noqa: B023
            return sum((m / (whole * p)) ** (2 / power) for m, p in zip(moves, (part, 1 - part), strict=True)) + total

        own = moves[0] * limit[0] / sum(m * one for m, one in zip(moves, limit, strict=True))
        assert error(own) <= min(error(own * 1.05), error(own * 0.95)) * (1 + 1e-9)


def test_sums_under_laplace_noise_need_no_curve(make: Callable[..., Plan]) -> None:
    """Deployment 6: a clamped sum of 0 .. 101 has scale 101 / 0.9 when nothing is left to chance, whatever its grid."""
    plan = make("epsilon = 0.9, delta = 0", releases="release edits = sum(seen.n, clamp = 0 .. 101)", bound="1 steps")
    verify(plan)
    (part,) = plan.measured
    unit = float(part.query.grid)  # type: ignore[union-attr]
    assert float(part.mechanism.scale) * unit == pytest.approx(101 / 0.9, rel=1e-6)  # type: ignore[attr-defined]
    assert stream_largest_loss(plan, plan.targets[0]) <= Fraction("0.9")  # type: ignore[operator, union-attr]
    content: Any = certificate_content(plan, {})
    assert content["promises"][0]["value"] == "0.9"


WIKIMEDIA = """policy pageviews "Views of pages"
stream views {{ user device time seen_at cell page in {{"A", "B"}} step 1d horizon {horizon} start "2023-02-06" }}
release pageviews = count(views) by page
target user_level({promise}, neighbors = add_remove)
participation at_most({bound}, enforced = keep_first)
mechanism {mechanism}
estimate none()
deliver realtime
"""


@pytest.mark.parametrize(
    ("words", "field", "size", "told"),
    [
        (("2_188 steps", "epsilon = 1, delta = 0", "1 steps, per_step = 30", "laplace()"), "scale", 30.0, {"any": "1"}),
        (("1 steps", "epsilon = 0.2, delta = 0", "1 steps, per_step = 2", "laplace()"), "scale", 10.0, {"any": "0.2"}),
        (("366 steps", "rho = 0.015", "10 steps", "gaussian()"), "stddev", math.sqrt(10 / 0.03), {"1e-7": 0.7998}),
    ],
)
def test_certificates_show_published_parameters(
    tmp_path: Path, words: tuple[str, ...], field: str, size: float, told: dict[str, Any]
) -> None:
    """Deployments 5, 8 and 4, read from certificate.json: scales 30 and 10, s = 18.257, and 0.7998 nats at 1e-7."""
    names = ("horizon", "promise", "bound", "mechanism")
    path = tmp_path / "pageviews.policy"
    path.write_text(WIKIMEDIA.format(**dict(zip(names, words, strict=True))), encoding="utf-8")
    compile_policy(path).save(tmp_path / "plan")
    content = json.loads((tmp_path / "plan" / "certificate.json").read_text())
    assert float(content["mechanisms"][0]["parameters"][field]) == pytest.approx(size, rel=1e-9)
    claim = content["integrity"]["user_level_claims"][0]
    if "any" in told:
        assert content["implied_bounds"]["rows"][0]["any"] == told["any"]
        assert "delta" not in content["promises"][0]
        assert "Nothing is left to chance." in content["promises"][0]["sentence"]
        assert not [entry for entry in content["not_covered"] if "probability" in entry["title"]]
        return
    assert claim["rho"] == "0.015"
    points = {float(point["delta"]): float(point["epsilon"]) for point in claim["curve"]}
    assert list(points) == [1e-6, 1e-7, 1e-10]
    assert points[1e-7] == pytest.approx(told["1e-7"], abs=5e-5)
    for delta, epsilon in points.items():  # continuous noise, which discrete noise of this width is to six digits
        assert gaussian_delta(epsilon, math.sqrt(0.03)) <= delta * 1.001
        assert gaussian_delta(epsilon - 3e-4, math.sqrt(0.03)) > delta
        assert epsilon < 0.015 + 2 * math.sqrt(0.015 * math.log(1 / delta))  # the bound by which rho is converted
    assert [entry["lost"] for entry in content["mechanisms"]] == ["rho 0.015"]
    days = {int(row["steps"]): row["any"] for row in content["implied_bounds"]["rows"][:4]}
    assert days[366].startswith("0.549 (")


def test_the_curve_of_many_days_is_exact(tmp_path: Path) -> None:
    """Deployment 4: 31 days of rho 0.015 are rho 0.465 and 5.136 nats at 1e-7; 366 days 5.49 and 22.12."""
    path = tmp_path / "pageviews.policy"
    path.write_text(WIKIMEDIA.format(horizon="3_660 steps", promise=RHO, bound="10 steps", mechanism="gaussian()"))
    plan = compile_policy(path).plan
    target = plan.targets[0]
    for days in (31, 366):
        rho = stream_rho(plan, target, 10 * days)
        assert rho is not None
        assert float(rho) == pytest.approx(days * 0.02, rel=1e-6)
    small = plan.releases[0].mechanism.model_copy(update={"stddev": Decimal("18.25741859")})
    plan = plan.model_copy(update={"releases": (plan.releases[0].model_copy(update={"mechanism": small}),)})
    for days, epsilon in ((31, 5.136), (366, 22.12)):
        curve = stream_profile(plan, target, 10 * days).coarse
        assert curve.delta(epsilon * 1.001) < 1e-7 < curve.delta(epsilon * 0.999)


def test_documents_say_what_is_promised(make: Callable[..., Plan], tmp_path: Path) -> None:
    """Certificates, schema, registry record and summary: no delta where there is none, rho by its name."""
    schema = json.loads((Path(policyc.emit.__file__).parent / "certificate.schema.json").read_text())
    registry = json.loads((DATA / "registry_schema.json").read_text())
    said = {}
    for promise, variant, numbers in (
        (PURE, "Pure DP", {"epsilon": 0.5}),
        (RHO, "Zero-concentrated DP", {"rho": 0.02}),
        ("epsilon = 0.5, delta = 1e-6", "Approximate DP", {"epsilon": 0.5, "delta": 1e-6}),
    ):
        plan = make(promise)
        content: Any = certificate_content(plan, {})
        jsonschema.validate(content, schema)
        record = yaml.safe_load(render_registry(content))
        jsonschema.validate(record, registry)
        assert record["deployment"]["dp_variant"]["variant_name"] == variant
        assert record["deployment"]["privacy_loss"]["privacy_parameters"] == numbers
        assert registry_record(content)["deployment"]["basic"]["name"] == "visits"
        said[promise] = render_summary(plan, tmp_path)
    assert "at most 0.5 nats about all events of one user, over all 24 steps (recomputed: 0.5)" in said[PURE]
    assert "at most rho 0.02 about all events" in said[RHO]


def test_a_saved_plan_verifies_whole(tmp_path: Path) -> None:
    """Every claim, every file rendered again, the policy resolved and planned again."""
    for promise in (PURE, RHO):
        (tmp_path / "visits.policy").write_text(text_of(promise), encoding="utf-8")
        made = compile_policy(tmp_path / "visits.policy")
        made.save(tmp_path / "plan")
        claims = [*verified_claims(made.plan), *verify_directory(tmp_path / "plan")]
        assert [claim for claim in claims if claim.holds is False] == []
        assert any("nothing is left to chance" in claim.name or "rho 0.02" in claim.name for claim in claims)


@pytest.mark.law
def test_an_audit_attacks_what_is_promised(make: Callable[..., Plan]) -> None:
    """At delta 0, or where the curve of a rho is at its largest delta; half the noise proves more of the noise."""
    for promise, delta in (("epsilon = 3, delta = 0", 0), ("rho = 0.5", Decimal("1e-6"))):
        plan = make(promise, bound="2 steps")
        record = audit(plan, "2026-01-01", 2_000, seed=4)
        assert record.refuted is None
        assert [attack.id for attack in record.attacks] == ["noise", "promise"]
        assert record.attacks[1].delta == delta
        weak = audit(plan, "2026-01-01", 2_000, seed=4, noise=0.3)
        assert weak.refuted is not None


def test_diff_tells_losses_apart(make: Callable[..., Plan]) -> None:
    """More is weaker; a largest loss is a rho of half its square, and an epsilon at a delta cannot be compared."""
    loose = make("epsilon = 0.6, delta = 0")
    pure, rho = make(PURE), make(RHO)
    assert is_weaker(compare_plans(pure, loose))
    assert not is_weaker(compare_plans(loose, pure))
    assert is_weaker(compare_plans(rho, make("rho = 0.03")))
    assert not is_weaker(compare_plans(make("rho = 0.03"), rho))
    approximate = make("epsilon = 0.5, delta = 1e-6")
    promised = [change for change in compare_plans(approximate, pure) if change.what == "user_level"]
    assert [change.effect.value for change in promised] == ["stronger"]
    assert is_weaker(compare_plans(pure, approximate))
    assert is_weaker(compare_plans(approximate, rho))
    kept = [change for change in compare_plans(make("rho = 0.125"), pure) if change.what == "user_level"]
    assert [change.effect.value for change in kept] == ["stronger"]
    lost = [change for change in compare_plans(make("rho = 0.1249"), pure) if change.what == "user_level"]
    assert [change.effect.value for change in lost] == ["weaker"]
    assert "cannot be compared" in lost[0].reason


@pytest.mark.parametrize(
    ("promise", "code", "words"),
    [
        ("epsilon = 1", "E0206", "does not say its `delta`"),
        ("delta = 0", "E0206", "does not say its `epsilon`"),
        ("rho = 0.1, epsilon = 1", "E0312", "`epsilon` stands beside `rho`"),
        ("rho = 0.1, delta = 0", "E0312", "`delta` stands beside `rho`"),
        ("rho = 0", "E0209", "rho"),
        ("rho = -1", "E0209", "rho"),
        ("rho = 101", "E0311", "rho 101 promises nothing"),
        ("rho = 1e9", "E0209", "rho"),
        ("epsilon = 101, delta = 0", "E0311", "promises nothing"),
        ("epsilon = 1, delta = -1", "E0305", "between 0 and 1"),
    ],
)
def test_one_clear_finding(tmp_path: Path, promise: str, code: str, words: str) -> None:
    """What is missing, too much, or out of range: one error, with what to write."""
    found = errors(text_of(promise), tmp_path)
    assert len(found) == 1, [finding.message for finding in found]
    assert found[0].code.startswith(code)
    assert words in found[0].message
    assert found[0].help


@pytest.mark.parametrize(
    ("promise", "mechanism"),
    [
        *((PURE, name) for name in ("gaussian()", "binomial()", "toeplitz()", "common_noise()", "lmmse()")),
        (PURE, "dft(noise = gaussian)"),
        (PURE, "subsample(rate = 0.5)"),
        *((RHO, name) for name in ("binomial()", "lmmse(noise = binomial)", "subsample(rate = 0.5)")),
    ],
)
def test_noise_that_cannot_keep_a_promise_is_one_finding(tmp_path: Path, promise: str, mechanism: str) -> None:
    """E0313, with mechanisms that can."""
    (found,) = errors(text_of(promise, end=f"mechanism {mechanism}", deliver="offline"), tmp_path)
    assert found.code == "E0313"
    assert "`laplace()`" in (found.help or "")


def test_a_large_rho_is_warned_of(tmp_path: Path) -> None:
    """Above ten nats on average, unless a comment names the number."""
    for before, expected in (("", ["W0302"]), ("# 19.776, as published\n", [])):
        text = text_of("rho = 19.776").replace("target", f"{before}target")
        assert [finding.code for finding in errors(text, tmp_path, "W0302")] == expected


@pytest.mark.parametrize("promise", [PURE, RHO])
def test_a_run_on_new_rows_alone_is_a_whole_one(make: Callable[..., Plan], tmp_path: Path, promise: str) -> None:
    """With `--continued` what was released stays, the bound holds over both runs, and ledger and file verify."""
    plan = make(promise, bound="2 steps")
    lines = events(tmp_path).read_text().splitlines()
    for name, first, stop in (("early", 0, 10), ("late", 10, 24)):
        kept = [line for line in lines[1:] if first <= int(line.split("T")[1][:2]) < stop]
        (tmp_path / f"{name}.csv").write_text("\n".join([lines[0], *kept]) + "\n", encoding="utf-8")
    early = release(plan, tmp_path / "early.csv", tmp_path / "l", steps=10, continued=True, pin=None)
    done = release(plan, tmp_path / "late.csv", tmp_path / "l", steps=24, continued=True, pin=None)
    assert (done.series["there"].noisy[:10] == early.series["there"].noisy).all()
    write_release(done, tmp_path / "out.csv")
    claims = [*ledger_claims(plan, tmp_path / "l"), *release_claims(plan, tmp_path / "l", tmp_path / "out.csv")]
    assert all(claim.holds for claim in claims)


def test_a_part_that_is_not_given_away_is_not_claimed(make: Callable[..., Plan]) -> None:
    """Where parts of a promise are less than all of it, the claim is what they come to."""
    both = "release all = count(seen)\nrelease there = count(seen) by place"
    cell = 'cell place in {"A", "B"}'
    plan = make("epsilon = 1, delta = 0", releases=both, cell=cell, end="budget parts(all = 0.2, there = 0.5)")
    assert plan.claims.user_level[0].epsilon == Decimal("0.7")  # type: ignore[union-attr]
    assert stream_largest_loss(plan, plan.targets[0]) == Fraction("0.7")  # type: ignore[union-attr]
    content: Any = certificate_content(plan, {})
    assert content["promises"][0]["value"] == "1"
    assert content["promises"][0]["recomputed"].startswith("0.7 nats")
