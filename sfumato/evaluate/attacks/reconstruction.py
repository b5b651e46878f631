"""Reconstruction: does a synthetic image show a training image? The nearest recovered one, against what chance gives.

    ratio(x) = distance to the nearest synthetic image / distance to the nearest real image that is not x

A ratio well below 1 for members, which non-members of the same distribution do not reach, is a recovered image. Only
numbers leave; no image does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.evaluate.attacks.subject import Subject
from sfumato.evaluate.distances import nearest
from sfumato.evaluate.features import Space, pixels

RECOVERED = 0.5  # half the way to the nearest other real image


def ratios(subject: Subject, space: Space | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The ratio of every member and of every non-member, both against the same reference images."""
    space = space or pixels(subject.synthetic.pixels.shape[1:])
    fake = space(subject.synthetic.pixels)
    known = space(subject.reference.pixels)
    ratios = []
    for candidates in (subject.members, subject.others):
        rows = space(candidates.pixels)
        near, real = (nearest(rows, x, 1, subject.device)[0][:, 0] for x in (fake, known))
        ratios.append(near / np.maximum(real, 1e-9))
    return ratios[0], ratios[1]


def summary(members: np.ndarray, others: np.ndarray) -> dict[str, Any]:
    """The worst case and the share recovered, on both sides."""
    return {
        "worst_ratio": {"members": float(members.min()), "nonmembers": float(others.min())},
        "recovered": {"members": float((members < RECOVERED).mean()), "nonmembers": float((others < RECOVERED).mean())},
        "recovered_below": RECOVERED,
    }
