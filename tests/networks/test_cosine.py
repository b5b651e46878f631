"""Cosines are orthonormal and slow ones come first; a Gaussian of them gives what it was put."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.fft import dctn

from sfumato.networks import CosineGaussian, load_generator
from sfumato.networks.cosine import cosine_basis


def made(shape=(1, 6, 8), coefficients=10):
    random = torch.Generator().manual_seed(0)
    net = CosineGaussian(shape, ("a", "b"), coefficients, (0.25, 0.75))
    root = 0.02 * torch.randn(2, net.latent, net.latent, generator=random)
    net.put(0.3 * torch.randn(2, net.latent, generator=random), root + root.mT)
    return net.eval()


@pytest.mark.parametrize("shape", [(1, 5, 5), (1, 4, 7), (3, 4, 4)])
def test_all_coefficients_are_those_of_scipy(shape):
    image = np.random.default_rng(0).normal(size=shape)
    pixels = int(np.prod(shape))
    found = cosine_basis(shape, pixels) @ torch.from_numpy(image).flatten()
    theirs = dctn(image, axes=(1, 2), norm="ortho")
    assert np.allclose(np.sort(found.numpy()), np.sort(theirs, axis=None))
    assert len(cosine_basis(shape, pixels + 9)) == pixels


def test_slow_waves_come_first_and_channels_stand_together():
    basis = cosine_basis((3, 8, 8), 12).view(12, 3, 8, 8)
    assert (basis.abs().sum((2, 3)) > 0).sum(1).tolist() == [1] * 12
    turns = basis.sum(1).diff(dim=2).abs().sum((1, 2)) + basis.sum(1).diff(dim=1).abs().sum((1, 2))
    assert float(turns[:3].max()) < 1e-12 < float(turns[3:].min())  # a level of each channel, then waves


def test_images_have_the_mean_and_covariance_that_were_put():
    net = made()
    z = net.latents(20_000, torch.Generator().manual_seed(1))
    images = net(z, torch.ones(20_000, dtype=torch.long))
    assert 0 < float(images.min()) <= float(images.max()) < 1  # nothing was cut
    found = (images.flatten(1) - 0.5) @ net.basis.T
    assert torch.allclose(found.mean(0), net.means[1], atol=0.01)
    assert torch.allclose(torch.cov(found.T), net.roots[1] @ net.roots[1].T, atol=0.01)


def test_it_comes_back_from_its_config_and_pixels_stay_in_range():
    net = made(coefficients=1000)
    net.put(50 * net.means, net.roots)
    again = load_generator(net.config(), net.state_dict())
    one, two = net.sample(20, seed=3), again.sample(20, seed=3)
    assert np.array_equal(one.pixels, two.pixels) and np.bincount(one.labels).tolist() == [5, 15]
    assert {0, 255} <= set(one.pixels.flatten().tolist())
    assert set(net.state_dict()) == {"means", "roots"}


def test_without_moments_images_are_grey():
    assert set(CosineGaussian((1, 4, 4), ("a",)).sample(3).pixels.flatten().tolist()) == {128}
