"""Grids of images."""

from __future__ import annotations

import numpy as np

from sfumato.bench.pictures import GAP, beside, grid
from sfumato.types import Images


def test_a_column_holds_a_class():
    pixels = np.zeros((4, 1, 3, 3), np.uint8)
    pixels[2:] = 100
    made = grid(Images(pixels, np.array([0, 0, 1, 1]), ("a", "b")), rows=2, scale=1)
    assert made.shape == (1, 2 * (3 + GAP) + GAP, 2 * (3 + GAP) + GAP)
    assert made[0, GAP, GAP] == 0 and made[0, GAP, 2 * GAP + 3] == 100 and made[0, 0, 0] == 255


def test_pictures_stand_side_by_side_on_white():
    one, other = np.zeros((1, 4, 5), np.uint8), np.zeros((3, 6, 5), np.uint8)
    both = beside([one, other])
    assert both.shape == (3, 6, 10 + 3 * GAP) and both[0, 5, 0] == 255 and both[0, 0, 0] == 0
