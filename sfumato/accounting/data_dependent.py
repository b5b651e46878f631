"""Bounds that look at the data: tighter where one outcome is nearly certain, and private themselves.

An epsilon computed here is a function of private votes. It may not be printed, logged, compared with a budget or
used to stop; hence `PrivateNumber`. Only `pate_smooth` makes something that may be released of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.accounting.private_number import PrivateNumber

CAVEAT = (
    "depends on private votes and may not be released: comparing it between data sets, or stopping by it, leaks. "
    "Releasing it takes noise calibrated to its smooth sensitivity, which exists here for GNMax alone"
)


def likely_outcome_bound(
    order: float, q: float, first: tuple[float, float], second: tuple[float, float]
) -> float | None:
    """Renyi divergence at `order` where the likely outcome fails with probability at most `q`.

    `first` and `second` are (order, divergence) guarantees that hold for all data. This is theorem 6 of Papernot
    et al. 2018, theorem 4 of DataLens: it bounds the divergence of this data set's answer from any neighbour's, not the
    reverse. None where its conditions do not hold.
    """
    (m1, e1), (m2, e2) = first, second
    if not (0 < q < 1 and m1 >= order > 1 and m2 > 1):
        return None
    log_q = math.log(q)
    limit = (m2 - 1) * e2 - m2 * (math.log(m1 / (m1 - 1)) + math.log(m2 / (m2 - 1)))
    shrink = (log_q + e2) * (m2 - 1) / m2
    if log_q > limit or shrink >= 0:
        return None
    log_a = math.log1p(-q) - math.log(-math.expm1(shrink))
    log_b = e1 - log_q / (m1 - 1)
    x = math.log1p(-q) + (order - 1) * log_a
    y = log_q + (order - 1) * log_b
    top = max(x, y)
    return max(0.0, (top + math.log(math.exp(x - top) + math.exp(y - top))) / (order - 1))


def gaussian_likely_outcome(order: float, q: float, slope: float) -> float:
    """The better of the data-independent slope * order and the bound for a likely outcome.

    The two helping orders are those of Papernot et al. 2018, proposition 10.
    """
    plain = slope * order
    if q >= 1:
        return plain
    q = max(q, 1e-300)
    m2 = math.sqrt(math.log(1 / q) / slope)
    m1 = m2 + 1
    found = likely_outcome_bound(order, q, (m1, slope * m1), (m2, slope * m2))
    return plain if found is None else min(plain, found)


def threshold_outcome(vote: float, threshold: float, sigma: float, outcome: int) -> float:
    """Probability that a noisy vote sum is thresholded to `outcome`, which is -1, 0 or 1."""
    return math.exp(_log_outcome(vote, threshold, sigma, outcome))


def _log_outcome(vote: float, threshold: float, sigma: float, outcome: int) -> float:
    from scipy.special import log_ndtr

    if outcome not in (-1, 0, 1):
        raise ValueError(f"Expected an outcome of -1, 0 or 1, found {outcome}.")
    up = float(log_ndtr((vote - threshold) / sigma))
    down = float(log_ndtr((-vote - threshold) / sigma))
    if outcome:
        return up if outcome > 0 else down
    return math.log(max(-math.expm1(up) - math.exp(down), 1e-300))


def topagg_failure(votes: Sequence[float], outcomes: Sequence[int], threshold: float, sigma: float) -> PrivateNumber:
    """Probability that TopAgg's answer differs from `outcomes`: theorem 5 of DataLens, corrected.

    Outcomes lie in {-1, 0, 1}^d; votes are sums of teachers' votes with their random signs already drawn.
    """
    return PrivateNumber(_failure(votes, outcomes, threshold, sigma), "chance of another outcome")


def _failure(votes: Sequence[float], outcomes: Sequence[int], threshold: float, sigma: float) -> float:
    pairs = zip(votes, outcomes, strict=True)
    return -math.expm1(math.fsum(_log_outcome(v, threshold, sigma, o) for v, o in pairs))


def printed_outcome(vote: float, threshold: float, sigma: float, outcome: int) -> float:
    """Theorem 5 as printed. WRONG: kept to show by how much; the three cases do not sum to 1 and may be negative."""
    from scipy.special import erf, ndtr

    gap = (threshold - vote) / sigma
    cases = {1: 1 - ndtr(gap), -1: ndtr(gap), 0: erf(gap / math.sqrt(2))}
    return float(cases[outcome])


def printed_failure(votes: Sequence[float], outcomes: Sequence[int], threshold: float, sigma: float) -> float:
    """Chance of another answer by theorem 5 as printed. WRONG, as `printed_outcome` is: it need not be a chance."""
    return 1 - math.prod(printed_outcome(v, threshold, sigma, o) for v, o in zip(votes, outcomes, strict=True))


def topagg_renyi(votes: Sequence[float], k: int, sigma: float, threshold: float, order: float) -> PrivateNumber:
    """Data-dependent Renyi divergence of one TopAgg query, conditional on the teachers' drawn signs."""
    likely = [max((-1, 0, 1), key=lambda o: _log_outcome(v, threshold, sigma, o)) for v in votes]
    q = _failure(votes, likely, threshold, sigma)
    return PrivateNumber(gaussian_likely_outcome(order, q, 2 * k / sigma**2), "data-dependent divergence of TopAgg")
