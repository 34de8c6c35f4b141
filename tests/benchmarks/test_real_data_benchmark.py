"""Error on real departures: every schedule and estimator of the fleet policy against the true counts, in one run.

`pytest tests/benchmarks -s -k real_data` prints mean squared errors of a value, over 28 days and 20 seeds.
"""

from __future__ import annotations

import shutil

import numpy as np

from policyc import compile_policy
from policyc_runtime.estimation import estimate_release, every_estimator
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.sources import read_events

SEEDS = 20


def test_real_data(gallery, tmp_path):
    """The declared chain is only roughly right here: beside every estimator stand `mle` and the prior alone."""
    shutil.copy(gallery / "fleet_transitions.csv", tmp_path)
    text = (gallery / "fleet.policy").read_text()
    for budget in ("uniform()", "quantified()", "optimal()"):
        path = tmp_path / "fleet.policy"
        path.write_text(text.replace("deliver offline", f"budget {budget}\ndeliver offline"))
        plan = compile_policy(path).plan
        part = plan.releases[0]
        truth = read_events(gallery / "departures_january.csv.gz", plan).counts[part.name]
        scales = part.budgets.scales(len(truth))
        errors: dict[str, list[float]] = {}
        for seed in range(SEEDS):
            noisy = part.step_mechanism.add_noise(truth, scales, SimulationRandomness(seed)).astype(float)
            for estimator in every_estimator():
                with_it = part.model_copy(update={"estimator": estimator})
                values = estimate_release(plan, with_it, noisy, np.zeros((0, noisy.shape[1])))
                errors.setdefault(estimator.described(), []).append(float(np.mean((values - truth) ** 2)))
        law = plan.correlation.chains[0].chain().marginals(len(truth))
        prior = float(np.mean((plan.stream.population * law - truth) ** 2))
        means = {name: float(np.mean(found)) for name, found in errors.items()}
        print(
            f"{budget:<13} prior alone {prior:.1f}; predicted for {part.estimator.described()} "
            f"{part.predicted.published:.1f}; " + "; ".join(f"{name} {mean:.1f}" for name, mean in means.items())
        )
        assert all(np.isfinite(mean) for mean in means.values())
