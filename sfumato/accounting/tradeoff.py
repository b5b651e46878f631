"""From counted errors to a lower bound on the privacy loss. An audit can refute a claim, never prove one.

An auditor decides between two neighbouring inputs n times on each side. Its error rates, bounded from above with
confidence, must lie above the trade-off curve that the claim allows; if they do not, the claim is false.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting import gaussian
from sfumato.accounting.accountant import Profile

WINDOW = 9
SIGNIFICANCE = 1e-3  # of a whole audit, shared by Bonferroni over everything that is decided by chance


def rate_at_most(hits: int, trials: int, alpha: float) -> float:
    """One-sided Clopper-Pearson bound: the true rate is below this, except with probability `alpha`.

    >>> round(rate_at_most(0, 100, 0.05), 4)
    0.0295
    """
    from scipy.special import betaincinv

    return 1.0 if hits >= trials else float(betaincinv(hits + 1, trials - hits, 1 - alpha))


def rate_at_least(hits: int, trials: int, alpha: float) -> float:
    """The mirror: the true rate is above this, except with probability `alpha`."""
    return 1.0 - rate_at_most(trials - hits, trials, alpha)


@dataclass(frozen=True)
class Errors:
    """Counted errors of one decision rule; both rates hold together except with probability `alpha`."""

    false_positives: int
    negatives: int
    false_negatives: int
    positives: int
    alpha: float

    @property
    def fpr(self) -> float:
        """Upper bound of the rate of false positives."""
        return rate_at_most(self.false_positives, self.negatives, self.alpha / 2)

    @property
    def fnr(self) -> float:
        """Upper bound of the rate of false negatives."""
        return rate_at_most(self.false_negatives, self.positives, self.alpha / 2)

    @property
    def mu(self) -> float:
        """mu_lo, for a mechanism that claims Gaussian DP: the claim's own law is used, so it is tight."""
        from scipy.special import ndtri

        return max(0.0, float(ndtri(1 - self.fpr) - ndtri(self.fnr)))

    def epsilon(self, delta: float) -> float:
        """eps_lo through Gaussian DP."""
        return gaussian.epsilon_of(delta, self.mu)

    def epsilon_free(self, delta: float) -> float:
        """eps_lo without any assumption on the mechanism, in the better direction; much weaker."""
        return max(0.0, _ratio(1 - self.fnr - delta, self.fpr), _ratio(1 - self.fpr - delta, self.fnr))


def _ratio(above: float, below: float) -> float:
    return math.log(above / below) if above > 0 and below > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Curve:
    """The trade-off curve of a claim: the least rate of false negatives that it allows at a rate of false positives."""

    epsilons: NDArray[np.float64]
    deltas: NDArray[np.float64]
    mu: float | None = None

    def fnr(self, fpr: float) -> float:
        """Least false negatives at `fpr`; the larger of both directions of every (epsilon, delta)."""
        from scipy.special import ndtr, ndtri

        if self.mu is not None:  # exactly, for a Gaussian
            return float(ndtr(ndtri(1 - fpr) - self.mu)) if 0 < fpr < 1 else float(fpr <= 0)
        grown = np.exp(self.epsilons)
        lines = np.maximum(1 - self.deltas - grown * fpr, (1 - self.deltas - fpr) / grown)
        return max(0.0, float(lines.max()))

    def refuted_by(self, errors: Errors) -> bool:
        """Whether the counted errors are fewer than the claim allows."""
        return errors.fnr < self.fnr(errors.fpr) - 1e-12


def curve_of(profile: Profile, points: int = 160) -> Curve:
    """The curve of a claim's whole privacy profile; for subsampled claims it is not that of a Gaussian."""
    top = _top(profile) + 1e-3 if profile.mu is None else 1.0
    epsilons = np.concatenate([[0.0], np.geomspace(min(1e-3, top / 2), top, points)])
    deltas = np.array([profile.delta(float(e)) for e in epsilons]) if profile.mu is None else np.zeros_like(epsilons)
    return Curve(epsilons, deltas, profile.mu)


def _top(profile: Profile) -> float:
    """The largest epsilon that matters; a composed distribution may leave a dust of delta that no epsilon covers."""
    tops = (profile.epsilon(10.0**-digits) for digits in range(12, 0, -1))
    return next((top for top in tops if math.isfinite(top)), 0.0)


def gaussian_curve(mu: float) -> Curve:
    """The curve of a mu-Gaussian claim."""
    return Curve(np.zeros(1), np.zeros(1), mu)


def count(without: NDArray[np.float64], with_: NDArray[np.float64], threshold: float, alpha: float) -> Errors:
    """Errors of the rule "it took part if the statistic is above `threshold`", which was fixed in advance."""
    wrong = int((without > threshold).sum())
    missed = int((with_ <= threshold).sum())
    return Errors(wrong, len(without), missed, len(with_), alpha)


def held_out(without: NDArray[np.float64], with_: NDArray[np.float64], curve: Curve, alpha: float) -> Errors:
    """Errors on the second half of each side, at the threshold that looks most damning on the first."""
    first = (without[::2], with_[::2])
    second = (without[1::2], with_[1::2])
    tried = np.unique(np.quantile(np.concatenate(first), np.linspace(0.002, 0.998, 200)))
    damage = np.array([_damage(count(*first, float(t), alpha), curve) for t in tried])
    # Averaged over neighbouring thresholds, so that luck at one of them is not taken for a leak.
    smooth = np.convolve(np.pad(damage, WINDOW // 2, mode="edge"), np.ones(WINDOW), mode="valid")
    return count(*second, float(tried[smooth.argmax()]), alpha)


def _damage(errors: Errors, curve: Curve) -> float:
    """How far the point lies below the curve, in normal units."""
    from scipy.special import ndtri

    allowed, seen = (min(max(v, 1e-12), 1 - 1e-12) for v in (curve.fnr(errors.fpr), errors.fnr))
    return float(ndtri(allowed) - ndtri(seen))


def roc(without: NDArray[np.float64], with_: NDArray[np.float64], points: int = 100) -> list[tuple[float, float]]:
    """Measured (false positives, false negatives) over all thresholds, for a picture."""
    cuts: Sequence[float] = np.quantile(np.concatenate([without, with_]), np.linspace(0, 1, points)).tolist()
    return [(float((without > t).mean()), float((with_ <= t).mean())) for t in cuts]
