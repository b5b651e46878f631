"""Slices: their directions, counts and quantiles."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.accounting.claims import projection_sensitivity
from sfumato.methods.embedding.slices import Slices, directions, simplex, spectral_norm
from sfumato.privacy.bounds import IntegerBound


@pytest.mark.parametrize("blur", [0.0, 2.0])
@pytest.mark.parametrize(("pixels", "slices"), [(30, 8), (30, 30), (30, 70)])
def test_the_spectral_norm_is_the_largest_singular_value(pixels, slices, blur):
    for matrix in (directions((1, pixels, 1), slices, 0, blur), torch.randn(pixels, slices)):
        assert spectral_norm(matrix) == pytest.approx(np.linalg.svd(matrix.double().numpy())[1][0], rel=1e-6)
        assert spectral_norm(matrix) == pytest.approx(projection_sensitivity(matrix.numpy(), 1.0), rel=1e-6)


def test_orthogonal_directions_stretch_no_more_than_they_must():
    assert spectral_norm(directions((1, 5, 6), 30, 1)) == pytest.approx(1, abs=1e-6)
    assert spectral_norm(directions((1, 5, 6), 70, 1)) == pytest.approx(3**0.5, abs=1e-5)  # seven thirds of 30
    assert torch.allclose(directions((1, 5, 6), 70, 1).norm(dim=0), torch.ones(70).double(), atol=1e-6)
    assert not torch.equal(directions((1, 5, 6), 8, 1), directions((1, 5, 6), 8, 2))


def test_no_difference_of_records_is_stretched_beyond_it():
    u = directions((1, 5, 6), 70, 3).double()
    worst = torch.linalg.svd(u).U[:, 0]
    assert float((worst @ u).norm()) == pytest.approx(spectral_norm(u))
    assert (torch.randn(100, 30).double() @ u).norm(dim=1).max() <= spectral_norm(u) * 30


def test_every_record_counts_once_in_each_slice():
    slices = Slices((1, 4, 4), 5, 4, 1.0, 0)
    whole = torch.randint(0, 256, (6, 1, 4, 4)) / 255
    images = torch.cat(
        [whole, torch.zeros(1, 1, 4, 4), torch.full((1, 1, 4, 4), 1e30), torch.full((1, 1, 4, 4), torch.nan)]
    )
    votes = slices(images)
    assert (votes.sum(2) == 1).all()
    assert torch.equal(IntegerBound(5, low=0).project(votes), votes)  # nothing has to be cut
    expected = ((slices.project(images[:6]) + 1) * 2).floor().clamp(0, 3).long()
    assert torch.equal(votes[:6].argmax(2), expected)


def test_quantiles_come_back_from_exact_counts():
    values = torch.randn(20_000, generator=torch.Generator().manual_seed(0)).sort().values * 0.5
    slices = Slices((1, 4, 4), 1, 40, 2.0, 0)
    places = ((values + 2) * 10).clamp(0, 39).long()
    shares = torch.bincount(places, minlength=40).view(1, 1, 40) / 20_000
    found = slices.quantiles(shares, 8)
    assert found.shape == (1, 8, 1)
    assert torch.allclose(found[0, :, 0], values[((torch.arange(8) + 0.5) / 8 * 20_000).long()], atol=0.06)


def test_noise_alone_has_quantiles_too():
    slices = Slices((1, 4, 4), 3, 6, 2.0, 0)
    found = slices.quantiles(torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(0)) * 100, 5)
    assert torch.isfinite(found).all() and (found.abs() <= 2).all()
    assert (found.diff(dim=1) >= -1e-6).all()


def test_the_simplex_is_reached_from_anywhere():
    found = simplex(torch.tensor([[5.0, -1.0, 0.2], [0.2, 0.3, 0.5], [-9.0, -9.0, -9.0]]))
    assert torch.allclose(found.sum(1), torch.ones(3)) and (found >= 0).all()
    assert torch.allclose(found, torch.tensor([[1, 0, 0], [0.2, 0.3, 0.5], [1 / 3, 1 / 3, 1 / 3]]), atol=1e-6)


def test_a_bin_does_not_depend_on_the_batch():
    slices = Slices((1, 4, 4), 9, 7, 1.0, 0)
    images = torch.randint(0, 256, (33, 1, 4, 4)).float() / 255
    alone = torch.cat([slices(image[None]) for image in images])
    assert torch.equal(slices(images), alone) and torch.equal(slices(images.double()), alone)
