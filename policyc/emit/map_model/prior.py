"""What a plan knows of true values before any data: constants of the emitted file, and how it says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from policyc.emit.map_model.likelihood import measured_release
from policyc.emit.map_model.literals import listed, literal, number
from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_runtime.estimation.count_process import Mixture
from policyc_runtime.estimation.signal import SignalModel
from policyc_runtime.groups import law_of
from policyc_runtime.planned_release import MeasuredRelease

if TYPE_CHECKING:
    from policyc_check.steps.chains import Chain
    from policyc_runtime.plan import Plan
    from policyc_runtime.planned_release import ReleasePlan

Kind = Literal["flat", "law", "flows", "signal", "autoregression", "moving_average"]
COUNTED = ("filter", "smoother")  # estimators of users who move along one chain
UNTIED = ("none", "mle")


@dataclass(frozen=True)
class Prior:
    """How probable true values are.

    Args:
        kind: which lines of the template state it.
        words: the same in words.
        constants: lines of Python.
        start: for `law`, the law of step 0: `initial`, `uniform` or `frequency`.
        groups: for `law` and `flows`, whether each of several groups has one of its own.
        level: whether what is said of places is counted in what they belong to.
        observation_noise: for `signal`, whether values have noise of their own beside it.
    """

    kind: Kind
    words: str
    constants: tuple[str, ...] = ()
    start: str = ""
    observation_noise: bool = False
    groups: bool = False
    level: bool = False


def prior_of(plan: Plan, release: ReleasePlan, suffix: str) -> Prior:
    """The prior of a release: what its estimator believes; where that believes nothing, what the plan says of it."""
    name, law = release.estimator.name, law_of(plan, release)
    level, offline = isinstance(law, Mixture) and law.level, plan.delivery.kind == "offline"
    if name == "joint_map" or (name in COUNTED and offline):
        constants = tuple(_law(plan, release, "initial", suffix))
        return Prior("flows", _flow_words(plan), constants, groups=plan.groups > 1, level=level)
    if name == "map" or name in COUNTED:
        start = getattr(release.estimator, "prior", "initial")
        constants = tuple(_law(plan, release, start, suffix))
        return Prior("law", _law_words(plan, release, start), constants, start, groups=plan.groups > 1, level=level)
    signal = None if name == "mle" and not _estimates(plan, release) else _signal(plan, release)
    if signal is None:
        return Prior("flat", f"flat: {_why_flat(plan, release)}")
    return _of_signal(signal, suffix) if signal.arma is None else _of_law(signal, suffix)


def _estimates(plan: Plan, release: ReleasePlan) -> bool:
    """Whether noisy values say too little of some steps to do without a prior: gaps, or estimates from few numbers."""
    base = measured_release(plan, release)[0]
    return isinstance(base, MeasuredRelease) and (base.mechanism.leaves_gaps or base.mechanism.estimates)


def _signal(plan: Plan, release: ReleasePlan) -> SignalModel | None:
    """What the plan says of how the series moves; an AR(1) process to be learned where it must say something."""
    own = getattr(release.estimator, "signal", None)
    if isinstance(own, SignalModel):
        return own
    asked = release.estimator.plain or _estimates(plan, release)
    steps = not isinstance(release.query, PrefixQuery | WindowQuery)
    if plan.signal is not None and steps and len(release.cells) == 1 and len(plan.releases) == 1:
        return plan.signal
    if not asked:
        return None
    return SignalModel(observation_noise=bool(getattr(release.estimator, "observation_noise", False)))


def _why_flat(plan: Plan, release: ReleasePlan) -> str:
    if release.estimator.name == "mle":
        return "`mle` believes nothing beforehand"
    if plan.groups > 1 and not plan.one_law:
        return "several groups without a `share` each have no common law of where a user is"
    if plan.correlation.chains:
        return "the chain is a law of counts that add up to a public number, and no constraint says so"
    if plan.signal is not None:
        return "the policy's `signal` is about the steps of one series"
    return "the policy declares no law of these values"


def _flow_words(plan: Plan) -> str:
    stirling = (
        "Relative entropies, x log(x / (users law)) at step 0 and flow log(flow / (x forward)) after it, are "
        "Stirling's form of the number of ways to move"
    )
    if plan.groups < 2:
        return (
            "the declared chain: users are independent, and flow[t, i, j] of them go from cell i at step t to cell j "
            f"at the next. {stirling}"
        )
    return (
        f"the declared chains of {plan.groups} groups, whose shares are known: users are independent, and "
        "flow[g, t, i, j] of group g go from cell i at step t to cell j at the next, own[g, t, i] of it are in cell i, "
        f"and x are all of them together. {stirling}, here of each group"
    )


def _law_words(plan: Plan, release: ReleasePlan, start: str) -> str:
    law, mixed = law_of(plan, release), plan.groups if plan.groups > 1 else 0
    begun = {
        "initial": "the declared laws of step 0" if mixed else "the declared law of step 0",
        "uniform": "all cells alike at step 0",
        "frequency": "the frequencies of the noisy values of step 0",
    }[start]
    moved = "" if law is None else ", moved on by the declared chain"
    users = "independent users of a known law"
    if mixed:
        moved = f", moved on by the chain of each of {mixed} groups, whose shares are known"
    return f"{users}, {begun}{moved}: sum of ln Gamma(r + 1) - r ln P"


def _law(plan: Plan, release: ReleasePlan, start: str, suffix: str) -> list[str]:
    """The constants of where users are: the law of step 0, and how it moves; of groups, those of each, and shares.

    At a level also the places, and what each is counted in.
    """
    constants: list[str]
    law = law_of(plan, release)
    chains = law.chains if isinstance(law, Mixture) else () if law is None else (law,)
    cells, belongs = chains[0].states if chains else len(release.cells), []
    if isinstance(law, Mixture) and law.level and plan.stream.cell is not None:
        belongs = [
            *listed(f"PLACES{suffix}", [literal(place) for place in plan.stream.cell.states]),
            *listed(f"OF{suffix}", [str(value) for value in law.of.tolist()]),
        ]
    if start == "uniform":
        first = [[1.0 / cells] * cells]
    elif start == "initial" and chains:
        first = [[float(share) for share in chain.marginal(0)] for chain in chains]
    else:
        first = []  # the frequencies of the noisy values of step 0
    if len(chains) < 2:
        constants = belongs + listed(f"FIRST_LAW{suffix}", list(map(repr, first[0]))) if first else belongs
        if law is None:
            return [*constants, f"FORWARD{suffix} = None  # no chain: the law stays what it was at step 0"]
        return [*constants, f"FORWARD{suffix} = [", *_rows(chains[0]), "]"]
    assert isinstance(law, Mixture), "there are several groups"
    constants = [*belongs, f"SHARES{suffix} = {list(law.shares)}  # of all users, those of each group"]
    if first:
        each = first if len(first) == len(chains) else first * len(chains)
        constants += [f"FIRST_LAW{suffix} = [", *(f"    {row}," for row in each), "]  # of each group"]
    blocks = [line for chain in chains for line in ("    [", *(f"    {row}" for row in _rows(chain)), "    ],")]
    return [*constants, f"FORWARD{suffix} = [", *blocks, "]  # of each group"]


def _rows(chain: Chain) -> list[str]:
    return ["    [" + ", ".join(repr(float(share)) for share in row) + "]," for row in chain.forward]


def _of_signal(signal: SignalModel, suffix: str) -> Prior:
    """An AR(1) process around a mean, and a season; None is learned from the noisy values."""
    told = {
        "mean": signal.mean,
        "sd": signal.residual_stddev,
        "autocorrelation": signal.autocorrelation,
        "seasonal_sd": signal.seasonal_stddev if signal.period else None,
    }
    if not signal.period:
        del told["seasonal_sd"]
    values = ", ".join(f'"{name}": {"None" if value is None else number(value)}' for name, value in told.items())
    season = f" and a season of {signal.period:,} steps" if signal.period else ""
    learned = [name for name, value in told.items() if value is None and name != "mean"]
    words = f"an AR(1) process{season} around a mean"
    if learned:
        words += f"; {', '.join(learned)} are learned from the noisy values, whose noise is known, or given as options"
    if signal.mean is None:
        words += "; of the mean nothing is assumed"
    if signal.observation_noise:
        words += "; values have noise of their own beside it, which is left out of what is sought"
    constants = [f"SIGNAL{suffix} = {{{values}}}  # None: learned", f"PERIOD{suffix} = {signal.period}"]
    return Prior("signal", words, tuple(constants), observation_noise=signal.observation_noise)


def _of_law(signal: SignalModel, suffix: str) -> Prior:
    """A declared law other than AR(1): covariances of values, or the moving average that has them."""
    law = signal.arma
    assert law is not None, "it is asked for such a law"
    mean = "None  # nothing is assumed of it" if signal.mean is None else number(signal.mean)
    if signal.coefficients:
        order = len(signal.coefficients)
        words = (
            f"{signal.kind} around a mean, each value given those before it; COVARIANCES are those at lags 0 to {order}"
        )
        found = [repr(float(value)) for value in law.covariances(order + 1)]
        return Prior("autoregression", words, (f"MEAN{suffix} = {mean}", *listed(f"COVARIANCES{suffix}", found)))
    words = (
        f"{signal.kind}, 0 beyond {len(signal.covariances) - 1}: those of a moving average of independent innovations, "
        "which are sought beside the values"
    )
    constants = (
        f"MEAN{suffix} = {mean}",
        *listed(f"WEIGHTS{suffix}", [repr(weight) for weight in law.weights]),
        f"INNOVATION_SD{suffix} = {law.stddev!r}",
    )
    return Prior("moving_average", words, constants)


def published_words(release: ReleasePlan, prior: Prior, *, separable: bool) -> str:
    """What a run publishes, held against this model's optimum."""
    name, own = release.estimator.name, release.estimator.described()
    whole = " The optimum is of real numbers; where the policy wants whole ones, it is the nearest that are allowed."
    if name in ("map", "joint_map"):
        return "this optimum."
    if name in UNTIED and prior.kind == "flat" and not separable:
        return (
            "the values of least absolute, then least squared distance to the noisy ones, as if their errors did not "
            "depend on each other: this optimum, where no constraint binds."
        )
    if name in UNTIED and prior.kind == "flat":
        return (
            "the values of least absolute, then least squared distance to the noisy ones: this optimum, where "
            "constraints bind single values and their sum, or one step alone under Laplace noise."
        )
    if prior.kind == "flows":
        return f"what `{own}` expects, not this optimum. `estimate joint_map()` in the policy publishes this optimum."
    if prior.kind == "law":
        return (
            f"what `{own}` expects, not this optimum. `estimate map(prior = initial)` in the policy publishes this "
            "optimum."
        )
    published = f"what `{own}` expects" if name not in UNTIED else "the noisy values, moved where constraints demand it"
    return f"{published}, not this optimum.{whole if release.integer else ''}"
