"""Autoencoders side by side: an image has its own, and the others learn nothing of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.engine.gradients.validate import mixes_examples, validate
from sfumato.networks import load_generator
from sfumato.networks.several_vaes import SeveralDecoders, SeveralVAEs

SHAPE, CLASSES = (1, 8, 8), ("a", "b", "c")


def network(models=0):
    torch.manual_seed(0)
    return SeveralVAEs(SeveralDecoders(SHAPE, CLASSES, 3, 8, models=models), lambda images, labels: labels)


@pytest.mark.parametrize(("components", "models"), [(0, 0), (2, 0), (0, 4)])
def test_it_comes_back_the_same(components, models):
    net = SeveralDecoders(SHAPE, CLASSES, 3, 8, [0.5, 0.25, 0.25], components, models)
    again = load_generator(net.config(), net.state_dict())
    assert np.array_equal(net.sample(8, seed=1).pixels, again.sample(8, seed=1).pixels)
    assert len(again.decoders) == (models or 3) and again.label_weights == [0.5, 0.25, 0.25]


def test_a_class_has_its_own_decoder():
    net = network().decoder.eval()
    z, labels = torch.randn(6, net.latent), torch.arange(6) % 3
    with torch.no_grad():
        alone = [net.decoders[c](z[i : i + 1, :-1], labels[i : i + 1]) for i, c in enumerate(labels.tolist())]
        assert torch.allclose(net(z, labels), torch.cat(alone), atol=1e-5)


def test_clusters_are_chosen_in_their_proportions():
    net = network(models=2).decoder
    net.choice.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    for decoder, value in zip(net.decoders, (-9.0, 9.0), strict=True):
        decoder.logits = lambda z, labels, value=value: torch.full((len(z), *SHAPE), value)
    z = torch.randn(999, net.latent, generator=torch.Generator().manual_seed(0))
    bright = net(z, torch.arange(999) % 3).mean((1, 2, 3)).view(-1, 3).mean(0)
    assert bright.tolist() == pytest.approx([0, 1, 0.5], abs=0.07)


def test_a_record_has_no_gradient_in_the_autoencoders_of_others():
    net = network()
    images, labels = torch.rand(2, *SHAPE), torch.tensor([1, 1])
    each = [pair.decoder.logits(pair.encoder(images, labels)[0], labels).sum((1, 2, 3)) for pair in net.pairs()]
    net.of_own(each, images, labels).sum().backward()
    for number, pair in enumerate(net.pairs()):
        for part in pair:
            slopes = [p.grad for p in part.parameters()]
            assert any(s is not None and s.any() for s in slopes) == (number == 1)


def test_an_image_without_a_label_is_for_all_of_them():
    net = network()
    found = net.of_own(
        [torch.ones(2), 2 * torch.ones(2), 6 * torch.ones(2)], torch.rand(2, *SHAPE), torch.tensor([2, -1])
    )
    assert found.tolist() == [6, 3]


def test_no_layer_mixes_examples():
    net = network()
    validate(net)
    assert not mixes_examples(lambda x: net.encoder(x, torch.tensor([0, 1, -1]))[0], torch.rand(3, *SHAPE))
