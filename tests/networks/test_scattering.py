"""Scattering against its definition: convolutions summed pixel by pixel."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfumato.networks.scattering import MAPS, Scattering, morlet, outputs

WRAPS = range(-2, 3)


def wave(sides, scale, angle):
    """The wavelet by its formula, at each pixel of a torus."""
    sigma, xi = 0.8 * 2**scale, 3 * math.pi / 4 / 2**scale
    bump, wavy = np.zeros(sides), np.zeros(sides, complex)
    for i, j in np.ndindex(*sides):
        for y in (i + w * sides[0] for w in WRAPS):
            for x in (j + w * sides[1] for w in WRAPS):
                u = x * math.cos(angle) + y * math.sin(angle)
                v = y * math.cos(angle) - x * math.sin(angle)
                height = math.exp(-(u * u + 0.25 * v * v) / (2 * sigma**2))
                bump[i, j] += height
                wavy[i, j] += height * complex(math.cos(xi * u), math.sin(xi * u))
    return (wavy - bump * wavy.sum() / bump.sum()) * 0.5 / (2 * math.pi * sigma**2)


def convolve(x, kernel):
    return sum(kernel[m] * np.roll(x, m, (0, 1)) for m in np.ndindex(*kernel.shape))


def smooth(x, step):
    """The Gaussian's mean around every cell but the outer ones; x was sampled at every `step` pixels."""
    sides = [n * step for n in x.shape]

    def weights(side, cell):
        away = np.arange(0, side, step) - cell
        bump = sum(np.exp(-((away + w * side) ** 2) / (2 * 1.6**2)) for w in WRAPS)
        return bump / bump.sum()

    rows, columns = ([weights(side, cell) for cell in range(4, side - 4, 4)] for side in sides)
    return np.array([[(np.outer(a, b) * x).sum() for b in columns] for a in rows])


def slowly(image):
    height, width = image.shape
    sides = [(outputs(n) + 2) * 4 for n in image.shape]
    x = np.pad(image, ((4, sides[0] - height - 4), (4, sides[1] - width - 4)), mode="reflect")
    angles = [math.pi * at / 8 for at in range(8)]
    first, second = ([morlet(sides, scale, a).numpy() for a in angles] for scale in (0, 1))
    fine = [abs(convolve(x, psi)) for psi in first]
    maps = [smooth(x, 1), *(smooth(u, 1) for u in fine)]
    maps += [smooth(abs(convolve(x, psi))[::2, ::2], 2) for psi in second]
    maps += [smooth(abs(convolve(u, psi))[::2, ::2], 2) for u in fine for psi in second]
    return np.stack(maps)


@pytest.mark.parametrize("scale", [0, 1])
def test_wavelets_follow_their_formula_and_have_no_mean(scale):
    angle = 3 * math.pi / 8
    found = morlet([12, 16], scale, angle).numpy()
    assert np.allclose(found, wave((12, 16), scale, angle), atol=1e-12)
    assert abs(found.sum()) < 1e-12 and abs(found).sum() > 0.5


def test_the_transform_is_what_it_says():
    image = np.random.default_rng(0).random((8, 9))
    found = Scattering((1, 8, 9))(torch.from_numpy(image)[None, None].float())[0].numpy()
    assert found.shape == (MAPS, 2, 3)
    assert np.allclose(found, slowly(image), atol=2e-6)


def test_images_and_channels_do_not_meet():
    net, images = Scattering((3, 10, 12)), torch.rand(70, 3, 10, 12)
    whole = net(images)
    assert whole.shape == (70, 3 * MAPS, 3, 3)
    assert torch.allclose(net(images[66:67]), whole[66:67], atol=1e-6)
    alone = Scattering((1, 10, 12))(images[:, 1:2])
    assert torch.allclose(whole[:, MAPS : 2 * MAPS], alone, atol=1e-6)


def test_an_empty_batch_and_a_constant_image_have_an_answer():
    net = Scattering((1, 28, 28))
    assert net(torch.zeros(0, 1, 28, 28)).shape == (0, MAPS, 7, 7)
    flat = net(torch.full((1, 1, 28, 28), 0.5))[0]
    assert torch.allclose(flat[0], torch.full((7, 7), 0.5), atol=1e-6)
    assert flat[1:].abs().max() < 1e-6


def test_small_images_are_refused():
    with pytest.raises(ValueError, match="at least 8x8"):
        Scattering((1, 7, 28))


@pytest.mark.gpu
def test_the_same_on_a_gpu():
    net, images = Scattering((1, 28, 28)), torch.rand(5, 1, 28, 28)
    assert torch.allclose(net.cuda()(images.cuda()).cpu(), net.cpu()(images), atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 30), (1, 9, 14)])
def test_matrices_give_the_maps_of_the_spectra(shape):
    net = Scattering(shape)
    images = torch.rand(5, *shape, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(net._by_matrices(images), net(images), atol=2e-6, rtol=1e-4)


def test_gradients_reach_the_pixels_and_are_finite_where_there_is_nothing_to_see():
    net = Scattering((1, 12, 12))
    images = torch.rand(2, 1, 12, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    images[1] = 0
    for way in (net, lambda x: net._by_matrices(x.float())):
        x = images.clone().requires_grad_()
        (slope,) = torch.autograd.grad(way(x).square().sum(), x)
        assert torch.isfinite(slope).all()
        step = torch.zeros_like(images)
        step[0, 0, 5, 6] = 1e-2
        with torch.no_grad():
            moved = (way(images + step).square().sum() - way(images - step).square().sum()) / 2e-2
        assert float(slope[0, 0, 5, 6]) == pytest.approx(float(moved), rel=2e-2)
