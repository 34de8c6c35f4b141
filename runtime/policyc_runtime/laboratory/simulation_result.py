"""What a simulation found, and the table that a person reads. NOT A RELEASE."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from policyc_runtime.published_values import NOT_A_RELEASE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.published_values import Release


FOLLOWING = (
    "cannot follow: at least so many steps have counts that users who move as declared reach from those before with a "
    "probability below 1e-10"
)


@dataclass(frozen=True)
class SimulatedError:
    """Mean error over steps and cells, in counts, of one way to publish; standard errors over repetitions.

    Standard errors are nan with one repetition. `chosen` marks the plan's own estimator. `impossible`: at least this
    share of steps has counts that cannot follow those before; None where no single chain says how counts move.
    """

    release: str
    estimator: str
    mean_squared_error: float
    mean_squared_error_stderr: float
    mean_absolute_error: float
    mean_absolute_error_stderr: float
    chosen: bool
    impossible: float | None = None


@dataclass(frozen=True)
class Shown:
    """Of the plan's values those that are not left out: which share they are, and their mean errors; nan for none."""

    share: float
    mean_squared_error: float
    mean_absolute_error: float


@dataclass(frozen=True)
class SimulationResult:
    """What a simulation found. NOT A RELEASE.

    Args:
        errors: for every release `prior alone`, where the policy declares a law, `dropping alone`, where events were
            drawn beyond the participation bound, and then the estimators; of all values, before any are left out.
        shown: for every release of which values are left out, what is shown.
        predicted: by release, the error the plan predicts for what it publishes, in the objective's unit; nothing for
            what is made of released values where it is not known.
        objective: which error the plan minimises.
        limits: by release, what its prediction leaves open, as a phrase; those of published values have none.
        bounds: what is said before predictions that are lower bounds, by release.
        steps: how many steps were simulated.
        repeat: how often.
        said: what true values were drawn from, and what else is to be known of them.
        strengths: how strong the correlation of each chain is.
        example: the first repetition, marked.
        truth: for every release, the true values of the example, (steps, cells).
    """

    errors: tuple[SimulatedError, ...]
    shown: dict[str, Shown]
    predicted: dict[str, float]
    objective: str
    limits: dict[str, str]
    bounds: dict[str, str]
    steps: int
    repeat: int
    said: tuple[str, ...]
    strengths: tuple[str, ...]
    example: Release
    truth: dict[str, NDArray[Any]]

    def table_lines(self) -> list[str]:
        """The table a person reads."""
        lines = [f"{NOT_A_RELEASE}: simulated values, noise from a seed; {self.steps:,} steps, {self.repeat} times"]
        lines += self.said + self.strengths
        for release in dict.fromkeys(error.release for error in self.errors):
            lines += ["", f"{release}: the plan predicts {self._prediction(release)}"]
            errors = [error for error in self.errors if error.release == release]
            width = max(28, *(len(error.estimator) + 2 for error in errors))
            follows = any(error.impossible is not None for error in errors)
            last = f"{'cannot follow':>16}" if follows else ""
            names = f"{'typical error':>16}{'mean squared error':>24}{'mean absolute error':>24}"
            lines.append(f"  {'estimator':<{width}}{names}{last}")
            for error in errors:
                squared = _with_stderr(error.mean_squared_error, error.mean_squared_error_stderr)
                absolute = _with_stderr(error.mean_absolute_error, error.mean_absolute_error_stderr)
                mark = "  <- the plan's" if error.chosen else ""
                share = "" if error.impossible is None else f"{100 * error.impossible:.3g} %"
                last = f"{share:>16}" if follows else ""
                typical = f"{math.sqrt(error.mean_squared_error):.4g}"
                lines.append(f"  {error.estimator:<{width}}{typical:>16}{squared:>24}{absolute:>24}{last}{mark}")
            if (shown := self.shown.get(release)) is not None:
                title = f"shown, {100 * shown.share:.3g} % of values"
                typical_shown = math.sqrt(shown.mean_squared_error) if shown.share else 0.0
                errors_shown = (typical_shown, shown.mean_squared_error, shown.mean_absolute_error)
                told = [f"{error:.4g}" if shown.share else "-" for error in errors_shown]
                lines.append(f"  {title:<{width}}{told[0]:>16}{told[1]:>24}{told[2]:>24}  (the others are left out)")
        if any(error.impossible is not None for error in self.errors):
            lines += ["", FOLLOWING]
        return lines

    def record(self) -> dict[str, Any]:
        """The same for programs; None for what one repetition does not tell."""
        return {
            "simulated": True,
            "steps": self.steps,
            "repeat": self.repeat,
            "objective": self.objective,
            "said": list(self.said),
            "predicted": self.predicted,
            "errors": [_finite(asdict(error)) for error in self.errors],
            "shown": {name: _finite(asdict(shown)) for name, shown in self.shown.items()},
        }

    def _prediction(self, release: str) -> str:
        if release not in self.predicted:
            return "no error: it depends on how large values are, which the policy does not say"
        unit, least = self.objective.replace("_", " "), self.bounds[release]
        error = self.predicted[release]
        typical = (
            f"typical error of {least}{math.sqrt(error):.4g}, a " if self.objective == "mean_squared_error" else ""
        )
        return f"a {typical}{unit} of {least}{error:.4g}{self.limits[release]}"


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in fields.items()
    }


def shown_of(distances: NDArray[np.float64]) -> Shown:
    """From the absolute errors of all values, nan where they are left out."""
    shown = distances[~np.isnan(distances)]
    if not shown.size:
        return Shown(0.0, math.nan, math.nan)
    return Shown(shown.size / distances.size, float((shown**2).mean()), float(shown.mean()))


def _with_stderr(mean: float, stderr: float) -> str:
    return f"{mean:.4g}" if math.isnan(stderr) else f"{mean:.4g} ± {stderr:.2g}"
