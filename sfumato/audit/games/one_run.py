"""One-run audit (Steinke, Nasr and Jagielski 2023): many canaries, each put in by a fair coin, one training.

    beta  = P[Bin(r, 1/(1+e^-eps)) >= v],   alpha = max_i P[v-i <= Bin < v] / i,   p = beta + 2 m delta alpha

for m canaries, r guesses and v right ones. A cheap smoke test; it is far from tight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Probability that an (epsilon, delta)-DP training lets `right` or more of `guesses` be right."""
    q = 1 / (1 + np.exp(-epsilon))
    beta = float(binom.sf(right - 1, guesses, q))
    if delta == 0 or right == 0:
        return min(1.0, beta)
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, q))  # P[v-i <= Bin < v] for i = 1..v
    alpha = float((below / np.arange(1, right + 1)).max())
    return min(1.0, beta + 2 * canaries * delta * alpha)


def epsilon_lower(canaries: int, guesses: int, right: int, delta: float, significance: float = 0.05) -> float:
    """The largest epsilon that the count of right guesses refutes.

    >>> round(epsilon_lower(1000, 100, 90, 1e-5), 2)
    1.63
    """
    low = 0.0
    high = 50.0
    if guesses == 0 or p_value(canaries, guesses, right, 0.0, delta) > significance:
        return 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        refuted = p_value(canaries, guesses, right, middle, delta) <= significance
        low, high = (middle, high) if refuted else (low, middle)
    return low


def guess(scores: NDArray[np.float64], included: NDArray[np.bool_], guesses: int) -> int:
    """Right guesses when the highest scores are called members and the lowest ones non-members."""
    order = np.argsort(scores)
    half = guesses // 2
    return int(included[order[len(order) - half :]].sum() + (~included[order[: guesses - half]]).sum())


def audit(
    scores: NDArray[np.float64], included: NDArray[np.bool_], delta: float, significance: float = 0.05
) -> tuple[float, int, int]:
    """(eps_lo, guesses, right): the best of a few numbers of guesses, by Bonferroni.

    In systems with parts (voting), take one canary a part: canaries that share a part are not independent.
    """
    tries = sorted({max(2, int(len(scores) * share)) for share in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)})
    bounds = []
    for guesses in tries:
        right = guess(scores, included, guesses)
        bounds.append((epsilon_lower(len(scores), guesses, right, delta, significance / len(tries)), guesses, right))
    return max(bounds)
