"""The critic and the generator of the revised DPGAN: shapes, labels, and examples that stay apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.engine.gradients.per_example import per_example
from sfumato.engine.gradients.validate import mixes_examples
from sfumato.networks import load_generator
from sfumato.networks.critic import ConvCritic, halvings
from sfumato.networks.deconv import DeconvGenerator

SHAPES = [(1, 28, 28), (3, 32, 32), (1, 30, 27), (1, 8, 8), (3, 5, 9)]


@pytest.mark.parametrize("shape", SHAPES)
def test_any_image_has_a_score(shape):
    images, labels = torch.rand(4, *shape), torch.tensor([0, 1, 2, 0])
    assert ConvCritic(shape, 3, 8)(images, labels).shape == (4, 1)
    assert ConvCritic(shape, 3, 8, heads=True)(images, labels).shape == (4, 1)
    assert ConvCritic(shape, 3, 8, norm=True, auxiliary=True)(images, labels).shape == (4, 4)
    assert max(halvings(shape[1:])[-1]) <= 4


def test_the_label_is_seen_or_guessed():
    images = torch.rand(1, 1, 8, 8).expand(2, -1, -1, -1)
    seen, guessed = ConvCritic((1, 8, 8), 2, 8), ConvCritic((1, 8, 8), 2, 8, auxiliary=True)
    assert seen(images, torch.tensor([0, 1]))[0] != seen(images, torch.tensor([0, 1]))[1]
    torch.testing.assert_close(*guessed(images, torch.tensor([0, 1])).split(1))


def test_each_class_has_a_score_of_its_own():
    images, net = torch.rand(1, 1, 8, 8).expand(2, -1, -1, -1), ConvCritic((1, 8, 8), 2, 8, heads=True)
    one, other = net(images, torch.tensor([0, 1]))
    assert one != other
    with torch.no_grad():
        net.head.weight[1] += 1
    assert net(images, torch.tensor([0, 1]))[0] == one and net(images, torch.tensor([0, 1]))[1] != other


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("kind", [{}, {"heads": True}, {"auxiliary": True}])
def test_the_critic_mixes_no_examples_and_takes_the_fast_way(norm, kind):
    net = ConvCritic((1, 8, 8), 3, 8, norm=norm, **kind)
    labels = torch.tensor([0, 1, 2, 0])
    assert not mixes_examples(lambda x: net(x, labels[: len(x)]), torch.rand(4, 1, 8, 8))
    query = per_example(net, lambda net, x, y: net(x, y)[:, 0], 1.0)
    assert query._settle(torch.rand(4, 1, 8, 8), ()) == "ghost"


def test_widths_are_checked():
    for bad in ({"width": 3}, {"width": 4, "norm": True}):
        with pytest.raises(ValueError, match="multiple"):
            ConvCritic((1, 8, 8), 3, **bad)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_generator_makes_any_shape_and_comes_back(shape):
    net = DeconvGenerator(shape, ("a", "b", "c"), latent=4, width=2, label_weights=[0.5, 0.25, 0.25])
    one = net.sample(8, seed=5)
    assert one.pixels.shape == (8, *shape) and np.bincount(one.labels).tolist() == [4, 2, 2]
    again = load_generator(net.config(), net.state_dict())
    assert np.array_equal(one.pixels, again.sample(8, seed=5).pixels)
    z, labels = torch.randn(5, 4), torch.tensor([0, 1, 2, 1, 0])
    alone = torch.cat([net(z[i : i + 1], labels[i : i + 1]) for i in range(5)])
    assert torch.allclose(net(z, labels), alone, atol=1e-6)


def test_labels_matter_unless_told_otherwise():
    z = torch.randn(1, 4).expand(2, -1)
    for conditional in (True, False):
        net = DeconvGenerator((1, 8, 8), ("a", "b"), 4, 2, conditional=conditional)
        assert torch.equal(*net(z, torch.tensor([0, 1])).split(1)) is not conditional
