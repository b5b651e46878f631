"""Theorems 4 to 6 of DataLens for a plan: the bound that looks at votes, convergence, and sign-SGD as a special case.

None of it is part of the guarantee. Votes here are made up: public numbers, to show what the theorems would say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sfumato.accounting.convergence import Landscape, bound, left_scale, propose_k_weibull, terms, weibull_tau
from sfumato.accounting.data_dependent import (
    gaussian_likely_outcome,
    printed_failure,
    printed_outcome,
    threshold_outcome,
    topagg_failure,
)
from sfumato.accounting.rdp import ORDERS
from sfumato.methods.explain import Section, at_most

MADE_UP = "the votes are made up for this explanation"
CLEAR = 5.0  # sigmas beyond the threshold
RHO = (1.0, 0.3)  # of the Weibull law of gradients; the paper says that rho_2 is small
OUTCOMES = (1, 0, -1)


@dataclass(frozen=True)
class TopAgg:
    """The public numbers of a plan of signs that all teachers vote with."""

    d: int  # pixels
    k: int
    N: int
    T: int
    m: int
    sigma: float
    s: float  # threshold beta N
    delta: float
    rate: float  # gamma

    @property
    def slope(self) -> float:
        """Of the Renyi bound of one query: theorem 3 has 2 k lambda / sigma^2."""
        return 2 * self.k / self.sigma**2

    def epsilon(self, q: float) -> float:
        """Of all queries by the paper's conversion, where each fails to give its likely outcome with chance `q`."""
        queries = self.T * self.m
        log = math.log(1 / self.delta)
        return min(queries * gaussian_likely_outcome(o, q, self.slope) + log / (o - 1) for o in ORDERS if o > 1)


def sections(at: TopAgg) -> Iterator[Section]:
    """Theorems 4 and 5 as printed and as corrected, theorem 6, and the remark."""
    yield outcomes(at)
    yield data_dependent(at)
    yield convergence(at)
    yield sign_sgd(at)


def outcomes(at: TopAgg) -> Section:
    """Theorem 5: the chances of the three outcomes of one pixel."""
    sums = (0.0, at.N / 2, float(at.N), -float(at.N))
    laws = (("printed", printed_outcome), ("corrected", threshold_outcome))
    rows = []
    for f in sums:
        for name, law in laws:
            chances = [law(f, at.s, at.sigma, outcome) for outcome in OUTCOMES]
            rows.append((f, name, *chances, math.fsum(chances)))
    return Section(
        "Theorem 5: what a pixel's votes become",
        (
            f"A pixel whose votes add up to f becomes +1, 0 or -1 by the threshold beta N = {at.s:.4g} and the noise "
            f"of sigma {at.sigma:.4g}. Printed is -1 with Phi((beta N - f)/sigma), which must be "
            "Phi((-beta N - f)/sigma), and 0 with erf((beta N - f)/(sqrt(2) sigma)), which is right at f = 0 alone; "
            "outcomes lie in {-1, 0, 1}^d, not in {0, 1}^d.",
            "Printed chances need not add up to 1, and may be negative. The values of f here are made up.",
        ),
        ("f", "formula", "+1", "0", "-1", "sum"),
        tuple(rows),
    )


def data_dependent(at: TopAgg) -> Section:
    """Theorem 4: tighter where one outcome of all pixels is nearly certain."""
    cases = (
        ("nobody votes", [0.0] * at.d),
        (f"half agree on {at.k} pixels", _on(at, at.N / 2)),
        (f"all agree on {at.k} pixels", _on(at, float(at.N))),
        ("all agree, one pixel alone", [float(at.N)]),
        (f"f = -{at.s + CLEAR * at.sigma:,.0f} on all pixels", [-at.s - CLEAR * at.sigma] * at.d),
    )
    away = (at.N - at.s) / at.sigma
    return Section(
        "Theorem 4: a bound that looks at the votes",
        (
            "MAY NOT BE RELEASED: it depends on the votes, which are private; comparing it, or stopping by it, leaks. "
            "The guarantee above does not use it. The votes below are made up, and the same for every query.",
            "Where the likely outcome of a query fails with a chance of at most q, theorem 4 bounds the divergence "
            "from a neighbour's answer, in this direction alone; q itself is theorem 5's. It helps only where q is "
            "tiny, that is where every pixel's votes stand some sigmas away from the threshold. Here a unanimous pixel "
            f"stands {away:.2g} sigmas beyond it; the last row has {CLEAR:g}. Where the printed q is below the right "
            "one, the printed bound is none.",
            f"Epsilon of all {at.T * at.m:,} queries at delta {at.delta:g}, by the paper's conversion; without looking "
            f"at votes it is {at_most(at.epsilon(1.0))} (theorem 3).",
        ),
        ("votes", "q printed", "q corrected", "epsilon printed", "epsilon corrected"),
        tuple((name, *_failures(at, votes)) for name, votes in cases),
    )


def _on(at: TopAgg, f: float) -> list[float]:
    return [f] * at.k + [0.0] * (at.d - at.k)


def _failures(at: TopAgg, votes: Sequence[float]) -> tuple[float | None, ...]:
    """q and epsilon as printed and as corrected; an epsilon of something that is no probability is none."""
    likely = [max(OUTCOMES, key=lambda o: threshold_outcome(f, at.s, at.sigma, o)) for f in votes]
    printed = printed_failure(votes, likely, at.s, at.sigma)
    right = topagg_failure(votes, likely, at.s, at.sigma).reveal(MADE_UP)
    return printed, right, at.epsilon(printed) if 0 < printed <= 1 else None, at.epsilon(right)


def convergence(at: TopAgg) -> Section:
    """Theorem 6 for the plan's numbers and stated guesses of what nobody knows."""
    printed = Landscape(
        dimensions=at.d,
        gradient=math.sqrt(at.k),
        smoothness=1.0,
        clip=1.0,
        noise=at.sigma**2 / at.k,
        rate=at.rate,
        steps=at.T,
        gap=1.0,
        quantisation=math.sqrt(at.k),
    )
    once = at.sigma**2 / (at.k * at.N**2)
    right = replace(printed, noise=once, noisy_coordinates=at.d, clipped_coordinates=at.k)
    tau = weibull_tau(at.k, at.d, *RHO)
    found = [terms(at.k, tau, land) for land in (printed, right)]
    rows = [(name, found[0][name], found[1][name]) for name in found[0]]
    total = [bound(at.k, tau, land) / left_scale(land) for land in (printed, right)]
    vain = total[1] > at.k
    best = [propose_k_weibull(land, *RHO) for land in (printed, right)]
    return Section(
        "Theorem 6: convergence",
        (
            "For an abstract SGD whose teachers give unbiased gradients of a smooth loss, not for a GAN, the theorem "
            "bounds (min(c, 1)/(d + 2)) times the mean over T steps of min(||grad f||^2, ||grad f||_1) by the sum "
            "below.",
            f"From the plan: d = {at.d}, k = {at.k}, N = {at.N}, T = {at.T} (of {at.m} images each), sigma = "
            f"{at.sigma:.4g}, gamma = {at.rate:g}. Guessed, since nobody knows them: L = 1, f(x_0) - f(x*) = 1, "
            "teachers that agree (no spread), entries of at most c = 1 once divided by the largest, hence M = sqrt(k); "
            f"tau_k = {tau:.3f} of Weibull gradients with rho = {RHO[0]:g}, {RHO[1]:g}.",
            "Corrected: the noise is added once to the sum of N teachers and has d coordinates (printed: A k = sigma^2 "
            "for all of it, on the mean); k clipped entries have a squared norm of up to k c^2 (printed: c^2).",
            f"So the mean is at most {total[0]:.3g} as printed and {total[1]:.3g} corrected, where the assumption "
            f"alone gives M^2 = {at.k}: at such numbers the theorem promises {'nothing' if vain else 'something'}. "
            "What it shows is the trade: bias falls with k, noise grows with it. Its least bound is at k = "
            f"{best[0]} as printed, {best[1]} corrected.",
        ),
        ("term", "printed", "corrected"),
        tuple(rows),
    )


def sign_sgd(at: TopAgg) -> Section:
    """The clipping dichotomy: a small c makes signs of gradients."""
    grown = math.sqrt(at.d / at.k)
    return Section(
        "Sign-SGD as a special case",
        (
            "Clipped entries vote by their sign for certain, others by chance in proportion to their size. With k = d "
            "and a clip below every entry, TopAgg is sign-SGD with a majority vote (Bernstein et al. 2018) and noise; "
            "with a large clip it follows the gradient itself. Theorem 6 has both on its left side: the squared norm "
            "of gradient descent and c times the L1 norm of sign descent.",
            f"Here as compress=dense: sensitivity 2 sqrt(d) = {2 * math.sqrt(at.d):.4g} in place of 2 sqrt(k) = "
            f"{2 * math.sqrt(at.k):.4g}, so {grown:.3g} times the noise for the same epsilon: sigma "
            f"{grown * at.sigma:.4g}.",
        ),
    )
