"""The spectral smoother: a Gaussian process over the cosine basis, learned from all noisy values of a series.

In the cosine basis of the whole horizon (orthonormal DCT-II) the values of a slowly moving series are independent:
coefficient k has a variance that falls with its frequency, as that of an integrated random walk or of an AR(1) process
does. The noise is known. So what a noisy coefficient says is one factor. The mean is diffuse: nothing is known of it,
and nothing takes from it. The same holds for regular rhythms, a slope and steps unlike all others, where they stand out
(`lines`).

Where steps have no value, or noise differs between steps, coefficients are not independent any more, and the same
expectations come from a system of linear equations. Where only noise differs, the spectrum is learned as under noise of
the mean variance, and no step is unlike all others, since much noise would make it so; where values are missing, from
the first few hundred of them, and without lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from policyc_runtime.estimation.lines import Lines
from policyc_runtime.offset import NO_OFFSET, Offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Shape = Literal["integrated random walk", "ar1"]
SHAPES: tuple[Shape, ...] = ("integrated random walk", "ar1")
FEWEST_VALUES = 4
MOST_LEARNED_FROM = 250  # values of a series with gaps: the cost grows with the cube
DIFFUSE = 1e6
MOST_LINES, FEW_LINES = 40, 8  # above the spectrum, above noise alone
ROUNDS = 4
MOST_AT_ONCE = 2**22  # numbers that are worked on
CHANCE = 2.0  # standard deviations of a sum of squares
CLOSE = 1e-10  # relative residual at which linear equations count as solved


@dataclass(frozen=True)
class Spectrum:
    """Variances of the cosine coefficients of a series.

    Args:
        shape: how they fall with frequency.
        log_size: natural logarithm of the variance of what is new in a step.
        place: of an AR(1) process, the log odds of its autocorrelation.
        observation_variance: of noise that belongs to the values themselves, beside that of the release.
    """

    shape: Shape
    log_size: float
    place: float = 0.0
    observation_variance: float = 0.0

    def variances(self, steps: int) -> Array:
        """Of coefficients 1 to steps - 1, (steps - 1,); coefficient 0 is the mean, of which nothing is known."""
        speed = (2 * np.sin(np.pi * np.arange(1, steps) / (2 * steps))) ** 2
        if self.shape == "integrated random walk":
            return np.asarray(math.exp(self.log_size) / speed**2)
        rho = 1 / (1 + math.exp(-self.place))
        return np.asarray(math.exp(self.log_size) / ((1 - rho) ** 2 + rho * speed))


def smoothed(values: Array, variances: Array, offset: Offset = NO_OFFSET, *, observation_noise: bool = False) -> Array:
    """Expected values of all steps given all noisy ones, (T,), under the likeliest spectrum.

    Args:
        values: (T,), NaN without one.
        variances: (T,) of the noise, > 0; not read without a value.
        offset: what noisy values are off by together; what all of them are belongs to their mean.
        observation_noise: whether values have noise of their own that is to be smoothed away too.

    Source: RW06
    """
    given = np.isfinite(values) & np.isfinite(variances)
    if given.sum() < FEWEST_VALUES:
        return np.full(values.size, float(np.mean(values[given])) if given.any() else 0.0)
    shared = NO_OFFSET if offset.steps is None else offset
    if given.all():
        return _smoothed_even(values, variances, shared, observation_noise)
    spectrum = _likeliest_uneven(values, variances, given, shared, observation_noise)
    own = variances + spectrum.observation_variance
    return posterior_means(values, own, spectrum.variances(values.size), shared)


def _smoothed_even(values: Array, variances: Array, shared: Offset, observation_noise: bool) -> Array:
    """The same where no value is missing."""
    from scipy.fft import dct, idct

    level = float(np.mean(variances))
    noise = level + _of_coefficients(shared, values.size)
    transformed = dct(values, norm="ortho")
    mean, coefficients = transformed[:1], transformed[1:]
    even = bool(np.ptp(variances) <= 1e-9 * level)
    spectrum, lines = _likeliest_even(values, coefficients, noise, observation_noise, even)
    regular = coefficients - lines.left
    if even and not shared.stddev:
        shares = spectrum.variances(values.size) / lines.variances
        return np.asarray(idct(np.append(mean, regular + lines.left * shares), norm="ortho"))
    rhythms = np.asarray(idct(np.append(0.0, regular), norm="ortho"))
    own = variances + spectrum.observation_variance
    return rhythms + posterior_means(values - rhythms, own, spectrum.variances(values.size), shared)


def _of_coefficients(shared: Offset, steps: int) -> Array:
    """The variances of cosine coefficients 1 to T - 1 that are of what periods are off by, (T - 1,)."""
    if not shared.stddev or shared.steps is None:
        return np.zeros(steps - 1)
    edges = np.append(np.arange(0, steps, shared.steps), steps)
    speeds = np.pi * np.arange(1, steps) / steps
    # the sum of cos(w (t + 1/2)) from a to b - 1 is (sin(w b) - sin(w a)) / (2 sin(w / 2))
    sums = [
        (np.diff(np.sin(part[:, None] * edges), axis=1) ** 2).sum(axis=1)
        for part in np.array_split(speeds, -(-speeds.size * edges.size // MOST_AT_ONCE))
    ]
    return np.asarray(shared.stddev**2 * np.concatenate(sums) / (2 * steps * np.sin(speeds / 2) ** 2))


def posterior_means(values: Array, variances: Array, spectrum: Array, shared: Offset = NO_OFFSET) -> Array:
    """Expected values of all steps, (T,), where steps may lack one, noise may differ and periods have some in common.

    Solves (covariance + noise) weights = values on the measured steps by conjugate gradients; the covariance is applied
    by cosine transforms and never written out. Where what periods would be off by is larger than by chance, values move
    in other ways than the spectrum says, from one period to the next: then nothing is taken for it.

    Args:
        values: (T,), NaN without one.
        variances: (T,) of the noise; not read without a value.
        spectrum: (T - 1,) variances of the cosine coefficients but the mean's.
        shared: what noisy values are off by together.

    Source: RW06
    """
    from scipy.fft import dct, idct
    from scipy.sparse.linalg import LinearOperator, cg

    given = np.isfinite(values) & np.isfinite(variances)
    centre = float(np.mean(values[given]))
    noise = variances[given]
    unknown = DIFFUSE * (float(np.var(values[given])) + float(noise.mean()))
    signal, periods = np.append(unknown, spectrum), shared.periods(values.size)[given]

    def spread(weights: Array) -> Array:
        whole = np.zeros(values.size)
        whole[given] = weights
        return np.asarray(idct(signal * dct(whole, norm="ortho"), norm="ortho"))

    def applied(weights: Array) -> Array:
        own = weights / root
        together = shared.stddev**2 * np.bincount(periods, own)[periods]
        return np.asarray(weights + (spread(own)[given] + together) / root)

    root = np.sqrt(noise)  # equations are scaled so that noise is 1: a few large eigenvalues, all others near 1
    size = int(given.sum())
    scaled = LinearOperator((size, size), matvec=applied, dtype=np.float64)
    weights, _ = cg(scaled, (values[given] - centre) / root, rtol=CLOSE, atol=0.0, maxiter=20 * size)
    offsets = shared.stddev**2 * np.bincount(periods, weights / root)
    count = np.unique(periods).size
    if (offsets**2).sum() > shared.stddev**2 * (count + CHANCE * math.sqrt(2 * count)):
        return posterior_means(values, variances, spectrum)
    return centre + spread(weights / root)


def _likeliest_even(
    values: Array, coefficients: Array, noise: Array, observation_noise: bool, even: bool
) -> tuple[Spectrum, Lines]:
    """The spectrum and lines of greatest likelihood, both penalised by what they take to write down.

    Lines are looked for above the spectrum that explains all without any, and above noise alone: a strong rhythm that
    a spectrum took for its own is found the second way only. What a step alone is off by may be noise of its own, where
    values have such: there none is looked for.
    """

    def expected(spectrum: Spectrum) -> Array:
        return spectrum.variances(values.size) + noise + spectrum.observation_variance

    def misfit(spectrum: Spectrum, left: Array) -> float:
        squares = expected(spectrum)
        return float((np.log(squares) + left**2 / squares).sum())

    least, best = math.inf, None
    for shape in SHAPES:
        search = partial(_searched, shape, values, float(np.mean(noise)), observation_noise)
        for most in (MOST_LINES, FEW_LINES):
            start = search(partial(misfit, left=coefficients))[0] if most == MOST_LINES else None
            spectrum = start
            lines = Lines(coefficients, noise, alone=even and not observation_noise)
            for _ in range(ROUNDS):  # lines that are found lower the rest, which shows others
                before = len(lines.frequencies)
                if spectrum is not None:
                    lines.weigh(expected(spectrum))
                lines.search(most)
                if spectrum is not None and len(lines.frequencies) == before:
                    break
                spectrum, _ = search(partial(misfit, left=lines.left), start=spectrum)
            assert spectrum is not None, "there was a round"
            lines.weigh(expected(spectrum))
            cost = misfit(spectrum, lines.left) / 2 + (shape == "ar1") + lines.cost
            if cost < least:
                least, best = cost, (spectrum, lines)
    assert best is not None, "every cost is finite"
    return best


def _likeliest_uneven(
    values: Array, variances: Array, given: NDArray[np.bool_], shared: Offset, observation_noise: bool
) -> Spectrum:
    """The spectrum of greatest likelihood of values with gaps; of many, of the first ones."""
    from scipy.linalg import LinAlgError, cholesky, solve_triangular

    places = np.flatnonzero(given)[:MOST_LEARNED_FROM]
    steps = int(places[-1]) + 1
    noisy = values[places] - values[places].mean()
    apart, together = np.abs(np.subtract.outer(places, places)), (np.add.outer(places, places) + 1) % (2 * steps)
    unknown = DIFFUSE * float(np.var(noisy) + variances[places].mean())
    periods = shared.periods(values.size)[places]
    common = shared.stddev**2 * np.equal.outer(periods, periods)

    def misfit(spectrum: Spectrum) -> float:
        # sum_k s_k cos(w_k (i + 1/2)) cos(w_k (j + 1/2)) needs one cosine sum at i - j and one at i + j + 1
        doubled = np.zeros(2 * steps)
        doubled[:steps] = np.append(unknown / 2, spectrum.variances(steps))
        sums = np.fft.rfft(doubled, 2 * steps).real
        sums = np.append(sums, sums[-2:0:-1]) / steps
        joint = sums[apart]
        joint += sums[together]
        joint += common
        joint[np.diag_indices(places.size)] += variances[places] + spectrum.observation_variance
        try:
            root = cholesky(joint.T, lower=True, overwrite_a=True)  # of a symmetric matrix, in the order that it takes
        except LinAlgError:
            return math.inf
        return float(2 * np.log(np.diag(root)).sum() + (solve_triangular(root, noisy, lower=True) ** 2).sum())

    noise = float(variances[places].mean()) + shared.stddev**2
    found = [_searched(shape, values[places], noise, observation_noise, misfit) for shape in SHAPES]
    costs = [left / 2 + (spectrum.shape == "ar1") for spectrum, left in found]
    return found[int(np.argmin(costs))][0]


def _searched(
    shape: Shape,
    values: Array,
    noise: float,
    observation_noise: bool,
    misfit: Callable[[Spectrum], float],
    start: Spectrum | None = None,
) -> tuple[Spectrum, float]:
    """The spectrum of this shape with the least misfit, by a simplex search."""
    from scipy.optimize import minimize

    excess = max(float(np.var(values)) - noise, 0.05 * noise, 1e-12)
    power = 3 if shape == "integrated random walk" else 1
    size = math.log(10 * excess) - power * math.log(values.size)
    begin = start or Spectrum(shape, size, 2.0, noise / 8 if observation_noise else 0.0)

    def spectrum(point: Array) -> Spectrum:
        inside = np.clip(point, -80.0, 80.0).tolist()
        place = min(max(inside[1], -6.0), 12.0) if shape == "ar1" else 0.0
        return Spectrum(shape, inside[0], place, math.exp(inside[-1]) if observation_noise else 0.0)

    first = [begin.log_size]
    if shape == "ar1":
        first.append(begin.place)
    if observation_noise:
        first.append(math.log(max(begin.observation_variance, 1e-9)))
    options = {"maxfev": 300, "xatol": 0.01, "fatol": 0.01}
    found = minimize(lambda point: misfit(spectrum(point)), np.array(first), method="Nelder-Mead", options=options)
    return spectrum(found.x), float(found.fun)
