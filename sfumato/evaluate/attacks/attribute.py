"""Attribute inference: a hidden label is guessed from the image by a model trained on the synthetic images.

That synthetic images teach the label is their use, not a leak. The leak is what members lose beyond non-members: the
guess is more often right, or surer, for images that were trained on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.evaluate.attacks.subject import Batch, Subject
from sfumato.evaluate.features import Space, pixels
from sfumato.evaluate.results import Measured


def fit(rows: np.ndarray, labels: np.ndarray, classes: int, strength: float = 1e-2) -> tuple[np.ndarray, np.ndarray]:
    """Ridge regression onto one-hot labels: weights (values + 1, classes), in closed form, and the centre."""
    centre = rows.mean(0, dtype=np.float64)
    x = np.column_stack([rows - centre, np.ones(len(rows))])
    gram = x.T @ x
    gram[np.diag_indices_from(gram)] += strength * np.trace(gram) / len(gram)
    return np.linalg.solve(gram, x.T @ np.eye(classes)[labels]), centre


def margins(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """By how much the true label leads the best other one; above 0 where the guess is right."""
    scores = np.column_stack([rows - centre, np.ones(len(rows))]) @ weights
    here = np.arange(len(rows))
    true = scores[here, labels].copy()
    scores[here, labels] = -np.inf
    return np.asarray(true - scores.max(1))


def attack(
    subject: Subject, hidden: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None, space: Space | None = None
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Margins of members and non-members, and the accuracies beside the best guess without an image.

    `hidden` are the values of another attribute for (synthetic, members, non-members), as class numbers; the label
    itself is taken where there is none.
    """
    parts = subject.synthetic, subject.members, subject.others
    values = hidden or tuple(p.labels for p in parts)
    classes = int(max(v.max() for v in values)) + 1
    space = space or pixels(subject.synthetic.pixels.shape[1:])
    weights, centre = fit(space(parts[0].pixels), values[0], classes)
    one, two = (margins(space(p.pixels), v, weights, centre) for p, v in zip(parts[1:], values[1:], strict=True))
    prior = float(np.bincount(values[0], minlength=classes).argmax())
    return (
        one,
        two,
        {
            "accuracy": {"members": float((one > 0).mean()), "nonmembers": float((two > 0).mean())},
            "baseline": {
                "members": float((values[1] == prior).mean()),
                "nonmembers": float((values[2] == prior).mean()),
            },
            "gain_on_members": gap(one > 0, two > 0, subject.seed),
        },
    )


def gap(members: np.ndarray, others: np.ndarray, seed: int = 0, times: int = 1000) -> Measured:
    """Accuracy on members less that on non-members, with a bootstrap interval."""
    random = np.random.default_rng(seed)
    one, two = (random.binomial(len(x), x.mean(), times) / len(x) for x in (members, others))
    low, high = np.quantile(one - two, [0.025, 0.975])
    return Measured("gain_on_members", float(members.mean() - others.mean()), float(low), float(high), (), "bootstrap")


def labelled(batch: Batch) -> bool:
    """Whether every image has a label, and there is more than one."""
    return bool((batch.labels >= 0).all()) and len(np.unique(batch.labels)) > 1
