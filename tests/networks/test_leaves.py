"""Images of nobody, and the generator that begins with them."""

from __future__ import annotations

import pytest
import torch

from sfumato.networks import load_generator
from sfumato.networks.leaves import LeavesGenerator, coloured_noise, dead_leaves, images_of_nobody

KEYS = torch.arange(40)


@pytest.mark.parametrize("make", [dead_leaves, coloured_noise, images_of_nobody])
@pytest.mark.parametrize("shape", [(1, 12, 14), (3, 16, 16)])
def test_images_are_functions_of_their_keys(make, shape):
    images = make(KEYS, shape)
    assert images.shape == (40, *shape)
    assert 0 <= float(images.min()) < float(images.max()) <= 1
    # The kernels of a spectrum may differ in their last bit with the size of a batch.
    torch.testing.assert_close(make(KEYS[7:9], shape), images[7:9], atol=1e-5, rtol=0)
    assert len({image.numpy().tobytes() for image in images}) == 40


def test_leaves_are_flat_and_have_edges():
    x = dead_leaves(KEYS, (1, 32, 32))
    steps = (x[..., 1:] - x[..., :-1]).abs()
    assert float((steps == 0).float().mean()) > 0.7
    assert float((steps > 0.2).float().mean()) > 0.02


def test_noise_has_a_falling_spectrum():
    x = coloured_noise(KEYS, (1, 32, 32))
    power = torch.fft.fft2(x - x.mean((2, 3), keepdim=True)).abs().square().mean((0, 1))
    assert float(power[0, 1:4].mean()) > 10 * float(power[0, 10:16].mean())


def test_an_untrained_generator_leaves_images_as_they_are():
    net = LeavesGenerator((3, 10, 13), ("a", "b"), width=8)
    z = net.latents(6, torch.Generator().manual_seed(0))
    found = net(z, torch.zeros(6, dtype=torch.long))
    expected = images_of_nobody(z[:, 0], (3, 12, 16))[:, :, :10, :13].clamp(0.02, 0.98)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_an_image_depends_on_its_own_latent_and_label_alone():
    net = LeavesGenerator((1, 12, 12), ("a", "b"), width=8).eval()
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))
    z = net.latents(5, torch.Generator().manual_seed(1))
    labels = torch.tensor([0, 1, 0, 1, 0])
    whole = net(z, labels)
    torch.testing.assert_close(net(z[2:4], labels[2:4]), whole[2:4], atol=1e-5, rtol=0)
    assert not torch.allclose(net(z[:1], labels[1:2]), whole[:1], atol=1e-3)


def test_it_is_rebuilt_from_its_configuration():
    net = LeavesGenerator((1, 9, 8), ("a", "b", "c"), width=8, label_weights=[0.5, 0.25, 0.25])
    again = load_generator(net.config(), net.state_dict())
    assert (again.sample(12, seed=3).pixels == net.eval().sample(12, seed=3).pixels).all()
