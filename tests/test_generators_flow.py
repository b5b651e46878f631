"""The flow: invertible, with the right determinant, and nothing of it set by data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.generators import load_generator
from sfumato.generators.flow import EDGE, FlowGenerator
from sfumato.measure.validate import mixes_examples, validate


def small(shape=(1, 4, 4), layers=3, stir=0.3, **changes):
    torch.manual_seed(0)
    net = FlowGenerator(shape, ("a", "b"), width=8, layers=layers, **changes)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(stir * torch.randn(p.shape))
    return net


@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 6, 4), (1, 5, 7)])
def test_a_layer_undoes_itself(shape):
    net, label = small(shape), torch.eye(2)
    x = torch.randn(2, *net.inner)
    for layer in net.layers:
        y, _ = layer(x, label)
        assert torch.allclose(layer.back(y, label), x, atol=1e-4)
    assert net.sample(4).pixels.shape == (4, *shape)


def test_the_density_has_the_true_determinant():
    net, labels = small((1, 2, 2)), torch.tensor([1])
    image, grain = torch.rand(1, 1, 2, 2), torch.full((1, 1, 2, 2), 0.5)

    def code(flat):
        y = torch.nn.functional.pixel_unshuffle(torch.logit(flat.view(1, 1, 2, 2)), 2)
        for layer, order in zip(net.layers, net.orders, strict=True):
            y = layer(y[:, order], torch.tensor([[0.0, 1.0]]))[0]
        return y.flatten()

    x = EDGE + (1 - 2 * EDGE) * (image * 255 + grain) / 256
    jacobian = torch.autograd.functional.jacobian(code, x.flatten())
    exact = code(x.flatten()).square().sum() / 2 - torch.linalg.slogdet(jacobian)[1]
    assert net.surprise(image, grain, labels).item() == pytest.approx(exact.item(), rel=1e-4)


def test_sampling_inverts_the_flow():
    net, labels = small((1, 4, 4), stir=0.1), torch.tensor([0, 1])
    images = torch.rand(2, 1, 4, 4) * 0.9
    x = EDGE + (1 - 2 * EDGE) * images
    y = torch.nn.functional.pixel_unshuffle(torch.logit(x), 2)
    for layer, order in zip(net.layers, net.orders, strict=True):
        y = layer(y[:, order], torch.eye(2))[0]
    assert torch.allclose(net(y.flatten(1), labels), images, atol=1e-4)


def test_it_comes_back_the_same_with_its_permutations():
    net = small(temperature=0.7)
    again = load_generator(net.config(), net.state_dict())
    assert np.array_equal(net.sample(6, seed=1).pixels, again.sample(6, seed=1).pixels)


def test_it_begins_as_the_identity_and_mixes_no_examples():
    net = FlowGenerator((1, 4, 4), ("a", "b"), width=8, layers=2)
    z = torch.randn(3, 16)
    made = net(z, torch.tensor([0, 1, -1]))
    assert torch.equal(net(z, torch.tensor([0, 0, 0])), made)  # no label is known before it is learned
    validate(net)
    net = small()
    grain = torch.rand(3, 1, 4, 4)
    assert not mixes_examples(
        lambda x: net.surprise(x, grain, torch.tensor([0, 1, 0]))[:, None], torch.rand(3, 1, 4, 4)
    )
