"""G-PATE and PATE-GAN: their papers report an epsilon that depends on the data."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.accounting.claims.label import Claim, claim, mironov
from sfumato.accounting.private_number import PrivateNumber


def g_pate_sound_mu(dimensions: int, threshold_sigma: float, answer_sigma: float, samples: int) -> float:
    """Gaussian-DP parameter, independent of the data: a test and a histogram for each projected dimension."""
    return math.sqrt(samples * dimensions * (threshold_sigma**-2 + 2 * answer_sigma**-2))


def g_pate(dimensions: int, threshold_sigma: float, answer_sigma: float, samples: int, delta: float = 1e-5) -> Claim:
    """The part of G-PATE's accounting that does not look at votes, with its conversion."""
    reason = (
        "the paper reports the data-dependent epsilon, which may not be released; this is its data-independent bound, "
        "with the 2017 conversion; the threshold test is paid even where no answer is given"
    )
    return claim(mironov(g_pate_sound_mu(dimensions, threshold_sigma, answer_sigma, samples), delta), reason)


def pate_gan_sound_mu(queries: int, sigma: float) -> float:
    """Gaussian-DP parameter of releasing one noisy count a query: the number of teachers is public."""
    return math.sqrt(queries) / sigma


def pate_gan(votes: Sequence[tuple[int, int]], scale: float, delta: float = 1e-5) -> Claim:
    """The moments accountant with q from the votes; `scale` is the paper's lambda, the inverse Laplace scale."""
    moments = [math.fsum(_moment(order, scale, abs(a - b)) for a, b in votes) for order in range(1, 101)]
    found = min((m + math.log(1 / delta)) / order for order, m in enumerate(moments, start=1))
    reason = (
        "not releasable: q comes from the teachers' votes, so epsilon depends on the data, and the paper also stops by "
        "it, so that the length of a run leaks as well"
    )
    return claim(PrivateNumber(found, "data-dependent epsilon of PATE-GAN"), reason)


def pate_gan_independent(queries: int, scale: float, delta: float = 1e-5) -> Claim:
    """The same accountant with no look at the votes: moments 2 lambda^2 l (l + 1) a query.

    >>> round(pate_gan_independent(1000, 0.01)["epsilon"], 2)
    3.24
    """
    found = min(2 * queries * scale**2 * (order + 1) + math.log(1 / delta) / order for order in range(1, 101))
    reason = (
        "the paper reports, and stops by, an epsilon that depends on the votes, which may not be released; this is its "
        "data-independent bound, for Laplace noise on both counts"
    )
    return claim(found, reason)


def gnmax(queries: int, sigma: float, delta: float = 1e-5) -> Claim:
    """PATE's GNMax with no look at the votes: lambda / sigma^2 a query (Papernot et al. 2018, proposition 8).

    >>> round(gnmax(1000, 100.0)["epsilon"], 2)
    2.25
    """
    reason = (
        "the paper reports an epsilon that depends on the votes, which may not be released without noise of its own; "
        "this is its data-independent bound, sound but loose by the 2017 conversion"
    )
    return claim(mironov(math.sqrt(2 * queries) / sigma, delta), reason, queries=queries)


def lnmax(queries: int, scale: float, delta: float = 1e-5) -> Claim:
    """PATE's LNMax with no look at the votes: moments 2 gamma^2 l (l + 1) a query (Papernot et al. 2017, theorem 2).

    >>> round(lnmax(1000, 100.0)["epsilon"], 2)
    3.24
    """
    found = pate_gan_independent(queries, 1 / scale, delta)["epsilon"]
    reason = (
        "the paper reports an epsilon that depends on the votes, which may not be released; this is its "
        "data-independent bound, loose, for continuous noise"
    )
    return claim(found, reason, queries=queries)


def _moment(order: int, scale: float, gap: int) -> float:
    plain = 2 * scale**2 * order * (order + 1)
    log_q = math.log(2 + scale * gap) - math.log(4) - scale * gap
    if log_q + 2 * scale >= 0:
        return plain
    q = math.exp(log_q)
    base = (1 - q) * math.exp(order * (math.log1p(-q) - math.log1p(-math.exp(log_q + 2 * scale))))
    return min(plain, math.log(base + math.exp(log_q + 2 * scale * order)))
