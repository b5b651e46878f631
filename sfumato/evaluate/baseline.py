"""What accuracy hides on an imbalanced test set: the trivial answer, balanced accuracy, AUROC, and a fair margin.

    baseline   the accuracy of always answering the commonest class of the test set
    margin     accuracy - baseline, image by image: both are taken on the same images, so that chance partly cancels
    balanced   the mean over classes of the recall of each class
    AUROC      the chance that an image of a class scores above one of another class; mean over classes, each against
               the rest (two classes: one number)

Images of one person are not independent of each other. Where persons are known, all intervals count persons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.evaluate.results import Measured, over_seeds


def baseline(labels: np.ndarray, classes: Sequence[str]) -> dict[str, Any]:
    """Always answering the commonest class, and guessing evenly among the classes that the test set has.

    >>> baseline(np.array([0, 1, 1, 1]), ["well", "ill"])
    {'class': 'ill', 'accuracy': 0.75, 'guessing': 0.5}
    """
    counts = np.bincount(labels, minlength=len(classes))
    top = int(counts.argmax())
    share = float(counts[top] / len(labels))
    return {"class": classes[top], "accuracy": share, "guessing": 1 / int((counts > 0).sum())}


def balanced(right: np.ndarray, labels: np.ndarray) -> Measured:
    """The mean of the recalls of the classes that the test set has; `right` is (seeds, n)."""
    recalls = [right[:, labels == at].mean(1) for at in np.unique(labels)]
    return over_seeds("balanced accuracy", np.mean(recalls, 0), low=0, high=1, note="mean of the recall of each class")


def auroc(logits: np.ndarray, labels: np.ndarray) -> Measured | None:
    """Over seeds, from logits (seeds, n, classes); None where the test set has one class alone."""
    present = np.unique(labels)
    if len(present) < 2:
        return None
    note = "one class against the other" if len(present) == 2 else "each class against the rest, mean over classes"
    return over_seeds("AUROC", [_areas(chances(z), labels, present) for z in logits], low=0, high=1, note=note)


def chances(logits: np.ndarray) -> np.ndarray:
    """Logits (n, classes) as probabilities, without overflow."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    p = np.exp(shifted)
    return np.asarray(p / p.sum(-1, keepdims=True))


def _areas(p: np.ndarray, labels: np.ndarray, present: np.ndarray) -> float:
    return float(np.mean([_area(p[:, at], labels == at) for at in present]))


def _area(scores: np.ndarray, inside: np.ndarray) -> float:
    """The chance that a member scores above another, ties for a half (Mann and Whitney)."""
    from scipy.stats import rankdata

    ranks = rankdata(scores)
    members = int(inside.sum())
    others = len(inside) - members
    return float((ranks[inside].sum() - members * (members + 1) / 2) / (members * others))


def margin(right: np.ndarray, labels: np.ndarray, persons: np.ndarray | None = None) -> Measured:
    """How far accuracy (`right` is (seeds, n)) lies above the baseline; chance in images and in seeds is counted."""
    constant = labels == np.bincount(labels).argmax()
    each = right.astype(float) - constant
    seeds = over_seeds("margin", each.mean(1))
    half = _half_of_images(each.mean(0), persons)
    if len(right) > 1:
        half = math.hypot(half, (seeds.high - seeds.low) / 2)
    low = max(-1.0, seeds.mean - half)
    high = min(1.0, seeds.mean + half)
    return Measured("margin", seeds.mean, low, high, seeds.values, "accuracy minus that of the commonest class, paired")


def error_of_test(rate: float, right: np.ndarray, persons: np.ndarray | None = None) -> float:
    """Half of the 95 % interval that the size of the test set leaves to a share of right answers."""
    plain = 1.96 * math.sqrt(max(rate * (1 - rate), 0.0) / right.shape[1])
    return plain if persons is None else min(1.0, max(plain, _half_of_images(right.mean(0), persons)))


def _half_of_images(each: np.ndarray, persons: np.ndarray | None) -> float:
    """Half of the 95 % interval of a mean over images, or over the images of persons who were drawn as a whole."""
    from scipy.stats import t

    n = len(each)
    rest = each - each.mean()
    if persons is not None:
        rest = np.bincount(np.unique(persons, return_inverse=True)[1], rest)
    units = len(rest)
    if units < 2:
        return 2.0  # nothing is known: the whole range of a margin
    spread = math.sqrt(float((rest**2).sum()) * units / (units - 1)) / n
    return float(t.ppf(0.975, units - 1) * spread)
