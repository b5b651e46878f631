"""The diffusion model: its denoiser, its samplers, and that it comes back the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.engine.gradients.validate import validate
from sfumato.networks import load_generator
from sfumato.networks.diffusion import DiffusionGenerator

SMALL = {"width": 8, "multipliers": (1, 2), "sampler_steps": 4}


def small(shape=(1, 8, 8), classes=("a", "b"), **changes):
    torch.manual_seed(0)
    net = DiffusionGenerator(shape, classes, **{**SMALL, **changes}).eval()
    with torch.no_grad():
        for p in net.parameters():  # its last layers begin at zero
            p.add_(0.05 * torch.randn(p.shape))
    return net


class Exact(DiffusionGenerator):
    """The ideal denoiser of pixels from N(mean, deviation^2)."""

    mean, deviation = 0.2, 0.1

    def denoise(self, x, sigma, labels):
        s, v = sigma[:, None, None, None].square(), self.deviation**2
        return (v * x + s * self.mean) / (v + s)


@pytest.mark.parametrize("sampler", ["heun", "churn"])
def test_with_an_ideal_denoiser_the_samplers_find_the_law(sampler):
    net = Exact((1, 8, 8), ("a",), width=8, multipliers=(1,), sampler=sampler, sampler_steps=30)
    z = torch.randn(200, net.latent, generator=torch.Generator().manual_seed(0))
    pixels = net(z, torch.zeros(200, dtype=torch.long)) * 2 - 1
    assert pixels.mean().item() == pytest.approx(0.2, abs=0.005)
    assert pixels.std().item() == pytest.approx(0.1, rel=0.06 if sampler == "heun" else 0.12)


@pytest.mark.parametrize("changes", [{}, {"sampler": "churn"}, {"guidance": 2.0}, {"patch": 2}, {"blocks": 2}])
def test_it_comes_back_the_same(changes):
    net = small(**changes)
    again = load_generator(net.config(), net.state_dict())
    one, two, other = net.sample(6, seed=1), again.sample(6, seed=1), net.sample(6, seed=2)
    assert np.array_equal(one.pixels, two.pixels) and not np.array_equal(one.pixels, other.pixels)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 9, 7), (1, 8, 8)])
@pytest.mark.parametrize("patch", [1, 2])
def test_any_shape_will_do(shape, patch):
    assert small(shape, patch=patch, multipliers=(1, 2, 2)).sample(2).pixels.shape == (2, *shape)


@pytest.mark.parametrize("sampler", ["heun", "churn"])
def test_an_image_does_not_depend_on_its_batch(sampler):
    net, labels = small(sampler=sampler), torch.arange(5) % 2
    z = torch.randn(5, net.latent)
    with torch.no_grad():
        together, alone = net(z, labels), torch.cat([net(z[i : i + 1], labels[i : i + 1]) for i in range(5)])
    assert torch.allclose(together, alone, atol=1e-5)
    validate(net)


def test_labels_and_guidance_matter():
    net, z = small(), torch.randn(3, 64)
    with torch.no_grad():
        a, b, none = (net(z, torch.full((3,), label)) for label in (0, 1, -1))
        net.guidance = 1.5
        more = net(z, torch.zeros(3, dtype=torch.long))
    assert not torch.allclose(a, b) and not torch.allclose(a, none) and not torch.allclose(a, more)


def test_the_first_denoiser_is_the_best_one_without_a_network():
    net = DiffusionGenerator((1, 8, 8), ("a",), **SMALL)
    x, sigma = torch.randn(4, 1, 8, 8), torch.tensor([0.01, 0.5, 2.0, 80.0])
    found = net.denoise(x, sigma, torch.zeros(4, dtype=torch.long))
    assert torch.allclose(found, x * (0.25 / (sigma.square() + 0.25))[:, None, None, None], atol=1e-6)


def test_its_default_size_is_that_of_the_literature():
    net = DiffusionGenerator((1, 28, 28), tuple("0123456789"))
    assert 1.4e6 < sum(p.numel() for p in net.parameters()) < 1.8e6


@pytest.mark.parametrize("bad", [{"sampler": "none"}, {"sampler_steps": 1}, {"width": 10}, {"lowest": 100.0}])
def test_wrong_settings_are_refused(bad):
    with pytest.raises(ValueError, match="Expected"):
        small(**bad)
