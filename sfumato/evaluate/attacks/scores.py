"""From the scores of members and non-members to a verdict: ROC, AUC, true positives at few false ones, the ceiling.

A higher score says "was in the training set". Members and non-members must be exchangeable (a random split of one
set), or the attack measures a difference between two distributions. An AUC near 0.5 says that the attack is weak, not
that the mechanism is private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.evaluate.results import Measured

if TYPE_CHECKING:
    from sfumato.accounting.tradeoff import Curve

RATES = {"tpr_at_1_percent": 0.01, "tpr_at_0.1_percent": 0.001}
SIGNIFICANCE = 1e-3  # of all attacks together
BELOW = "within the bound"
ABOVE = "ABOVE"


@dataclass(frozen=True)
class Ceiling:
    """What no attack on a correct mechanism can exceed, whatever it knows."""

    auc: float
    tpr: Mapping[str, float]
    epsilon: float
    delta: float
    mu: float | None
    curve: Curve

    def to_json(self) -> dict[str, Any]:
        """Numbers, and points of the highest ROC curve for a picture."""
        rates = [float(r) for r in np.geomspace(1e-4, 1, 60)]
        return {
            "auc": self.auc,
            **self.tpr,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "mu": self.mu,
            "roc": [[r, 1 - self.curve.fnr(r)] for r in rates],
        }


def ceiling_of_mu(mu: float, delta: float = 1e-5) -> Ceiling:
    """The ceiling of a mu-Gaussian mechanism: AUC at most Phi(mu / sqrt 2).

    >>> round(ceiling_of_mu(2.00045).auc, 3), round(ceiling_of_mu(2.00045).tpr["tpr_at_1_percent"], 3)
    (0.921, 0.372)
    """
    from scipy.special import ndtr

    from sfumato.accounting.gaussian import epsilon_of
    from sfumato.accounting.tradeoff import gaussian_curve

    curve = gaussian_curve(mu)
    return Ceiling(float(ndtr(mu / math.sqrt(2))), _rates(curve), epsilon_of(delta, mu), delta, mu, curve)


def ceiling_of_curve(points: list[tuple[float, float]], epsilon: float, delta: float) -> Ceiling:
    """The ceiling of (delta, epsilon) pairs that hold together."""
    from sfumato.accounting.tradeoff import Curve

    pairs = np.array([(delta, epsilon), *points], dtype=float)
    curve = Curve(np.minimum(pairs[:, 1], 700.0), pairs[:, 0])  # exp must not overflow
    # The curve is convex: a sum by trapezia would make the ceiling too low, one by left edges errs the safe way.
    rates = np.concatenate([[0.0], np.geomspace(1e-6, 1, 4000)])
    missed = np.array([curve.fnr(float(r)) for r in rates])
    area = 1 - float((np.diff(rates) * missed[1:]).sum())
    return Ceiling(min(1.0, area), _rates(curve), epsilon, delta, None, curve)


def ceiling_of(statement: Mapping[str, Any] | None) -> Ceiling | None:
    """The ceiling that the privacy statement of a release implies; None without a guarantee.

    The statement's own relation is taken. A split of fixed size moves two records where add-remove moves one; averaged
    over the records this game is still the one-record game, but a strict bound would be that of replace-one.
    """
    given = (statement or {}).get("guarantee") or {}
    if given.get("mu") is not None:
        return ceiling_of_mu(float(given["mu"]), float(given["delta"]))
    if given.get("epsilon") is None:
        return None
    points = [(float(d), float(e)) for d, e in given.get("curve") or ()]
    return ceiling_of_curve(points, float(given["epsilon"]), float(given["delta"]))


def _rates(curve: Curve) -> dict[str, float]:
    return {name: 1 - curve.fnr(rate) for name, rate in RATES.items()}


class _Sorted:
    """Scores of both sides on one sorted axis, so that a resample is a change of weights and needs no sorting."""

    def __init__(self, members: np.ndarray, others: np.ndarray) -> None:
        values, places = np.unique(np.concatenate([members, others]), return_inverse=True)
        self.cells = len(values)
        self.members, self.others = (
            np.bincount(p, minlength=self.cells).astype(float) for p in (places[: len(members)], places[len(members) :])
        )

    def resampled(self, times: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Weights of bootstrap samples, each side by itself."""
        members, others = (
            random.multinomial(int(w.sum()), w / w.sum(), size=times).astype(float) for w in (self.members, self.others)
        )
        return members, others


def _auc(members: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Chance that a member scores above a non-member, ties for a half; weights (times, cells)."""
    below = np.cumsum(others, 1) - others / 2
    return np.asarray((members * below).sum(1) / (members.sum(1) * others.sum(1)))


def _tpr(members: np.ndarray, others: np.ndarray, rate: float) -> np.ndarray:
    """True positives at the lowest threshold whose false positives are at most `rate`."""
    above_m, above_o = (np.cumsum(w[:, ::-1], 1) / w.sum(1, keepdims=True) for w in (members, others))
    return np.asarray(np.where(above_o <= rate + 1e-12, above_m, 0.0).max(1))


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """Area under the ROC curve.

    >>> auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    both = _Sorted(members, others)
    return float(_auc(both.members[None], both.others[None])[0])


def roc(members: np.ndarray, others: np.ndarray, points: int = 200) -> list[list[float]]:
    """[false positive rate, true positive rate] from (0, 0) to (1, 1), thinned for a picture."""
    both = _Sorted(members, others)
    fpr, tpr = (np.concatenate([[0.0], np.cumsum(w[::-1]) / w.sum()]) for w in (both.others, both.members))
    keep = np.unique(
        np.concatenate(
            [
                [0, len(fpr) - 1],
                np.searchsorted(fpr, np.geomspace(1e-4, 1, points // 2)),
                np.linspace(0, len(fpr) - 1, points // 2).astype(int),
            ]
        )
    )
    keep = keep[keep < len(fpr)]
    return [[float(a), float(b)] for a, b in zip(fpr[keep], tpr[keep], strict=True)]


def assess(
    members: np.ndarray,
    others: np.ndarray,
    ceiling: Ceiling | None = None,
    *,
    seed: int = 0,
    times: int = 500,
    attacks: int = 1,
    note: str = "",
) -> dict[str, Any]:
    """AUC and TPRs with bootstrap intervals, eps_lo, the ceiling and the verdict of one attack.

    The verdict is a test at 1e-3 over `attacks` attacks, not the reading of 95 % intervals, which would cry wolf.
    Candidates count as independent, although one training decides about all of them.
    """
    members, others = (np.asarray(x, dtype=float).ravel() for x in (members, others))
    if min(len(members), len(others)) < 2 or not np.isfinite(np.concatenate([members, others])).all():
        raise ValueError("Expected finite scores of at least two members and two non-members.")
    random = np.random.default_rng(seed)
    both = _Sorted(members, others)
    drawn = both.resampled(times, random)
    here = both.members[None], both.others[None]
    row: dict[str, Any] = {"auc": _measured("auc", _auc(*here), _auc(*drawn))}
    for name, rate in RATES.items():
        few = f"fewer than {math.ceil(1 / rate)} non-members: false positives 0" if len(others) * rate < 1 else ""
        row[name] = _measured(name, _tpr(*here, rate), _tpr(*drawn, rate), few)
    row |= {"members": len(members), "nonmembers": len(others), "roc": roc(members, others), "note": note}
    return row | _judge(members, others, ceiling, SIGNIFICANCE / attacks, random)


def _measured(name: str, value: np.ndarray, drawn: np.ndarray, note: str = "") -> Measured:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Measured(name, float(value[0]), float(low), float(high), (), note or "bootstrap")


def _judge(
    members: np.ndarray, others: np.ndarray, ceiling: Ceiling | None, alpha: float, random: np.random.Generator
) -> dict[str, Any]:
    """The claim is refuted by the AUC, or by the errors of a threshold chosen on the other half; alpha is shared."""
    if ceiling is None:
        return {"ceiling": None, "epsilon_lower": None, "verdict": "no guarantee to compare with"}
    from sfumato.accounting.tradeoff import held_out

    errors = held_out(random.permutation(others), random.permutation(members), ceiling.curve, alpha / 2)
    lower = errors.epsilon_free(ceiling.delta)  # of whatever was run, which need not be what is claimed
    above = auc_exceeds(members, others, ceiling.auc, alpha / 2) or ceiling.curve.refuted_by(errors)
    return {
        "ceiling": {"auc": ceiling.auc, **ceiling.tpr},
        "epsilon_lower": lower,
        "verdict": ABOVE if above else BELOW,
    }


def auc_exceeds(members: np.ndarray, others: np.ndarray, limit: float, alpha: float) -> bool:
    """Whether the true AUC is above `limit`, with error `alpha`: by the larger of DeLong's variance and the largest
    that an AUC of `limit` can have."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    m = len(members)
    n = len(others)
    ranks = rankdata(np.concatenate([members, others]))
    of_members = (ranks[:m] - rankdata(members)) / n
    of_others = 1 - (ranks[m:] - rankdata(others)) / m
    delong = of_members.var(ddof=1) / m + of_others.var(ddof=1) / n
    spread = math.sqrt(max(float(delong), limit * (1 - limit) / min(m, n)))
    return float(of_members.mean()) - limit > -float(ndtri(alpha)) * spread and limit < 1
