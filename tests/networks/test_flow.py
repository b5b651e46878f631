"""The flow: invertible on the frequencies it keeps, with the right determinant, and nothing of it set by data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.engine.gradients.validate import mixes_examples, validate
from sfumato.networks import load_generator
from sfumato.networks.flow import FlowGenerator, cosines
from sfumato.networks.label_embedding import known


def small(shape=(1, 4, 4), layers=3, stir=0.3, **changes):
    torch.manual_seed(0)
    net = FlowGenerator(shape, ("a", "b"), width=8, layers=layers, **changes)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(stir * torch.randn(p.shape))
    return net


def codes(net, images, labels):
    """The flow by its definition, from images in [-1, 1]."""
    y = (torch.einsum("uh,nchw,vw->ncuv", net.down, images, net.across) / net.scale).flatten(1)
    label = known(labels, 2, images)
    t, s = net.place(label).chunk(2, 1)
    y = (y + t) * s.tanh().exp()
    for layer, order in zip(net.layers, net.orders, strict=True):
        y = layer(y[:, order], label)[0]
    return y


def test_cosines_are_orthonormal_and_begin_with_the_mean():
    rows = cosines(9, 5)
    assert torch.allclose(rows @ rows.T, torch.eye(5), atol=1e-6)
    assert torch.allclose(rows[0], torch.full((9,), 1 / 3))


@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 6, 4), (1, 5, 7)])
def test_a_layer_undoes_itself(shape):
    net, label = small(shape), torch.eye(2)
    x = torch.randn(2, net.latent)
    for layer in net.layers:
        y, _ = layer(x, label)
        assert torch.allclose(layer.back(y, label), x, atol=1e-4)
    assert net.sample(4).pixels.shape == (4, *shape)


def test_the_density_has_the_true_determinant():
    net, labels = small((1, 2, 2)), torch.tensor([1])
    image, grain = torch.rand(1, 1, 2, 2), torch.full((1, 1, 2, 2), 0.5)
    x = (image * 255 + grain) / 128 - 1
    jacobian = torch.autograd.functional.jacobian(
        lambda flat: codes(net, flat.view(1, 1, 2, 2), labels)[0], x.flatten()
    )
    exact = codes(net, x, labels).square().sum() / 2 - torch.linalg.slogdet(jacobian)[1] - net.scale.log().sum()
    assert net.surprise(image, grain, labels).item() == pytest.approx(exact.item(), rel=1e-4)


def test_sampling_inverts_the_flow_on_what_is_kept():
    labels = torch.tensor([0, 1])
    images = 0.4 + 0.2 * torch.rand(2, 1, 6, 6)
    whole = small((1, 6, 6), stir=0.1)
    assert torch.allclose(whole(codes(whole, 2 * images - 1, labels), labels), images, atol=1e-4)
    net = small((1, 6, 6), stir=0.1, frequencies=3)
    soft = net(codes(net, 2 * images - 1, labels), labels)
    low = cosines(6, 3)
    assert net.latent == 9 and torch.allclose(soft, low.T @ low @ images @ low.T @ low, atol=1e-4)


def test_it_comes_back_the_same_with_its_permutations():
    net = small(temperature=0.7, frequencies=3)
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


def test_settings_must_make_sense():
    for bad in ({"width": 0}, {"layers": 0}, {"frequencies": 0}, {"temperature": 0.0}, {"frequencies": 1}):
        with pytest.raises(ValueError, match="Expected"):
            FlowGenerator((1, 4, 4), ("a", "b"), **bad)
