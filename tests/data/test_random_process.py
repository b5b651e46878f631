"""Images that no camera took."""

from __future__ import annotations

import numpy as np

from sfumato.data.random_process import dead_leaves, provenance


def test_a_seed_gives_one_set_and_another_seed_another():
    one, same, other = (dead_leaves(6, (3, 16, 12), seed).pixels for seed in (1, 1, 2))
    assert one.shape == (6, 3, 16, 12) and np.array_equal(one, same) and not np.array_equal(one, other)


def test_images_differ_and_have_edges():
    pixels = dead_leaves(50, (1, 28, 28)).pixels.astype(float)
    assert pixels.std(0).min() > 20  # of every pixel, over the images
    assert (np.abs(np.diff(pixels, axis=3)) == 0).mean() > 0.7  # leaves are flat
    assert (pixels == 0).mean() < 0.3


def test_the_statement_says_where_they_are_from():
    assert "seed 7" in provenance(20, 7) and "no photograph" in provenance(20, 7)
