"""Grids of synthetic images, one class a column, as a PNG for the documentation.

python -m benchmarks.picture demo/release docs/images/demo.png
python -m benchmarks.picture ONE.png OTHER.png docs/images/both.png     several pictures side by side
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sfumato import Release
from sfumato.data.images import png
from sfumato.types import Images

ROWS = 8
GAP = 4


def grid(images: Images, rows: int = ROWS, scale: int = 2) -> np.ndarray:
    """(channels, height, width): the first images of each class, on white."""
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


def joined(paths: list[str]) -> np.ndarray:
    """Pictures side by side, on white."""
    from PIL import Image

    found = [np.atleast_3d(np.asarray(Image.open(path))).transpose(2, 0, 1) for path in paths]
    height = max(p.shape[1] for p in found)
    gap = np.full((len(found[0]), 1, 3 * GAP), 255, np.uint8)
    filled = [np.pad(p, ((0, 0), (0, height - p.shape[1]), (0, 0)), constant_values=255) for p in found]
    spaced = [part for p in filled for part in (gap.repeat(height, 1), p)][1:]
    return np.concatenate(spaced, 2)


if __name__ == "__main__":
    *sources, target = sys.argv[1:]
    shown = joined(sources) if sources[0].endswith(".png") else grid(Release.load(sources[0]).images)
    Path(target).write_bytes(png(shown))
