"""The decoder and its laws of the latent."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.engine.gradients.validate import mixes_examples, validate
from sfumato.networks import load_generator
from sfumato.networks.vae import VAE, VAEGenerator, Whitened, surprise


def mixture():
    torch.manual_seed(0)
    net = VAEGenerator((1, 8, 8), ("a", "b"), latent=2, width=8, components=3)
    net.shares.copy_(torch.tensor([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0]]))
    net.means.copy_(torch.arange(12.0).view(2, 3, 2))
    net.deviations.fill_(0.1)
    return net


@pytest.mark.parametrize("components", [0, 2])
def test_it_comes_back_the_same(components):
    net = VAEGenerator((3, 9, 7), ("a", "b"), latent=3, width=8, components=components, label_weights=[0.25, 0.75])
    again = load_generator(net.config(), net.state_dict())
    assert np.array_equal(net.sample(8, seed=1).pixels, again.sample(8, seed=1).pixels)
    assert np.bincount(again.sample(8).labels).tolist() == [2, 6]
    assert net.latent == 3 + (components > 0)


def test_components_are_chosen_in_their_proportions():
    net, z = mixture(), torch.randn(4000, 3, generator=torch.Generator().manual_seed(1))
    first = net.placed(z, torch.zeros(4000, dtype=torch.long))
    which = (first[:, 0] / 2).round()
    assert torch.bincount(which.long(), minlength=3).div(4000).tolist() == pytest.approx([0.7, 0.2, 0.1], abs=0.03)
    assert (first - torch.stack([2 * which, 2 * which + 1], 1)).std().item() == pytest.approx(0.1, rel=0.05)
    second = net.placed(z, torch.ones(4000, dtype=torch.long))
    assert torch.allclose(second.mean(0), torch.tensor([8.0, 9.0]), atol=0.01)


def test_the_mixture_has_its_density():
    net = mixture()
    z, labels = torch.tensor([[0.05, 1.0], [2.0, 3.0]]), torch.zeros(2, dtype=torch.long)
    one = torch.distributions.Normal(net.means[0], net.deviations[0])
    exact = torch.logsumexp(one.log_prob(z[:, None]).sum(2) + net.shares[0].log(), 1)
    assert torch.allclose(net.log_prior(z, labels), exact, atol=1e-4)


def test_no_layer_mixes_examples():
    net = VAE(VAEGenerator((1, 8, 8), ("a", "b"), latent=2, width=8))
    validate(net)
    labels = torch.tensor([0, 1, -1])
    assert not mixes_examples(lambda x: net.encoder(x, labels)[0], torch.rand(3, 1, 8, 8))
    assert not mixes_examples(lambda z: net.decoder.logits(z, labels).flatten(1), torch.rand(3, 2))


def test_a_white_code_is_the_public_projection():
    mean, white = torch.rand(64), torch.randn(64, 2) / 8
    net = Whitened(VAEGenerator((1, 8, 8), ("a",), latent=2, width=8, components=1), mean, white)
    images = torch.rand(3, 1, 8, 8)
    code, log_variance = net(images)
    assert torch.allclose(code, (images.flatten(1) - mean) @ white, atol=1e-5) and (log_variance == -3).all()


def test_surprise_is_minus_the_log_likelihood():
    logits, images = torch.randn(2, 1, 3, 3), (torch.rand(2, 1, 3, 3) > 0.5).float()
    exact = -torch.distributions.Bernoulli(logits=logits).log_prob(images).sum((1, 2, 3))
    assert torch.allclose(surprise(logits, images, "bernoulli", 1.0), exact, atol=1e-4)
    away = (torch.sigmoid(logits) - images).square().sum((1, 2, 3))
    assert torch.allclose(surprise(logits, images, "gaussian", 0.5), 2 * away)
