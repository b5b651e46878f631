"""DataLens, theorem 6, as a calculator: the trade between the bias of top-k and the noise that grows with k."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Landscape:
    """What the theorem assumes about the loss; none of it is known exactly, all of it must be public guesses.

    `noise` is A, where each coordinate gets noise of variance A k. The paper's proof takes A k for the squared norm of
    the whole noise vector; `noisy_coordinates` corrects this where the dimension is put there instead of 1. It takes
    c^2 for the squared norm of a clipped gradient, too, which may have k entries of size c: `clipped_coordinates`.
    """

    dimensions: int
    gradient: float  # M, root mean square of the teachers' gradient norms
    smoothness: float  # L
    clip: float  # c, for each coordinate
    noise: float  # A
    rate: float  # learning rate gamma
    steps: int  # T
    gap: float  # f(x_0) - f(x*)
    spread_2: float = 0.0  # L2 norm of the per-coordinate deviations
    spread_1: float = 0.0  # L1 norm of them
    quantisation: float = 0.0  # deviation of the stochastic signs
    quantised: bool = True
    noisy_coordinates: int = 1
    clipped_coordinates: int = 1


def noise_constant(mu: float, queries: int) -> float:
    """A for a total Gaussian-DP parameter: sigma^2 = 4 k queries / mu^2."""
    return 4 * queries / mu**2


def weibull_tau(k: int, dimensions: int, rho_1: float, rho_2: float) -> float:
    """tau_k of Weibull gradients, scaled to 1 at k = 0; it is 0 from k = rho_1 d on.

    >>> weibull_tau(0, 100, 1.0, 0.3), weibull_tau(100, 100, 1.0, 0.3)
    (1.0, 0.0)
    """
    if not (rho_1 > 0 and 0 < rho_2 < 1):
        raise ValueError(f"Expected rho_1 above 0 and rho_2 between 0 and 1, found {rho_1}, {rho_2}.")
    share = math.exp(-((k / (rho_1 * dimensions)) ** rho_2))
    return max(0.0, (share - math.exp(-1)) / (1 - math.exp(-1)))


def bound(k: int, tau: float, at: Landscape) -> float:
    """Right side of the theorem: an upper bound on the scaled mean gradient norm after T steps."""
    return math.fsum(terms(k, tau, at).values())


def terms(k: int, tau: float, at: Landscape) -> dict[str, float]:
    """What the right side is made of, in the theorem's order."""
    if not 1 <= k <= at.dimensions:
        raise ValueError(f"Expected k between 1 and {at.dimensions}, found {k}.")
    bias = min(tau * at.gradient**2, at.clip * (at.dimensions - k) * at.gradient)
    private = at.smoothness * at.rate * at.noise * k * at.noisy_coordinates
    start = at.gap / (at.steps * at.rate)
    spread = max(at.spread_2**2 + at.spread_2 * at.gradient, 2 * at.spread_1)
    size = min(at.clipped_coordinates * at.clip**2, at.gradient**2)
    tail = 2 * (at.quantisation**2 + size) if at.quantised else size
    return {
        "bias of top-k": bias,
        "noise": private,
        "start": start,
        "spread of teachers": spread,
        "size of a step": at.smoothness * at.rate * tail,
    }


def left_scale(at: Landscape) -> float:
    """What the mean gradient norm is multiplied by on the left side; dividing `bound` by it bounds the norm."""
    return min(at.clip, 1.0) / (at.dimensions + 2)


def propose_k(at: Landscape, tau: Callable[[int], float]) -> int:
    """The k with the least bound."""
    return min(range(1, at.dimensions + 1), key=lambda k: bound(k, tau(k), at))


def propose_k_weibull(at: Landscape, rho_1: float = 1.0, rho_2: float = 0.3) -> int:
    """The k with the least bound for Weibull gradients."""
    return propose_k(at, lambda k: weibull_tau(k, at.dimensions, rho_1, rho_2))
