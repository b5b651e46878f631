"""Images of nobody: for choosing settings and for audits, where real ones would cost budget."""

from __future__ import annotations

import numpy as np

from sfumato.types import Images


def made_up(count: int, shape: tuple[int, int, int], classes: tuple[str, ...], seed: int = 0) -> Images:
    """Soft blobs: each class has its own pattern, and each image shifts, scales and dims it.

    >>> made_up(6, (1, 8, 8), ("a", "b")).pixels.shape
    (6, 1, 8, 8)
    """
    random = np.random.default_rng(seed)
    channels, height, width = shape
    # The patterns are the same for every seed, so that a train and a test set belong together.
    fixed = np.random.default_rng(len(classes))
    centres = fixed.uniform(0.2, 0.8, (len(classes), channels, 3, 2))
    sizes = fixed.uniform(0.08, 0.25, (len(classes), channels, 3))
    labels = np.arange(count) % len(classes)
    moved = centres[labels] + random.normal(0, 0.05, (count, 1, 1, 2))
    spread = sizes[labels] * random.uniform(0.8, 1.25, (count, 1, 1))
    y, x = np.mgrid[0:height, 0:width] / np.array([max(height - 1, 1), max(width - 1, 1)]).reshape(2, 1, 1)
    distance = (y - moved[..., 0, None, None]) ** 2 + (x - moved[..., 1, None, None]) ** 2
    light = np.exp(-distance / (2 * spread[..., None, None] ** 2)).max(2) * random.uniform(0.6, 1, (count, 1, 1, 1))
    return Images((255 * light).astype(np.uint8), labels, classes)
