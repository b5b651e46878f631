"""Grids of synthetic images, one class a column, as a PNG for the documentation.

python -m benchmarks.picture demo/release docs/images/demo.png
python -m benchmarks.picture ONE.png OTHER.png docs/images/both.png     several pictures side by side
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sfumato import Release
from sfumato.bench.pictures import beside, draw, grid
from sfumato.data.images import png

__all__ = ["draw"]


def opened(path: str) -> np.ndarray:
    """A picture as (channels, height, width)."""
    from PIL import Image

    return np.atleast_3d(np.asarray(Image.open(path))).transpose(2, 0, 1)


if __name__ == "__main__":
    *sources, target = sys.argv[1:]
    pictures = sources[0].endswith(".png")
    shown = beside([opened(path) for path in sources]) if pictures else grid(Release.load(sources[0]).images)
    Path(target).write_bytes(png(shown))
