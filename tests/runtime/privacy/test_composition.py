"""Privacy curves of discrete noise and of compositions, against exact sums in 50 digits and another library."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from policyc.offers.calibration import discrete_gaussian_stddev, discrete_laplace_scale, gaussian_stddev, least_epsilon
from policyc_check.users.composition import LossLaw, composed_delta
from policyc_check.users.gaussian import gaussian_delta
from policyc_check.users.noise import DiscreteGaussian, DiscreteLaplace
from policyc_check.users.profile import FINENESS, PrivacyProfile, SumLoss, normal_law, pure_profile
from policyc_check.users.setting import Moves

Law = dict[int, mpmath.mpf]


def exact_delta(
    log_mass: Callable[[int], mpmath.mpf], reach: int, changes: int, shift: int, epsilon: float
) -> mpmath.mpf:
    """Delta by its definition: likelihoods of every outcome, outcomes of equal loss merged, 50 digits."""
    with mpmath.workdps(50):
        masses = {x: mpmath.exp(log_mass(x)) for x in range(-reach - shift, reach + shift + 1)}
        total = mpmath.fsum(masses.values())
        one: dict[mpmath.mpf, mpmath.mpf] = {}
        for x in range(-reach, reach + 1):
            loss = mpmath.nstr(log_mass(x) - log_mass(x + shift), 30)
            one[loss] = one.get(loss, mpmath.mpf(0)) + masses[x] / total
        sums = {mpmath.nstr(mpmath.mpf(0), 25): mpmath.mpf(1)}
        for _ in range(changes):
            merged: dict[str, mpmath.mpf] = {}
            for a, p in sums.items():
                for b, q in one.items():
                    key = mpmath.nstr(mpmath.mpf(a) + mpmath.mpf(b), 25)
                    merged[key] = merged.get(key, mpmath.mpf(0)) + p * q
            sums = merged
        return mpmath.fsum(
            p * -mpmath.expm1(epsilon - mpmath.mpf(loss)) for loss, p in sums.items() if mpmath.mpf(loss) > epsilon
        )


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("stddev", "changes", "shift"), [("0.3", 2, 1), ("0.7", 3, 1), ("1", 1, 1), ("1", 2, 3), ("3.2", 1, 2), ("4", 1, 5)]
)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0, 20.0])
def test_discrete_gaussian_curve(stddev: str, changes: int, shift: int, epsilon: float) -> None:
    """Never below the exact sum, and at most a relative 1e-9 above, however small delta is."""
    v = mpmath.mpf(stddev) ** 2
    reach = math.ceil(14 * float(stddev)) + 6 + math.ceil(epsilon * float(v) / shift)
    exact = exact_delta(lambda x: -(mpmath.mpf(x) ** 2) / (2 * v), reach, changes, shift, epsilon)
    found = DiscreteGaussian(Fraction(stddev) ** 2).alike(changes, shift).delta(epsilon)
    assert found >= exact
    assert found <= exact * (1 + 1e-9) + mpmath.mpf(10) ** -300


@pytest.mark.parametrize(("scale", "changes", "shift"), [("0.5", 3, 1), ("7", 1, 1), ("7", 6, 1), ("3", 3, 4)])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.8, 3.0])
def test_discrete_laplace_curve(scale: str, changes: int, shift: int, epsilon: float) -> None:
    """Never below the exact sum, and at most a relative 1e-9 above; zero from the pure loss on."""
    s = mpmath.mpf(scale)
    exact = exact_delta(lambda x: -abs(mpmath.mpf(x)) / s, math.ceil(60 * float(scale)), changes, shift, epsilon)
    found = DiscreteLaplace(Fraction(scale)).alike(changes, shift).delta(epsilon)
    assert exact * (1 - 1e-20) <= found <= exact * (1 + 1e-9) + 1e-15
    assert DiscreteLaplace(Fraction(scale)).alike(changes, shift).delta(changes * shift / float(scale) + 1e-9) == 0


def test_small_discrete_gaussians_lose_more_than_continuous_ones() -> None:
    """At stddev 1 and epsilon 1 the discrete curve is at 0.141, the continuous at 0.127; from 10 on they agree."""
    assert DiscreteGaussian(1).alike(1).delta(1.0) == pytest.approx(0.141351339406)
    assert gaussian_delta(1.0, 1.0) == pytest.approx(0.126936737507)
    assert DiscreteGaussian(10**4).alike(900).delta(1.0) == pytest.approx(gaussian_delta(1.0, 0.3), rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("stddev", [3.0, 3.5])
def test_closed_form_of_sums_is_the_convolution(stddev: float, epsilon: float) -> None:
    """Where the law of a sum is bounded in closed form, convolving single laws gives the same curve."""
    z = np.arange(-150, 151)
    v, changes = stddev**2, 40
    exponents = -(z**2) / (2 * v)
    single = LossLaw(1 / v, 1 / (2 * v), -150, exponents - np.log(np.exp(exponents).sum()))
    convolved = composed_delta(epsilon, [(single, changes)])
    assert DiscreteGaussian(v).alike(changes).delta(epsilon) == pytest.approx(convolved, rel=1e-9)


def test_great_noise_is_summed_and_integrated_alike() -> None:
    """Noise too wide to sum point by point gets a bound just above the continuous curve."""
    for stddev, changes, epsilon in ((1e6, 1, 1e-6), (2e5, 2000, 1e-3), (1e4, 100, 0.01)):
        found = DiscreteGaussian(stddev**2).alike(changes).delta(epsilon)
        continuous = gaussian_delta(epsilon, math.sqrt(changes) / stddev)
        assert found == pytest.approx(continuous, rel=1e-4)
    wide = DiscreteGaussian(Fraction(4 * 10**10)).alike(2000)
    assert wide.delta(1e-3) >= gaussian_delta(1e-3, math.sqrt(2000 / 4e10))


@pytest.mark.parametrize(
    ("epsilon", "delta", "changes", "shift"),
    [
        (0.5, 1e-5, 50, 1),
        (1.0, 1e-7, 365, 1),
        (5.0, 1e-6, 4, 2),
        (20.0, 1e-6, 4, 1),
        (1.0, 1e-12, 2000, 1),
        (40, 1e-300, 1, 1),
    ],
)
def test_calibrated_discrete_gaussian(epsilon: float, delta: float, changes: int, shift: int) -> None:
    """The stddev keeps delta without tolerance, and a relative 1e-6 less does not."""
    stddev = discrete_gaussian_stddev(epsilon, delta, changes, shift)
    variance = Fraction(stddev) ** 2
    assert DiscreteGaussian(variance).alike(changes, shift).delta(epsilon) <= delta
    less = Fraction(stddev) * Fraction(999_999, 1_000_000)
    assert DiscreteGaussian(less**2).alike(changes, shift).delta(epsilon) > delta
    assert float(stddev) == pytest.approx(gaussian_stddev(epsilon, delta, shift * math.sqrt(changes)), rel=0.05)


@pytest.mark.parametrize(
    ("epsilon", "delta", "changes", "shift"), [(1.0, 1e-7, 365, 1), (0.1, 1e-6, 200, 3), (3, 1e-9, 2000, 1)]
)
def test_calibrated_discrete_laplace(epsilon: float, delta: float, changes: int, shift: int) -> None:
    """The scale keeps delta, a relative 1e-6 less does not, and it is well below the pure one for many changes."""
    scale = discrete_laplace_scale(epsilon, delta, changes, shift)
    assert DiscreteLaplace(Fraction(scale)).alike(changes, shift).delta(epsilon) <= delta
    assert DiscreteLaplace(Fraction(scale) * Fraction(999_999, 1_000_000)).alike(changes, shift).delta(epsilon) > delta
    assert scale < Fraction(changes * shift) / Fraction(epsilon) * Fraction(6, 10)


def test_pure_laplace_scale() -> None:
    """Without delta the scale is changes shift / epsilon, rounded up."""
    scale = discrete_laplace_scale(0.3, 0.0, 7, 2)
    assert Fraction(14) / Fraction(0.3) <= Fraction(scale) <= Fraction(14) / Fraction(0.3) * (1 + Fraction(1, 10**9))


def test_other_library_agrees_on_laplace_compositions() -> None:
    """dp-accounting, pessimistic and optimistic, encloses the composition of 365 discrete Laplace releases."""
    scale = float(discrete_laplace_scale(1.0, 1e-7, 365))
    ours = DiscreteLaplace(scale).alike(365).delta(1.0)
    bounds = [
        pld.from_discrete_laplace_mechanism(1 / scale, 1, pessimistic, 1e-5)
        .self_compose(365)
        .get_delta_for_epsilon(1.0)
        for pessimistic in (False, True)
    ]
    assert bounds[0] * (1 - 1e-6) <= ours <= bounds[1] * (1 + 1e-6)


def test_other_library_agrees_on_gaussian_compositions() -> None:
    """dp-accounting's discrete Gaussian composition is at the delta that ours was calibrated to."""
    stddev = float(discrete_gaussian_stddev(1.0, 1e-6, 30))
    theirs = pld.from_discrete_gaussian_mechanism(stddev, 1, use_connect_dots=True).self_compose(30)
    assert theirs.get_delta_for_epsilon(1.0) == pytest.approx(1e-6, rel=1e-3)


def test_other_library_agrees_on_mixed_compositions() -> None:
    """Gaussian, Laplace and (epsilon, delta) releases together, enclosed by its dots and found by ours."""
    ours = (
        PrivacyProfile(mu=0.4)
        .compose(DiscreteLaplace(20.0).alike(12))
        .compose(DiscreteGaussian(400.0).alike(30))
        .compose(pure_profile(0.2, 1e-9))
    )
    theirs = (
        pld.from_gaussian_mechanism(2.5)
        .compose(pld.from_discrete_laplace_mechanism(1 / 20, use_connect_dots=True).self_compose(12))
        .compose(pld.from_discrete_gaussian_mechanism(20.0, use_connect_dots=True).self_compose(30))
    )
    randomised = pld.from_privacy_parameters(pld.common.DifferentialPrivacyParameters(0.2, 1e-9))
    for epsilon in (0.5, 1.5, 3.0):
        expected = theirs.compose(randomised).get_delta_for_epsilon(epsilon)
        assert ours.delta(epsilon) == pytest.approx(expected, rel=1e-4)
    assert ours.delta(least_epsilon(ours, 1e-6)) <= 1e-6


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 6.0])
def test_lattice_bound_of_gaussians_is_just_above_the_closed_form(epsilon: float) -> None:
    """Two Gaussians brought onto a lattice lose at least what their mu^2 add to, and at most a relative 1e-5 more."""
    step = 0.5 / math.sqrt(2) / FINENESS
    pieces = [(normal_law(0.3, step), 1), (normal_law(0.4, step), 1)]
    exact = gaussian_delta(epsilon, 0.5) / (1 + 2e-12)
    assert exact <= composed_delta(epsilon, pieces) <= exact * (1 + 5e-5)


def test_different_discrete_gaussians_compose() -> None:
    """Two counts under different noise: above the continuous bound's neighborhood by no more than the lattice."""
    both = DiscreteGaussian(900.0).alike(40).compose(DiscreteGaussian(400.0).alike(10))
    assert both.delta(1.0) == pytest.approx(gaussian_delta(1.0, math.sqrt(40 / 900 + 10 / 400)), rel=1e-3)
    same = DiscreteGaussian(900.0).alike(40).compose(DiscreteGaussian(900.0).alike(10))
    assert same.delta(1.0) == pytest.approx(DiscreteGaussian(900.0).alike(50).delta(1.0), rel=1e-9)


def test_wide_noise_composes_in_closed_form_above_the_convolution() -> None:
    """Two different ones are one Gaussian: above their sums on a fine lattice, by 3e-5 of the variance at most.

    Beside another loss they are one law on its lattice, and never less than the convolution of all.
    """
    variances, other = (Fraction(330) ** 2, Fraction(800) ** 2), DiscreteLaplace(Fraction(40)).alike(3, 2)
    wide = [DiscreteGaussian(variance).alike(20, 27) for variance in variances]
    both = wide[0].compose(wide[1])
    apart = PrivacyProfile(losses=tuple(SumLoss(one.laws) for one in wide))
    mu = math.sqrt(sum(20 * 27**2 / float(variance) for variance in variances))
    for epsilon in (0.1, 0.5, 2.0):
        exact = gaussian_delta(epsilon, mu)  # of noise so wide, to a part in a million or so
        assert exact <= both.delta(epsilon) <= gaussian_delta(epsilon, mu * (1 + 1.6e-5))
        assert both.delta(epsilon) >= apart.delta(epsilon) * (1 - 1e-5)
        mixed, convolved = both.compose(other), apart.compose(other)
        assert mixed.delta(epsilon) == pytest.approx(convolved.delta(epsilon), rel=1e-3)
        assert mixed.delta(epsilon) >= convolved.delta(epsilon) * (1 - 1e-5)


def test_randomised_response_composes_exactly() -> None:
    """Three (epsilon, delta) releases: the binomial sum of the optimal composition theorem."""
    one, three = 0.3, pure_profile(0.3, 1e-4)
    three = three.compose(three).compose(three)
    for epsilon in (0.0, 0.2, 0.5, 0.9):
        yes = math.exp(one) / (1 + math.exp(one))
        total = sum(
            math.comb(3, j) * yes**j * (1 - yes) ** (3 - j) * max(0.0, 1 - math.exp(epsilon - (2 * j - 3) * one))
            for j in range(4)
        )
        lost = 1 - (1 - 1e-4) ** 3
        found = three.delta(epsilon)
        assert lost + (1 - lost) * total <= found * (1 + 1e-12)
        assert found == pytest.approx(lost + total, abs=4e-4 * total + 1e-12)


def test_more_than_promised_is_never_hidden_by_small_delta() -> None:
    """A profile whose delta floor exceeds the delta asked for has no epsilon."""
    assert least_epsilon(pure_profile(0.3, 1e-4), 1e-5) == math.inf
    assert least_epsilon(pure_profile(0.3), 1e-12) == pytest.approx(0.3)
    assert least_epsilon(PrivacyProfile(mu=0.001), 0.5) == 0


def test_larger_shifts_lose_more() -> None:
    """A count that moves by c loses more than one by c - 1, and than c counts that move by 1, at every stddev."""
    for stddev in (0.2, 0.4, 0.8, 2.0, 5.0):
        for epsilon in (0.0, 0.5, 2.0, 10.0):
            by_three = DiscreteGaussian(stddev**2).alike(1, 3).delta(epsilon)
            assert by_three >= DiscreteGaussian(stddev**2).alike(1, 2).delta(epsilon) * (1 - 1e-9)
            assert by_three >= DiscreteGaussian(stddev**2).alike(3, 1).delta(epsilon) * (1 - 1e-9)


@pytest.mark.parametrize("change", [(1, 0), (1, 3), (2, -5), (7, 7)])
@pytest.mark.parametrize("variance", [6.5, 9.0, 40.25])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 8.0])
def test_uneven_changes_are_hidden_as_by_noise_of_variance_3_less(
    change: tuple[int, int], variance: float, epsilon: float
) -> None:
    """The bound is never below the sum over all outcomes of two counts that change by different amounts."""
    reach = np.arange(-120, 121)
    masses = np.exp(-(reach**2) / (2 * variance))
    masses /= masses.sum()
    here = masses[:, None] * masses[None]
    loss = (change[0] ** 2 + change[1] ** 2 + 2 * (change[0] * reach[:, None] + change[1] * reach[None])) / variance / 2
    exact = float((here * -np.expm1(np.minimum(epsilon - loss, 0))).sum())
    square = change[0] ** 2 + change[1] ** 2
    assert exact <= DiscreteGaussian(Fraction(variance)).any_way(Moves(square, 0)).delta(epsilon)


def test_on_a_fine_grid_the_bound_is_the_continuous_curve() -> None:
    """With a stddev of 1,000 it is above the exact curve by a part in 10,000, and composes like any Gaussian noise."""
    for epsilon in (0.1, 1.0, 3.0):
        bound = DiscreteGaussian(Fraction(10**6)).any_way(Moves(400**2, 0)).delta(epsilon)
        assert gaussian_delta(epsilon, 0.4) <= bound <= gaussian_delta(epsilon, 0.4) * (1 + 1e-4)
    two = (
        DiscreteGaussian(Fraction(103))
        .any_way(Moves(36, 0))
        .compose(DiscreteGaussian(Fraction(103)).any_way(Moves(64, 0)))
    )
    assert two.delta(1.0) == pytest.approx(gaussian_delta(1.0, 1.0))
    with pytest.raises(ValueError):
        DiscreteGaussian(Fraction(6)).any_way(Moves(1, 0))


@pytest.mark.parametrize("mu", [5.0, 40.0])
def test_large_gaussian_losses_compose_with_others(mu: float) -> None:
    """Beside a hundred times smaller loss the curve is that of the Gaussian noise, however large its mu is."""
    both = PrivacyProfile(mu=mu).compose(DiscreteLaplace(Fraction(100)).alike(3))
    for epsilon in (mu**2 / 2, mu**2 / 2 + 2 * mu):
        alone = gaussian_delta(epsilon, mu)
        assert alone <= both.delta(epsilon) == pytest.approx(alone, rel=0.05)


@pytest.mark.parametrize(("first", "second"), [(40.0, 30.0), (25.0, 1.0), (2.0, 1.0)])
def test_losses_that_are_all_but_certain_take_no_endless_lattice(first: float, second: float) -> None:
    """Of two randomised responses, whose four losses are told one by one: never less, and hardly more."""
    profile = pure_profile(first).compose(pure_profile(second))
    laws = [[(loss, 1 / (1 + math.exp(-loss))), (-loss, 1 / (1 + math.exp(loss)))] for loss in (first, second)]
    for epsilon in ((first + second) / 2, first + second - 0.5, first + second - 0.01):
        true = sum(p * q * -math.expm1(min(0.0, epsilon - a - b)) for (a, p), (b, q) in itertools.product(*laws))
        assert true * (1 - 1e-12) <= profile.delta(epsilon) <= true * (1 + 1e-8)
    assert sum(law.log_probabilities.size for law, _ in profile._on_one_lattice) < 2**25
