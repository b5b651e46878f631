"""A public set against a private one: what lies in both, what looks alike, and how far they are apart."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.evaluate.public_overlap import check_public, hashes, near_duplicates
from tests.cli.test_cli import call


def blobs(count, seed, size=16, dark=False):
    """Smooth random images, (n, size, size): each a few waves of its own; dark ones have one bright corner alone."""
    random = np.random.default_rng(seed)
    across = np.linspace(0, 1, size)
    waves = [np.cos(np.pi * k * across) for k in range(1, 6)]
    grid = np.stack([np.outer(a, b) for a in waves for b in waves])
    made = np.tensordot(random.normal(size=(count, 25)), grid, 1)
    made = (made - made.min((1, 2), keepdims=True)) / np.ptp(made, axis=(1, 2), keepdims=True)
    if dark:
        made[:, 4:, :] = 0
    return (255 * made).astype(np.uint8)


def labelled(images):
    return images, np.zeros(len(images), int)


def test_sets_without_a_common_image_keep_clear_of_each_other():
    found = check_public(labelled(blobs(80, 0)), labelled(blobs(60, 1)))
    assert (found["records"], found["public_images"], found["exact"], found["near"]) == (80, 60, 0, 0)
    assert 0.8 < found["far"] < 1.3 and found["warnings"] == []


def test_copies_are_counted_and_images_that_look_alike_are_paired():
    private, public = blobs(80, 0), blobs(60, 1)
    public[7], public[9] = private[3], private[5] // 2 + 40  # the same, and darker with less contrast
    found = check_public(labelled(private), labelled(public))
    assert (found["exact"], found["near"], found["pairs"]) == (1, 1, [[5, 9]])
    assert "pixel for pixel" in found["warnings"][0] and "by eye" in found["warnings"][1]


def test_a_set_of_another_kind_is_called_far():
    found = check_public(labelled(blobs(80, 0)), labelled(blobs(60, 1, dark=True)))
    assert found["far"] > 1.5 and "may not carry over" in found["warnings"][0]


def test_flat_images_have_a_hash_and_are_like_none():
    flat = np.full((3, 1, 16, 16), 9, np.uint8)
    assert hashes(flat).shape == (3, 64) and near_duplicates(flat, flat) == {}


def test_other_shapes_are_refused():
    with pytest.raises(InputError, match="1x16x16, found 1x12x12"):
        check_public(labelled(blobs(20, 0)), labelled(blobs(20, 1, size=12)))


def test_the_verb_shows_what_it_found_and_writes_nothing(tmp_path):
    for name, seed in (("private", 0), ("public", 1)):
        np.savez(tmp_path / f"{name}.npz", images=blobs(30, seed), labels=np.zeros(30, int))
    before = sorted(tmp_path.iterdir())
    argv = ("check-public", str(tmp_path / "private.npz"), "--public", str(tmp_path / "public.npz"))
    status, out, err = call(*argv)
    assert (status, err) == (0, "") and "keep them inside" in " ".join(out.split())
    status, out, _ = call(*argv, "--json")
    assert status == 0 and json.loads(out)["touches_private"] and sorted(tmp_path.iterdir()) == before
