"""Siamese augmentation: public, the same for all images, each of them by itself, and differentiable."""

from __future__ import annotations

import pytest
import torch

from sfumato.methods.sets.siamese import AUGMENTS, KINDS, Siamese

EVERY = (*KINDS, "flip")


def random(seed=0):
    return torch.Generator().manual_seed(seed)


def change(kind, chances=(0.9, 0.2, 0.7)):
    made = Siamese("siamese-flip")
    made.kind, made.chances = kind, list(chances)
    return made


@pytest.mark.parametrize("kind", EVERY)
def test_a_change_looks_at_each_image_alone(kind):
    images = torch.rand(5, 3, 12, 12, generator=random())
    whole = change(kind)(images)
    assert whole.shape == images.shape
    for i in range(5):
        assert torch.allclose(change(kind)(images[i : i + 1])[0], whole[i], atol=1e-6)


@pytest.mark.parametrize("kind", EVERY)
def test_slopes_go_through_it(kind):
    images = torch.rand(2, 1, 12, 12, generator=random(), dtype=torch.float64, requires_grad=True)
    made = change(kind)(images)
    assert made.dtype == torch.float64
    made.square().sum().backward()
    assert images.grad.abs().sum() > 0


def test_the_middle_of_each_law_changes_nothing():
    images = torch.rand(2, 3, 12, 12, generator=random())
    for kind in ("colour", "crop", "rotate"):
        assert torch.allclose(change(kind, (0.5, 0.5, 0.5))(images), images, atol=1e-5), kind


def test_each_kind_does_what_it_says():
    images = torch.zeros(1, 1, 16, 16)
    images[..., 4, 2] = 1.0
    assert (
        change("flip", (0.1, 0, 0))(images)[0, 0, 4, 13] == 1 and change("flip", (0.9, 0, 0))(images)[0, 0, 4, 2] == 1
    )
    assert change("crop", (0.0, 0.5, 0))(images)[0, 0, 4, 4] == pytest.approx(1, abs=1e-5)  # an eighth of a side
    assert change("cutout", (0.5, 0.5, 0))(torch.ones(1, 1, 16, 16)).sum() == 256 - 64
    assert change("colour", (1.0, 0.5, 0.5))(images).mean() == pytest.approx(float(images.mean()) + 0.5, abs=1e-6)
    assert change("scale", (1.0, 1.0, 0))(torch.ones(1, 1, 16, 16))[0, 0, 0, 0] < 0.5  # seen from farther off


def test_it_is_drawn_from_the_randomness_that_is_given():
    drawn = []
    for seed in (1, 1, 2):
        made = Siamese("siamese")
        made.draw(random(seed))
        drawn.append((made.kind, made.chances))
    assert drawn[0] == drawn[1] != drawn[2] and drawn[0][0] in KINDS
    seen = set()
    for seed in range(60):
        made = Siamese("siamese-flip")
        made.draw(random(seed))
        seen.add(made.kind)
    assert seen == set(EVERY)


def test_unknown_ways_are_refused():
    assert AUGMENTS[0] == "none"
    with pytest.raises(ValueError, match="Expected augment"):
        Siamese("mirror")
