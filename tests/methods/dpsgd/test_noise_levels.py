"""Noise levels and changes of a record's copies."""

from __future__ import annotations

import pytest
import torch

from sfumato.methods.dpsgd.noise_levels import MIDDLE, changed, middle_levels, normal_levels


def keys(n):
    return torch.arange(n) * 7919 + 3


def test_levels_rise_with_their_quantile_and_their_law_is_the_declared_one():
    u = torch.linspace(0.0005, 0.9995, 1000)
    for sigma in (middle_levels(u), normal_levels(u, -1.0, 0.5)):
        assert (sigma.diff() > 0).all() and (sigma > 0).all()
    assert normal_levels(torch.tensor([0.5]), -1.0, 0.5).log().item() == pytest.approx(-1.0, abs=1e-6)
    assert sum(share for *_, share in MIDDLE) == pytest.approx(1.0)
    assert [low for low, *_ in MIDDLE][1:] == [high for _, high, _ in MIDDLE][:-1]


def test_most_levels_lie_in_the_middle():
    low, high = middle_levels(torch.tensor([0.015, 0.8]))
    found = middle_levels(torch.linspace(0.0005, 0.9995, 1000))
    assert ((found > low) & (found < high)).float().mean().item() == pytest.approx(0.785, abs=0.005)
    assert float(found.max()) < 200  # the highest level of the sampler is 80


@pytest.mark.parametrize("augment", ["none", "shift", "shift-flip"])
def test_a_change_is_one_of_the_record_alone(augment):
    images, own = torch.rand(9, 3, 16, 16), keys(9)
    whole = changed(images, own, augment)
    apart = torch.cat([changed(images[[i]], own[[i]], augment) for i in range(9)])
    assert torch.equal(whole, apart) and whole.shape == images.shape
    assert torch.equal(whole, images) == (augment == "none")


def test_a_shift_moves_pixels_by_up_to_an_eighth_of_a_side():
    images = torch.zeros(400, 1, 16, 16)
    images[:, :, 8, 8] = 1.0
    places = changed(images, keys(400), "shift").flatten(1).argmax(1)
    assert set((places // 16 - 8).tolist()) == set((places % 16 - 8).tolist()) == {-2, -1, 0, 1, 2}
    flipped = changed(images, keys(400), "shift-flip").flatten(1).argmax(1) % 16
    assert set(flipped.tolist()) == {5, 6, 7, 8, 9, 10}
