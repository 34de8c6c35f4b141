"""The MAP model of a plan in Pyomo: readable Python that runs on its own.

Every release has a likelihood (what its noise makes of true values), a prior (what the plan knows of them beforehand)
and the constraints of the policy. One template writes the file; the modules here say what stands in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING

from policyc.emit.blocks.made import formula
from policyc.emit.map_model.constraints import ConstraintText, constraint_texts
from policyc.emit.map_model.likelihood import likelihood_of
from policyc.emit.map_model.literals import LINE_LENGTH, comment, listed, literal
from policyc.emit.map_model.measured import Likelihood
from policyc.emit.map_model.prior import Prior, prior_of, published_words
from policyc_runtime.suppression import suppresses

if TYPE_CHECKING:
    from jinja2 import Environment

    from policyc_runtime.plan import Plan
    from policyc_runtime.planned_release import ReleasePlan

AGREED = (
    "values that agree with those of other releases, the nearest to the noisy values or estimates of all: not this "
    "optimum, which is of this release alone."
)


@dataclass(frozen=True)
class ReleaseText:
    """What the template says of one release. `suffix` tells the names of several releases apart.

    `users`: what all cells add up to, for the flows of users. `curves`: whether every value has a cost of its own and
    is a whole number, so that the best whole numbers are found; else values are real numbers first, and `nearest` says
    whether the nearest ones that are allowed are sought afterwards. `step_by_step`: whether a value must not wait for
    those that constraints couple it with. `gaps`: where values are left out, whether each has a likelihood of its
    "own", so that those of the others stand without it, or they stand as a "whole"; else empty.
    """

    name: str
    suffix: str
    likelihood: Likelihood
    prior: Prior
    published: str
    users: str | None
    constants: tuple[str, ...]
    constraints: tuple[ConstraintText, ...]
    integer: bool
    couples_steps: bool
    step_by_step: bool
    gaps: str

    @property
    def said_of_gaps(self) -> str:
        """What the model makes of values that a run leaves out."""
        if self.gaps == "whole":
            return (
                "values that a run leaves out are missing here: this model needs the noisy values of all steps, as a "
                "ledger has them."
            )
        known = "stay empty" if self.prior.kind == "flat" else "are found from what is known of them beforehand"
        return f"values that a run leaves out count as not measured: they {known}. That they were small is not used."

    @property
    def curves(self) -> bool:
        """Whether the best whole numbers are found value by value."""
        return self.integer and self.likelihood.separable and self.prior.kind in ("flat", "law")

    @property
    def nearest(self) -> bool:
        """Whether the optimum is moved to the nearest values that are allowed."""
        return self.prior.kind == "flows" or (self.integer and not self.curves)

    @property
    def ties(self) -> bool:
        """Whether many values can have the least cost, and the run publishes those of least squares."""
        return self.prior.kind == "flat" and self.likelihood.separable and self.likelihood.laplace


def render_map_model(plan: Plan) -> str:
    """The text of `map_model.py`: the most probable values of every release of the plan, given its noisy ones.

    A function of the plan alone. Runs with Pyomo and the standard library: `python map_model.py OUT.csv`.
    """
    several = len(plan.releases) > 1
    releases = [release_text(plan, release, f"_{release.name}" if several else "") for release in plan.releases]
    return (
        _templates()
        .get_template("map_model.py.jinja")
        .render(
            plan=plan,
            purpose=comment(plan.policy.purpose),
            source=comment(plan.policy.source.name),
            releases=releases,
            made=[(made.name, formula(made)) for made in plan.made],
            paragraph=_paragraph,
            literal=literal,
            likelihoods={release.likelihood.kind for release in releases},
            priors={release.prior.kind for release in releases},
            curves=any(release.curves or (release.nearest and release.integer) for release in releases),
            nearest=any(release.nearest and release.integer for release in releases),
            ties=any(release.ties or release.nearest for release in releases),
            laplace=any(not release.curves and (release.likelihood.laplace or release.nearest) for release in releases),
            totals=any(release.likelihood.totals for release in releases),
            signal=any(release.prior.kind == "signal" for release in releases),
            predicts=any(
                release.prior.kind == "autoregression" or release.likelihood.options.get("predicts")
                for release in releases
            ),
            averages=any(release.likelihood.options.get("average") for release in releases),
            named=any(release.likelihood.combines for release in releases),
            gaps=any(release.gaps for release in releases),
        )
    )


@cache
def _templates() -> Environment:
    """Read once: a template takes longer to compile than to fill."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from policyc.emit.compiled_templates import CompiledTemplates

    return Environment(  # noqa: S701  the output is Python, not HTML; every value is a Python literal
        loader=PackageLoader("policyc.emit", "templates/map_model"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=CompiledTemplates(__file__),
        optimized=False,  # it would look for constants longer than it takes to fill a template once
    )


def release_text(plan: Plan, release: ReleasePlan, suffix: str) -> ReleaseText:
    """The content of one release's section."""
    population = plan.stream.population
    likelihood = likelihood_of(plan, release, suffix)
    prior = prior_of(plan, release, suffix)
    gaps = ""
    if suppresses(plan, release):
        alone = (
            likelihood.kind in ("laplace_steps", "laplace", "gaussian", "common", "filtered") and not likelihood.totals
        )
        gaps = "own" if alone and prior.start != "frequency" else "whole"
        likelihood = replace(likelihood, options={**likelihood.options, "skips": True})
    constraints, users = constraint_texts(plan, release, suffix)
    coupled = any(row.previous for row in release.constraints)
    published = published_words(release, prior, separable=likelihood.separable)
    published = AGREED if plan.agrees(release.name) else published
    return ReleaseText(
        name=release.name,
        suffix=suffix,
        likelihood=likelihood,
        prior=prior,
        published=published,
        users=users if prior.kind == "flows" else None,
        constants=(
            *([] if population is None else [f"POPULATION{suffix} = {population}"]),
            f"CELL_COLUMN{suffix} = {literal(release.query.by)}",
            *listed(f"CELLS{suffix}", [literal(cell) for cell in release.cells]),
            *likelihood.constants,
            *prior.constants,
        ),
        constraints=constraints,
        integer=release.integer,
        gaps=gaps,
        couples_steps=coupled,
        step_by_step=coupled
        and plan.delivery.kind != "offline"
        and likelihood.separable
        and prior.kind in ("flat", "law"),
    )


def _paragraph(text: str, indent: str = "") -> str:
    """Text in lines of the file's length; following ones are indented."""
    return fill(text, LINE_LENGTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
