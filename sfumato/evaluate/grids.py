"""Images side by side for a page: classes, mosaics, nearest training images."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sfumato.evaluate.real import Fold, Real
    from sfumato.types import Images

EACH = 8
MOST_CLASSES = 40
LARGEST = 96
MOSAIC = 8  # rows and columns
NEIGHBOURS = 3
SHOWN = 10
COMPARED = 200  # test images whose distance gives the scale


def address(pixels: np.ndarray) -> str:
    """One image (channels, height, width) as a data address, made smaller where it is large."""
    from PIL import Image

    image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    image.thumbnail((LARGEST, LARGEST))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def class_rows(classes: Sequence[str], real: Fold, fake: Images) -> list[dict[str, Any]]:
    """The first images of each class, real and synthetic."""
    return [
        {"name": name}
        | {
            key: [address(x.pixels[i]) for i in np.flatnonzero(x.labels == at)[:EACH]]
            for key, x in (("real", real), ("synthetic", fake))
        }
        for at, name in enumerate(classes[:MOST_CLASSES])
    ]


def mosaic(pixels: np.ndarray, seed: int = 0, side: int = MOSAIC) -> list[str]:
    """Images drawn by the seed, at most side x side."""
    drawn = np.random.default_rng(seed).permutation(len(pixels))[: side * side]
    return [address(pixels[i]) for i in drawn]


def columns(images: Images, rows: int = 5) -> list[list[str]]:
    """One column a class, as rows for a grid; a class with too few images leaves a gap."""
    places = [np.flatnonzero(images.labels == at)[:rows] for at in range(min(len(images.classes), MOST_CLASSES))]
    return [[address(images.pixels[p[row]]) if row < len(p) else "" for p in places] for row in range(rows)]


def neighbours(real: Real, fake: Images, device: str = "cpu") -> dict[str, Any] | None:
    """For the first synthetic image of some classes the nearest training images; only where all of it is public.

    Distances are root mean squares over pixels, in grey levels. The scale is that of real test images.
    """
    if real.private or len(real.train) < NEIGHBOURS:
        return None
    from sfumato.evaluate.distances import nearest

    first = [int(np.flatnonzero(fake.labels == at)[0]) for at in np.unique(fake.labels)[:SHOWN]]
    alone = real.test.pixels[~real.shared][:COMPARED]
    root = float(np.sqrt(np.prod(fake.pixels.shape[1:])))
    far, where = nearest(fake.pixels[first], real.train.pixels, NEIGHBOURS, device)
    usual = float(np.median(nearest(alone, real.train.pixels, 1, device)[0])) / root if len(alone) else None
    rows = [
        {
            "name": fake.classes[fake.labels[i]],
            "synthetic": address(fake.pixels[i]),
            "near": [
                {
                    "picture": address(real.train.pixels[j]),
                    "name": fake.classes[real.train.labels[j]],
                    "distance": float(d) / root,
                }
                for j, d in zip(where[row], far[row], strict=True)
            ],
        }
        for row, i in enumerate(first)
    ]
    return {"rows": rows, "usual": usual}
