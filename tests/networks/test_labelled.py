"""Generators whose images a labeller names."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.networks import load_generator
from sfumato.networks.conv import ConvGenerator
from sfumato.networks.labelled import LabelledGenerator, labeller_weights, put_weights
from sfumato.networks.leaves import LeavesGenerator

SHAPE = (1, 8, 8)
CLASSES = ("a", "b", "c")


def made(images="resembling", **how) -> LabelledGenerator:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        nets = [ConvGenerator(SHAPE, CLASSES, 4, 8), LeavesGenerator(SHAPE, CLASSES, 8)]
        net = LabelledGenerator(SHAPE, CLASSES, nets, images=images, **how).eval()
        torch.nn.init.normal_(net.labeller.head.weight)
    return net


def test_labels_are_those_of_the_labeller_in_the_proportions_asked_for():
    net = made(label_weights=[0.5, 0.25, 0.25])
    torch.nn.init.zeros_(net.labeller.head.weight)
    net.labeller.head.weight.data[:, :3] = torch.eye(3)  # each label in every third image, about
    found = net.sample(200, seed=1)
    assert np.bincount(found.labels).tolist() == [100, 50, 50]
    assert float((net.label(found.pixels).numpy() == found.labels).mean()) > 0.9


def test_a_class_that_the_labeller_never_sees_is_filled_with_images_made_for_it():
    net = made()
    with torch.no_grad():
        net.labeller.head.bias.copy_(torch.tensor([0.0, 0.0, -1e6]))
    found = net.sample(30, seed=1)
    assert np.bincount(found.labels, minlength=3).tolist() == [10, 10, 10]
    assert not (net.label(found.pixels) == 2).any()


def test_both_generators_take_part_and_a_sample_follows_its_seed():
    net = made()
    z = net.latents(40, torch.Generator().manual_seed(0))
    assert set((z[:, 0] % 2).tolist()) == {0, 1}
    assert (net.sample(20, seed=5).pixels == net.sample(20, seed=5).pixels).all()
    assert (net.sample(20, seed=5).pixels != net.sample(20, seed=6).pixels).any()


def test_half_of_teaching_images_are_changed():
    plain, teaching = made(), made("teaching")
    z = plain.latents(400, torch.Generator().manual_seed(0))
    labels = torch.zeros(400, dtype=torch.long)
    same = (plain(z, labels) == teaching(z, labels)).flatten(1).all(1)
    assert 0.4 < float(same.float().mean()) < 0.6


def test_it_is_rebuilt_from_its_configuration_with_all_of_its_parts():
    net = made("teaching", patches=2, mirrored=True)
    again = load_generator(net.config(), net.state_dict())
    assert again.config() == net.config()
    assert (again.sample(12, seed=3).pixels == net.sample(12, seed=3).pixels).all()


def test_weights_of_a_labeller_go_into_another():
    one, other = made(), made()
    torch.nn.init.zeros_(other.labeller.head.weight)
    put_weights(other.labeller, labeller_weights(one.labeller))
    assert torch.equal(one.labeller.head.weight, other.labeller.head.weight)


def test_the_share_that_keeps_its_class_is_a_share():
    assert 0 <= made().kept_share(60) <= 1


def test_wrong_words_and_labels_are_refused():
    with pytest.raises(ValueError, match="Expected images resembling or teaching"):
        made("pretty")
    with pytest.raises(ValueError, match="Expected 2 labels from 0 to 2"):
        made().sample(2, [0, 3])
