"""Attacks on a release with records that were behind it and records that were not (GAN-Leaks, full black box).

The score of a candidate is how near it lies to the nearest of many generated images (Chen et al. 2020). This touches
private data: results are internal, gate nothing and never enter a release or a statement. An AUC near one half says
that the attack is weak, not that the release is private.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.tradeoff import SIGNIFICANCE, Curve, gaussian_curve, held_out
from sfumato.audit.recording.subject import Array
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.release import Release

SAMPLES = 20_000
RESAMPLED = 500
INTERNAL = "internal: computed from private records; it must not be published with the release"
CAVEAT = (
    "Members and non-members must be a random split of one population; otherwise this measures how they differ. "
    "All members were in one training, so that the intervals know of the draw of candidates alone."
)


def attack(
    release: str | Path | Release, members: Any, nonmembers: Any, *, samples: int = SAMPLES, seed: int = 0
) -> dict[str, Any]:
    """Attack a release; `members` and `nonmembers` are anything that `sfumato.load` reads.

    Fails only where an interval lies wholly beyond the ceiling that the release's own epsilon implies.
    """
    from sfumato.release import Release

    opened = release if isinstance(release, Release) else Release.load(release)
    synthetic = opened.sample(samples, seed=seed).pixels
    inside, outside = (
        _candidates(source, synthetic.shape[1:], word)
        for source, word in ((members, "--members"), (nonmembers, "--nonmembers"))
    )
    scores = -nearest(inside, synthetic), -nearest(outside, synthetic)
    guarantee = opened.statement["guarantee"]
    verdict = judge(*scores, _ceiling(guarantee), guarantee["delta"], seed)
    return {
        "attack": "GAN-Leaks, full black box, L2 in pixels",
        "internal": True,
        "note": INTERNAL,
        "caveat": CAVEAT,
        "members": len(inside),
        "nonmembers": len(outside),
        "samples": samples,
        "claim": {key: guarantee[key] for key in ("epsilon", "delta", "mu")},
        **verdict,
    }


def _ceiling(guarantee: dict[str, Any]) -> Curve:
    """What the statement allows: its Gaussian curve, or all the (epsilon, delta) that it states."""
    if guarantee.get("mu"):
        return gaussian_curve(float(guarantee["mu"]))
    points = [(guarantee["delta"], guarantee["epsilon"]), *(guarantee.get("curve") or ())]
    return Curve(np.array([float(e) for _, e in points]), np.array([float(d) for d, _ in points]))


def _candidates(source: Any, shape: tuple[int, ...], word: str) -> NDArray[np.uint8]:
    from sfumato.data import load_public

    size = shape[1] if shape[1] == shape[2] else None
    images = load_public(source, "candidates of an attack", size=size, grey=shape[0] == 1).images.pixels
    if images.shape[1:] != shape:
        raise InputError(
            f"Expected {word} with images of {'x'.join(map(str, shape))}, as the release has, found "
            f"{'x'.join(map(str, images.shape[1:]))}."
        )
    if len(images) < 20:
        raise InputError(f"Expected at least 20 images in {word}, found {len(images)}.")
    return images


def nearest(images: NDArray[np.uint8], synthetic: NDArray[np.uint8], chunk: int = 500) -> NDArray[np.float64]:
    """Distance of each image to the nearest generated one, in grey levels from 0 to 1."""
    flat = synthetic.reshape(len(synthetic), -1).astype(np.float32) / 255
    squares = (flat**2).sum(1)
    distances = []
    for start in range(0, len(images), chunk):
        some = images[start : start + chunk].reshape(-1, flat.shape[1]).astype(np.float32) / 255
        best = (some**2).sum(1) + (squares - 2 * some @ flat.T).min(1)
        distances.append(np.sqrt(np.maximum(best, 0)))
    return np.concatenate(distances).astype(np.float64)


def auc(inside: Array, outside: Array) -> float:
    """Probability that a member scores above a non-member, ties counted half."""
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([inside, outside]))[: len(inside)].sum()
    return float((ranks - len(inside) * (len(inside) + 1) / 2) / (len(inside) * len(outside)))


def tpr_at(inside: Array, outside: Array, fpr: float) -> float:
    """Members above the score that at most a share `fpr` of non-members exceeds."""
    allowed = int(fpr * len(outside))
    return float((inside > np.sort(outside)[::-1][allowed]).mean())


def judge(inside: Array, outside: Array, ceiling: Curve, delta: float, seed: int = 0) -> dict[str, Any]:
    """Measures with intervals against their ceilings. The verdict has a significance of 1e-3 in all."""
    at = np.linspace(0, 1, 2001)
    allowed = np.array([ceiling.fnr(float(a)) for a in at])
    tops = {
        "auc": 1 - float(np.trapezoid(allowed, at)),
        "tpr_at_1%": 1 - ceiling.fnr(0.01),
        "tpr_at_0.1%": 1 - ceiling.fnr(0.001),
    }
    measures: dict[str, Callable[[Array, Array], float]] = {
        "auc": auc,
        "tpr_at_1%": lambda i, o: tpr_at(i, o, 0.01),
        "tpr_at_0.1%": lambda i, o: tpr_at(i, o, 0.001),
    }
    rows = []
    for (name, measure), needed in zip(measures.items(), (20, 1000, 10_000), strict=True):
        value, low, high, sure = _interval(measure, inside, outside, seed)
        # A rate of false positives is known only from many non-members; until then it is shown and does not decide.
        decides = len(outside) >= needed
        rows.append(
            {
                "measure": name,
                "value": value,
                "interval": [low, high],
                "ceiling": tops[name],
                "decides": decides,
                "ok": not (decides and sure > tops[name]),
            }
        )
    errors = held_out(outside, inside, ceiling, SIGNIFICANCE / 4)
    low = errors.epsilon_free(delta)
    rows.append(
        {
            "measure": "epsilon",
            "value": low,
            "interval": [low, None],
            "ceiling": None,
            "decides": True,
            "ok": not ceiling.refuted_by(errors),
        }
    )
    return {"rows": rows, "epsilon_lower": low, "verdict": "pass" if all(r["ok"] for r in rows) else "fail"}


def _interval(
    measure: Callable[[Array, Array], float], inside: Array, outside: Array, seed: int
) -> tuple[float, float, float, float]:
    """Value, its 95 % bootstrap interval, and a lower end that is as sure as the verdict must be."""
    random = np.random.default_rng(seed)
    value = measure(inside, outside)
    again = np.array(
        [measure(random.choice(inside, len(inside)), random.choice(outside, len(outside))) for _ in range(RESAMPLED)]
    )
    low, high = np.quantile(again, [0.025, 0.975])
    # The far tail is taken from the spread, since a few hundred resamples do not reach it.
    return value, float(low), float(high), float(value - 3.5 * again.std() - 1 / len(inside))
