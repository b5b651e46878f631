"""PATE for labels: teachers on disjoint parts vote, and a noisy plurality answers.

One unit lies in one part and changes one teacher's vote: one count falls by 1 and another rises by 1, under either
relation (with parts chosen by a stable key of the record). So the histogram moves by sqrt(2) in L2 and 2 in L1, and
its largest count by 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.accounting.budget import Relation
from sfumato.accounting.data_dependent import gaussian_likely_outcome
from sfumato.accounting.events import Event, MechanismName
from sfumato.accounting.private_number import PrivateNumber

Counts = Sequence[Sequence[int]]


def gnmax_events(
    sigma: float, queries: int, relation: Relation = Relation.ADD_REMOVE, *, discrete: bool = True
) -> tuple[Event, ...]:
    """GNMax: the histogram with Gaussian noise on each count; only the largest is told, which costs no less."""
    move = math.sqrt(2)
    kind: MechanismName = "discrete-gaussian" if discrete else "gaussian"
    return (Event(kind, sigma, move, move, relation, times=queries, shift=(2, 1)),)


def lnmax_events(scale: float, queries: int, relation: Relation = Relation.ADD_REMOVE) -> tuple[Event, ...]:
    """LNMax: the histogram with Laplace noise of this scale on each count."""
    return (Event("laplace", scale, 2.0, 2.0, relation, times=queries),)


def confident_events(
    threshold_sigma: float,
    answer_sigma: float,
    queries: int,
    answers: int,
    relation: Relation = Relation.ADD_REMOVE,
    *,
    discrete: bool = True,
) -> tuple[Event, ...]:
    """Confident-GNMax: every query pays the test of its largest count, whether it is answered or not.

    `answers` is a cap fixed beforehand; labelling stops when it is reached, and which queries were answered is public.
    """
    if not 0 <= answers <= queries:
        raise ValueError(f"Expected between 0 and {queries} answers, found {answers}.")
    kind: MechanismName = "discrete-gaussian" if discrete else "gaussian"
    test = Event(kind, threshold_sigma, 1.0, 1.0, relation, times=queries, shift=(1, 1))
    return (test, *gnmax_events(answer_sigma, answers, relation, discrete=discrete))


def gnmax_failure(counts: Sequence[int], sigma: float) -> float:
    """Bound on the chance that another class than the plurality wins (Papernot et al. 2018, proposition 7).

    A function of private votes: callers wrap what they make of it.
    """
    ranked = sorted(counts, reverse=True)
    return 0.5 * math.fsum(math.erfc((ranked[0] - n) / (2 * sigma)) for n in ranked[1:])


def gnmax_data_dependent(counts: Counts, sigma: float, order: float) -> PrivateNumber:
    """Renyi divergence at `order` of all queries, given the votes (Papernot et al. 2018, theorem 6)."""
    total = math.fsum(gaussian_likely_outcome(order, gnmax_failure(c, sigma), sigma**-2) for c in counts)
    return PrivateNumber(total, "data-dependent divergence of GNMax")


def confident_data_dependent(
    counts: Counts,
    answered: Sequence[bool],
    threshold: float,
    threshold_sigma: float,
    answer_sigma: float,
    order: float,
) -> PrivateNumber:
    """As above for Confident-GNMax, given the votes and which queries were answered."""
    total = 0.0
    for votes, told in zip(counts, answered, strict=True):
        # The test is a Gaussian of sensitivity 1 with two outcomes, one of which may be nearly certain.
        away = abs(threshold - max(votes)) / threshold_sigma
        unlikely = 0.5 * math.erfc(away / math.sqrt(2))
        total += gaussian_likely_outcome(order, unlikely, 0.5 * threshold_sigma**-2)
        if told:
            total += gaussian_likely_outcome(order, gnmax_failure(votes, answer_sigma), answer_sigma**-2)
    return PrivateNumber(total, "data-dependent divergence of Confident-GNMax")


def lnmax_data_dependent(counts: Counts, scale: float, delta: float) -> PrivateNumber:
    """Epsilon of LNMax by the moments of Papernot et al. 2017 (theorem 3), given the votes."""
    rate = 1 / scale
    gaps = [[max(c) - n for n in sorted(c, reverse=True)[1:]] for c in counts]
    failures = [math.fsum((2 + rate * g) / (4 * math.exp(rate * g)) for g in one) for one in gaps]
    best = math.inf
    for moment in range(1, 101):
        total = math.fsum(_laplace_moment(moment, rate, q) for q in failures)
        best = min(best, (total + math.log(1 / delta)) / moment)
    return PrivateNumber(best, "data-dependent epsilon of LNMax")


def _laplace_moment(moment: int, rate: float, q: float) -> float:
    plain = min(2 * rate**2 * moment * (moment + 1), 2 * rate * moment)
    if q <= 0 or q * math.exp(2 * rate) >= 1:
        return plain if q > 0 else 0.0
    kept = math.log1p(-q) + moment * (math.log1p(-q) - math.log1p(-q * math.exp(2 * rate)))
    lost = math.log(q) + 2 * rate * moment
    top = max(kept, lost)
    return min(plain, top + math.log(math.exp(kept - top) + math.exp(lost - top)))
