"""What errors are expected of published values, as a plan tells them, and what was compared."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from policyc_check.records import UNSAID, Record, Steps


class Candidate(Record):
    """One combination that was considered; `predicted_error` None when it does not apply, `reason` why."""

    schedule: str
    mechanism: str
    estimator: str
    predicted_error: float | None
    chosen: bool
    reason: str


ErrorKind = Literal["expected", "simulated", "noise", "at_least", "unconstrained"]


class PredictedError(Record):
    """Mean over steps and cells of the expected error, in the objective's unit, known before any data.

    It is the error of values before any are left out.

    Args:
        kind: what `published` is. "expected": an expectation, computed from what the policy declares and the noise.
            "simulated": the mean over simulated courses of what it declares. "noise": the error of the noisy values,
            where nobody can say what estimator and constraints make of them. "at_least": a lower bound, since what
            mechanism or estimator add depends on how the stream moves. "unconstrained": a lower bound before
            constraints, which take some of it away where values lie near their bounds, and nobody says where that is.
        published: of the values that are published.
        stderr: the standard error of `published`, of "simulated" ones and bounds that were simulated; else None.
        because: a clause, why no more than this is known, of all kinds but "expected" and "simulated"; else None.
        without_postprocessing: of the values that the mechanism gives, at the steps that have one; None where that
            depends on how the stream moves, and nobody says how it does.
        prior_alone: of publishing what is public, without any data; None where no law is declared.
        signal: the mean true value, to hold the error against; None where it is not known.
        method: how it was found, as a phrase.
        before_agreeing: of what an estimator makes of a level by itself, by which levels are weighed when they are made
            to agree; None where nothing is estimated or its error is not known, so that the noise weighs.
    """

    kind: ErrorKind
    published: float
    stderr: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    because: str | None = None
    without_postprocessing: float | None
    prior_alone: float | None
    signal: float | None
    method: str
    before_agreeing: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = UNSAID

    @model_validator(mode="after")
    def _says_why(self) -> PredictedError:
        if (self.because is None) != (self.kind in ("expected", "simulated")):
            raise ValueError("errors that are not those of runs, and no others, say why no more is known")
        if self.stderr is not None and self.kind in ("expected", "noise"):
            raise ValueError("what is computed has no standard error")
        return self

    @property
    def least(self) -> str:
        """The words that belong before `published` wherever it stands, with a blank; empty unless it is a bound."""
        return {"at_least": "at least ", "unconstrained": "before constraints at least "}.get(self.kind, "")


class ErrorRun(Record):
    """Consecutive steps of equal predicted error; `steps` None means for ever."""

    error: float
    steps: Steps | None


ErrorRuns = Annotated[tuple[ErrorRun, ...], Field(min_length=1)]
