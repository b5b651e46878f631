"""Grids of synthetic images, one class a column, on white."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sfumato.data.images import png
from sfumato.types import Images

ROWS = 8
GAP = 4


def grid(images: Images, rows: int = ROWS, scale: int = 2) -> np.ndarray:
    """(channels, height, width): the first images of each class."""
    (channels, *side), classes = images.pixels.shape[1:], range(len(images.classes))
    height, width = (scale * s + GAP for s in side)
    canvas = np.full((channels, rows * height + GAP, len(classes) * width + GAP), 255, np.uint8)
    for c in classes:
        for row, pixels in enumerate(images.pixels[images.labels == c][:rows]):
            large = pixels.repeat(scale, 1).repeat(scale, 2)
            top = GAP + row * height
            left = GAP + c * width
            canvas[:, top : top + height - GAP, left : left + width - GAP] = large
    return canvas


def draw(images: Images, path: Path, rows: int = ROWS, scale: int = 2) -> None:
    """Such a grid as a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(grid(images, rows, scale)))


def beside(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Pictures (channels, height, width) side by side; grey ones become coloured where others are."""
    channels = max(len(p) for p in pictures)
    height = max(p.shape[1] for p in pictures)
    gap = np.full((channels, height, 3 * GAP), 255, np.uint8)
    filled = [
        np.pad(
            np.broadcast_to(p, (channels, *p.shape[1:])),
            ((0, 0), (0, height - p.shape[1]), (0, 0)),
            constant_values=255,
        )
        for p in pictures
    ]
    return np.concatenate([part for p in filled for part in (gap, p)][1:], 2)
