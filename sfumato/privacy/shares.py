"""Noise of a sum that nobody holds whole: each site adds a share, and the honest ones together reach sigma.

Every share is a discrete Gaussian of variance sigma^2 / m, where m sites are sure to answer and to keep their noise to
themselves. A sum of discrete Gaussians is none itself, but it is one up to a factor exp(tau) in every probability
(Kairouz, Liu and Steinke 2021, "The distributed discrete Gaussian mechanism"; derived in docs/federated.md):

    tau = 10 sum_{k=1}^{m-1} exp(-2 pi^2 s^2 k / (k+1))        s: sigma / sqrt(m), in steps of the grid

More shares than m are further noise on top of a sum that is private already.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sfumato.privacy.mechanisms import DiscreteLaplace
from sfumato.privacy.noise import Noise
from sfumato.privacy.plan import Crossing

LEAST = 2.0  # steps of the grid in the standard deviation of a share: tau is then below 1e-16 times the shares
EXCESS = 1e-12  # D tau of a crossing, at most
CONSTANT = 10.0
NUMBERS = 10**15  # that a crossing may release in all


def spread_of(crossing: Crossing, shares: int) -> float:
    """Standard deviation of one of `shares` shares in steps of the grid, rounded up: their variances reach sigma^2.

    >>> from sfumato.privacy.bounds import IntegerBound
    >>> from sfumato.privacy.plan import crossing
    >>> spread_of(crossing(IntegerBound(1), 20.0), 4)
    10.0
    """
    whole = Fraction(crossing.mechanism.std(crossing.bound)) / Fraction(crossing.bound.grid)
    spread = float(whole) / math.sqrt(shares)
    while shares * Fraction(spread) ** 2 < whole**2:
        spread = math.nextafter(spread, math.inf)
    return spread


def log_tau(spread: float, shares: int) -> float:
    """Logarithm of tau for one coordinate; minus infinity where there is one share, which is exact.

    >>> round(log_tau(4.0, 2) / math.log(10))
    -68
    """
    exponents = [-2 * math.pi**2 * spread**2 * k / (k + 1) for k in range(1, shares)]
    if not exponents:
        return -math.inf
    return math.log(CONSTANT) + max(exponents) + math.log(sum(math.exp(e - max(exponents)) for e in exponents))


def most_numbers(crossing: Crossing, shares: int) -> int:
    """D: so many numbers a crossing may release, in all its uses. A site counts them, and stops there."""
    tau = log_tau(spread_of(crossing, shares), shares)
    return NUMBERS if tau < math.log(EXCESS / NUMBERS) else int(EXCESS / math.exp(tau))


def log_excess(crossings: Iterable[Crossing], shares: int) -> float:
    """Logarithm of the sum of D tau over the crossings of a run; minus infinity where noise comes in one piece."""
    logs = [
        log_tau(spread_of(each, shares), shares) + math.log(max(1, most_numbers(each, shares))) for each in crossings
    ]
    top = max(logs, default=-math.inf)
    return top if top == -math.inf else top + math.log(sum(math.exp(each - top) for each in logs))


def unfit(crossing: Crossing, shares: int) -> str | None:
    """Why the noise of a crossing cannot come in shares, with the remedy; None where it can."""
    if isinstance(crossing.mechanism, DiscreteLaplace):
        return "its Laplace noise does not come in shares; take trust: trusted"
    if spread_of(crossing, shares) < LEAST:
        return (
            f"a share of its noise would be {spread_of(crossing, shares):.2g} steps of the grid and {LEAST:g} are "
            "needed; lower epsilon, take trust: trusted or, of labels, labels: uniform"
        )
    return None


def in_steps(total: Tensor, crossing: Crossing) -> NDArray[np.int64]:
    """A sum that lies on the grid, in whole steps."""
    steps: NDArray[np.int64] = (total / crossing.bound.grid).round().cpu().numpy().astype(np.int64)
    return steps


def share(shape: tuple[int, ...], crossing: Crossing, shares: int, noise: Noise) -> NDArray[np.int64]:
    """One site's noise in steps: exact, on every device."""
    return noise.discrete_gaussian(spread_of(crossing, shares), shape)
