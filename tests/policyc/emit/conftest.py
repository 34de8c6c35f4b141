"""Plans made by hand: certificates are rendered from a plan alone, so no compiler is needed to test them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from policyc import __version__
from policyc.emit import directory as directory_of_plan
from policyc_check.plan.claims import Claims
from policyc_check.plan.correlation import ChainRecord, Correlation
from policyc_check.plan.queries import CountQuery
from policyc_check.plan.schedule import BudgetSegment
from policyc_check.plan.stream import CellRecord, Delivery, StreamRecord
from policyc_check.plan.targets import AlphaDPT, EventLevel
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.plan import FileRecord, Notice, Plan, PolicyRecord
from policyc_runtime.planned_release import BudgetedRelease
from policyc_runtime.predicted_errors import Candidate, PredictedError
from policyc_runtime.schedule import Schedule

sys.path.insert(0, str(Path(__file__).parent))  # for sentence_numbers

TRAFFIC_CHAIN = (("0.33", "0.33", "0.34"), ("0.80", "0.10", "0.10"), ("0.05", "0.90", "0.05"))
FLEET_CHAIN = (
    ("0.3091", "0.0199", "0.0302", "0.6408"),
    ("0.0196", "0.4697", "0.0346", "0.4761"),
    ("0.0422", "0.0359", "0.3308", "0.5911"),
    ("0.0449", "0.0321", "0.0316", "0.8914"),
)
TRAFFIC_TEXT = """# The policy of a plan made by hand: whoever resolves it again finds what the plan says.
policy traffic "Vehicles per road segment, every five minutes"

stream passages {
  user        vehicle_id
  time        seen_at
  cell        segment in {"A1", "A2", "B7"}
  step        5min
  horizon     288 steps
  population  200
}

release occupancy = count(passages) by segment

target alpha_dpt(alpha = 1.0)

correlation markov(
  forward  = [[0.33, 0.33, 0.34], [0.80, 0.10, 0.10], [0.05, 0.90, 0.05]],
  initial  = stationary,
  evidence = "DBSec 2023, Table 2: learned from the public road network",
)

deliver   offline
objective mean_squared_error
mechanism laplace()

postprocess occupancy {
  integer(occupancy),
  sum(occupancy) == population,
  occupancy >= 0,
}
"""
FLEET_TEXT = """policy fleet "Aircraft by last New York airport, daily"

stream departures {
  user        tailnum
  time        departed_at
  cell        origin in {"EWR", "JFK", "LGA"} otherwise "away"
  step        1d
  horizon     365 steps
  population  4_037
  start       "2013-01-01T00:00:00"
}

release parked = count(departures) by origin

target alpha_dpt(alpha = 1.0)

correlation markov(
  forward  = file("fleet_transitions.csv"),
  initial  = stationary,
  evidence = "transition frequencies of January 2013, taken as public",
)

deliver   offline
objective mean_squared_error
mechanism laplace()

postprocess parked {
  integer(parked),
  sum(parked) == population,
  parked >= 0,
}
"""
FEW = "budget quantified()\nestimate mle()\n"  # what is soon planned
FLEET_FILE = "".join(f"{','.join(row)}\n" for row in (("EWR", "JFK", "LGA", "away"), *FLEET_CHAIN)).encode()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def decimals(rows: tuple[tuple[str, ...], ...]) -> tuple[tuple[Decimal, ...], ...]:
    return tuple(tuple(map(Decimal, row)) for row in rows)


def segment(epsilon: str, repeats: int | None, error: float, sensitivity: int = 2) -> BudgetSegment:
    from policyc_runtime.mechanisms.laplace import Laplace

    budget = Decimal(epsilon)
    scale = Laplace(l1_sensitivity=Decimal(sensitivity)).calibrate(budget)
    return BudgetSegment(epsilons=(budget,), scales=(scale,), expected_errors=(error,), repeats=repeats)


def estimator(value: dict[str, Any]) -> Any:
    from policyc_runtime.estimation import estimator_kinds

    return estimator_kinds()[value["name"]].model_validate(value)


def sealed(plan: Plan) -> Plan:
    """The plan with claims recomputed exactly and its digest."""
    from policyc.planning.assemble import stated_leakage
    from policyc_check.steps.budgets import window_budget

    horizon = plan.stream.horizon
    total = None if horizon is None else window_budget(plan, horizon)
    claims = Claims(
        total_leakage=plan.claims.total_leakage,
        budget_sum=None if total is None else rounded(total),
        largest_budget=rounded(window_budget(plan, 1)),
    )
    inherited = tuple(stated_leakage(plan, record)[0] for record in plan.correlation.chains)
    claims = claims.model_copy(update={"inherited": inherited})
    return plan.model_copy(update={"claims": claims}).sealed()


def rounded(value: Any) -> Decimal:
    from policyc.emit.numbers import round_up

    return Decimal(round_up(value, digits=40))


def candidates(chosen: str, errors: dict[str, float]) -> tuple[Candidate, ...]:
    best = errors[chosen]
    compared = [
        Candidate(
            schedule=name.split(" ")[0],
            mechanism="laplace",
            estimator=name.split(" ", 1)[1],
            predicted_error=error,
            chosen=name == chosen,
            reason="lowest predicted error" if name == chosen else f"{error / best:.2f} times the error of the best",
        )
        for name, error in errors.items()
    ]
    refused = Candidate(
        schedule=chosen.split(" ")[0],
        mechanism="laplace",
        estimator="map(prior = frequency)",
        predicted_error=None,
        chosen=False,
        reason="its prior is the first noisy release, which is not known before the run",
    )
    return (*compared, refused)


def count_constraints(release: str, cells: int, population: int) -> tuple[ConstraintRow, ...]:
    one = Decimal(1)
    return (
        ConstraintRow(
            text=f"sum({release}) == population",
            line=29,
            current=tuple((cell, one) for cell in range(cells)),
            previous=(),
            relation="==",
            bound=Decimal(population),
        ),
        *(
            ConstraintRow(
                text=f"{release} >= 0", line=30, current=((cell, one),), previous=(), relation=">=", bound=Decimal(0)
            )
            for cell in range(cells)
        ),
    )


def traffic_plan() -> Plan:
    """Three road segments, five minutes, a day; two lags; the paper's chain."""
    cells = ("A1", "A2", "B7")
    segments = (
        segment("0.5097196073103833", 1, 13.1),
        segment("0.21592024748875444", 286, 34.7),
        segment("0.6199870545958135", 1, 9.9),
    )
    release = BudgetedRelease(
        name="occupancy",
        query=CountQuery(by="segment"),
        cells=cells,
        l1_sensitivity=Decimal(2),
        sensitivity_reason="replacing one user's cell lowers one count by one and raises another by one",
        mechanism={"name": "laplace", "l1_sensitivity": "2"},  # type: ignore[arg-type]
        schedule=Schedule(name="quantified", segments=segments),
        estimator=estimator({"name": "map", "prior": "initial"}),
        constraints=count_constraints("occupancy", 3, 200),
        integer=True,
        predicted=PredictedError(
            kind="expected",
            published=34.6,
            without_postprocessing=171.5,
            prior_alone=44.3,
            signal=None,
            method="4,096 evenly spread points stand for true counts and noise; nothing random, nothing protected",
        ),
        candidates=candidates(
            "quantified map(prior = initial)",
            {
                "quantified map(prior = initial)": 34.6,
                "uniform map(prior = initial)": 35.1,
                "bounded map(prior = initial)": 35.1,
                "quantified mle()": 96.2,
                "uniform mle()": 98.0,
                "quantified none()": 96.2,
            },
        ),
    )
    return sealed(
        Plan(
            compiler=f"policyc {__version__}",
            policy=PolicyRecord(
                name="traffic",
                purpose="Vehicles per road segment, every five minutes",
                source=FileRecord(name="traffic.policy", sha256=sha256(TRAFFIC_TEXT.encode())),
                files=(),
            ),
            stream=StreamRecord(
                name="passages",
                user_column="vehicle_id",
                time_column="seen_at",
                cell=CellRecord(column="segment", cells=cells, otherwise=None),
                step_milliseconds=300_000,
                step_text="5min",
                horizon=288,
                population=200,
                start=None,
            ),
            delivery=Delivery(kind="offline", delay=None),
            objective="mean_squared_error",
            targets=(AlphaDPT(alpha=Decimal("1.0")),),
            correlation=Correlation(
                kind="markov",
                chains=(
                    ChainRecord(
                        group=None,
                        forward=decimals(TRAFFIC_CHAIN),
                        backward=None,
                        initial="stationary",
                        evidence="DBSec 2023, Table 2: learned from the public road network",
                        lags=(1, 2),
                    ),
                ),
                evidence=None,
            ),
            releases=(release,),
            claims=Claims(
                total_leakage=Decimal("0.9999999999999"), budget_sum=None, largest_budget=Decimal("0.6199870545958135")
            ),
            notices=(),
        )
    )


def fleet_plan() -> Plan:
    """Four places, a day, a year; the matrix comes from a file."""
    places = CellRecord(column="origin", cells=("EWR", "JFK", "LGA"), otherwise="away")
    segments = (
        segment("0.65754116479367", 1, 18.2),
        segment("0.3123014158878368", 363, 79.3),
        segment("0.6547602510939667", 1, 18.4),
    )
    release = BudgetedRelease(
        name="parked",
        query=CountQuery(by="origin"),
        cells=places.states,
        l1_sensitivity=Decimal(2),
        sensitivity_reason="replacing one user's cell lowers one count by one and raises another by one",
        mechanism={"name": "laplace", "l1_sensitivity": "2"},  # type: ignore[arg-type]
        schedule=Schedule(name="quantified", segments=segments),
        estimator=estimator({"name": "mle"}),
        constraints=count_constraints("parked", 4, 4037),
        integer=True,
        predicted=PredictedError(
            kind="expected",
            published=59.4,
            without_postprocessing=81.9,
            prior_alone=289.0,
            signal=None,
            method="4,096 evenly spread points stand for true counts and noise; nothing random, nothing protected",
        ),
        candidates=candidates(
            "quantified mle()", {"quantified mle()": 59.4, "uniform mle()": 60.0, "bounded mle()": 60.0}
        ),
    )
    return sealed(
        Plan(
            compiler=f"policyc {__version__}",
            policy=PolicyRecord(
                name="fleet",
                purpose="Aircraft by last New York airport, daily",
                source=FileRecord(name="fleet.policy", sha256=sha256(FLEET_TEXT.encode())),
                files=(FileRecord(name="fleet_transitions.csv", sha256=sha256(FLEET_FILE)),),
            ),
            stream=StreamRecord(
                name="departures",
                user_column="tailnum",
                time_column="departed_at",
                cell=places,
                step_milliseconds=86_400_000,
                step_text="1d",
                horizon=365,
                population=4037,
                start="2013-01-01T00:00:00",
            ),
            delivery=Delivery(kind="offline", delay=None),
            objective="mean_squared_error",
            targets=(AlphaDPT(alpha=Decimal("1.0")),),
            correlation=Correlation(
                kind="markov",
                chains=(
                    ChainRecord(
                        group=None,
                        forward=decimals(FLEET_CHAIN),
                        backward=None,
                        initial="stationary",
                        evidence="transition frequencies of January 2013, taken as public",
                        lags=(1,),
                    ),
                ),
                evidence=None,
            ),
            releases=(release,),
            claims=Claims(
                total_leakage=Decimal("0.9999999999999"), budget_sum=None, largest_budget=Decimal("0.65754116479367")
            ),
            notices=(Notice(code="W0304", message="one event is not the whole stream: say both bounds"),),
        )
    )


def reshaped(plan: Plan, segments: tuple[BudgetSegment, ...], horizon: int | None, **changes: Any) -> Plan:
    """The plan with another schedule and horizon."""
    release = plan.releases[0].model_copy(update={"schedule": Schedule(name="uniform", segments=segments)})
    stream = plan.stream.model_copy(update={"horizon": horizon})
    return sealed(plan.model_copy(update={"releases": (release,), "stream": stream, **changes}))


@pytest.fixture(scope="session")
def save_plan() -> Callable[[Path, Plan], Path]:
    """`save_plan(directory, plan)` writes one of these plans with its policy and the file that it names."""
    texts = {sha256(text.encode()): text for text in (TRAFFIC_TEXT, FLEET_TEXT, TRAFFIC_TEXT + FEW, FLEET_TEXT + FEW)}

    def save(directory: Path, plan: Plan) -> Path:
        files = {file.name: FLEET_FILE for file in plan.policy.files}
        return directory_of_plan.save(directory, plan, texts[plan.policy.source.sha256], files)

    return save


@pytest.fixture(scope="session")
def traffic() -> Plan:
    return traffic_plan()


@pytest.fixture(scope="session")
def fleet() -> Plan:
    return fleet_plan()


def planned(folder: Path, name: str, text: str) -> Plan:
    from policyc import compile_policy

    (folder / "fleet_transitions.csv").write_bytes(FLEET_FILE)
    (folder / f"{name}.policy").write_text(text + FEW)
    return compile_policy(folder / f"{name}.policy").plan


@pytest.fixture(scope="session")
def planned_traffic(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """As it is compiled: whoever plans the policy again finds this plan."""
    return planned(tmp_path_factory.mktemp("traffic"), "traffic", TRAFFIC_TEXT)


@pytest.fixture(scope="session")
def planned_fleet(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """As it is compiled: whoever plans the policy again finds this plan."""
    return planned(tmp_path_factory.mktemp("fleet"), "fleet", FLEET_TEXT)


@pytest.fixture(scope="session")
def long_traffic(traffic: Plan) -> Plan:
    """A hundred thousand steps."""
    return reshaped(traffic, (segment("0.2159202474", 100_000, 34.7),), 100_000)


@pytest.fixture(scope="session")
def endless_traffic(traffic: Plan) -> Plan:
    """The same for ever, with the budget that never reaches the promise."""
    return reshaped(
        traffic, (segment("0.2159202474", None, 34.7),), None, delivery=Delivery(kind="realtime", delay=None)
    )


@pytest.fixture(scope="session")
def independent_count(traffic: Plan) -> Plan:
    """One number a step, event level, steps independent."""
    release = traffic.releases[0].model_copy(
        update={
            "query": CountQuery(by=None),
            "cells": ("",),
            "l1_sensitivity": Decimal(1),
            "sensitivity_reason": "replacing one user's value changes the one count by at most one",
            "mechanism": type(traffic.releases[0].mechanism)(l1_sensitivity=Decimal(1)),  # type: ignore[call-arg]
            "schedule": Schedule(name="uniform", segments=(segment("0.5", 288, 8.0, sensitivity=1),)),
            "constraints": (),
        }
    )
    return sealed(
        traffic.model_copy(
            update={
                "releases": (release,),
                "stream": traffic.stream.model_copy(update={"cell": None, "population": None}),
                "targets": (EventLevel(epsilon=Decimal("0.5")),),
                "correlation": Correlation(kind="none", chains=(), evidence="one visit a user"),
                "claims": traffic.claims.model_copy(update={"total_leakage": None}),
            }
        )
    )


@pytest.fixture
def attachments() -> dict[str, str]:
    return {name: sha256(name.encode()) for name in ("map_model.py", "steps.csv", "plan.json")}


@pytest.fixture(scope="session")
def altered() -> Callable[..., Plan]:
    return reshaped
