"""Public images that no camera took: the dead leaves model, discs of random size and grey that hide each other.

Lee, Mumford and Huang (2001) found in it the statistics of natural images; Baradad et al. (2021) train networks on it.
Made from a seed alone, such images are nobody's.
"""

from __future__ import annotations

import numpy as np

from sfumato.types import Images

NAME = "dead leaves"
LEAVES = 20
RADII = (0.05, 0.5)  # of a side


def provenance(count: int, seed: int) -> str:
    """What a statement says of such images."""
    return f"{count} images of the dead leaves model, made up from seed {seed}; no photograph, no record of the data"


def dead_leaves(count: int, shape: tuple[int, int, int], seed: int = 0) -> Images:
    """So many images, by public chance, of no class.

    >>> dead_leaves(3, (1, 8, 8)).pixels.shape
    (3, 1, 8, 8)
    """
    random = np.random.default_rng([seed, count])
    channels, height, width = shape
    places = np.moveaxis(np.mgrid[0:height, 0:width], 0, -1) / max(height, width)
    pixels = np.zeros((count, *shape), np.uint8)
    for _ in range(LEAVES):  # the last one lies on top
        centre = random.uniform(0, 1, (count, 1, 1, 2))
        radius = np.exp(random.uniform(np.log(RADII[0]), np.log(RADII[1]), (count, 1, 1)))  # all scales alike
        grey = random.integers(0, 256, (count, channels, 1, 1), dtype=np.uint8)
        inside = ((places - centre) ** 2).sum(-1) < radius**2
        pixels = np.where(inside[:, None], grey, pixels)
    return Images(pixels, np.zeros(count, np.int64), ("made up",))
