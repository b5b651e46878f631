"""A grid of the images of a release, one class a column, as a PNG for the documentation.

python -m benchmarks.picture demo/release docs/images/demo.png
"""

from __future__ import annotations

import sys

import numpy as np

from sfumato import Release

ROWS, SCALE, GAP = 8, 2, 4


def grid(folder: str) -> np.ndarray:
    """Pixels of the picture, on white."""
    images = Release.load(folder).images
    columns = [images.pixels[images.labels == c][:ROWS] for c in range(len(images.classes))]
    height, width = images.pixels.shape[2:]
    step_y, step_x = height * SCALE + GAP, width * SCALE + GAP
    canvas = np.full((ROWS * step_y + GAP, len(columns) * step_x + GAP, images.pixels.shape[1]), 255, np.uint8)
    for x, column in enumerate(columns):
        for y, pixels in enumerate(column):
            large = pixels.transpose(1, 2, 0).repeat(SCALE, 0).repeat(SCALE, 1)
            top, left = GAP + y * step_y, GAP + x * step_x
            canvas[top : top + height * SCALE, left : left + width * SCALE] = large
    return canvas


if __name__ == "__main__":
    from PIL import Image

    pixels = grid(sys.argv[1])
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(sys.argv[2], optimize=True)
