"""A part of a network: what is frozen stays, and gradients are those of the whole, cut to the part."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sfumato.engine.gradients.per_example import assign, per_example
from sfumato.networks.part import PARTS, Adapted, adapt, multiplied, train_only
from sfumato.networks.unet import UNet


def unet():
    torch.manual_seed(0)
    net = UNet(1, 2, width=8, multipliers=(1, 2))
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.05 * torch.randn(p.shape))
    return net


def loss(net, images, labels):
    known = nn.functional.one_hot(labels, 2).to(images)
    return net(images, images.mean((1, 2, 3)), known).square().sum((1, 2, 3))


def batch():
    return torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(1)), torch.arange(5) % 2


@pytest.mark.parametrize("way", ["ghost", "loop"])
def test_gradients_of_a_part_are_those_of_the_whole_cut_to_it(way):
    net, huge = unet(), 1e6  # so that nothing is clipped
    whole = per_example(net, loss, huge, batch=5, way=way).rows(*batch())
    every = {name: p.numel() for name, p in net.named_parameters()}
    train_only(net, PARTS["attention"])
    part = per_example(net, loss, huge, batch=5, way=way)
    columns = torch.cat([torch.full((size,), name in part.parameters) for name, size in every.items()])
    assert 0 < part.shape[0] == int(columns.sum()) < len(columns)
    assert torch.allclose(part.rows(*batch()), whole[:, columns], rtol=1e-3, atol=1e-5 * float(whole.abs().max()))


@pytest.mark.parametrize("part", ["attention", "adapters"])
def test_the_bound_holds_for_the_part_alone(part):
    net = unet()
    adapt(net, 2) if part == "adapters" else train_only(net, PARTS[part])
    query = per_example(net, loss, 0.5, batch=5)
    images, labels = batch()
    assert query.rows(images, labels).norm(dim=1) == pytest.approx(torch.full((5,), 0.5).double(), rel=1e-4)
    moved = query.total(images, labels) - query.total(images[1:], labels[1:])
    assert list(set(query._chosen.values())) == ["ghost"] and float(moved.norm()) <= 0.5 * 1.001


def test_a_step_leaves_what_is_frozen_as_it_was():
    net = unet()
    before = {name: p.clone() for name, p in net.named_parameters()}
    train_only(net, PARTS["attention"])
    query = per_example(net, loss, 1.0, batch=5)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.1)
    assign(net, query.total(*batch()))
    optimiser.step()
    moved = {name for name, p in net.named_parameters() if not torch.equal(p, before[name])}
    assert moved == set(query.parameters) and {name for name in moved if "attention" in name}


@pytest.mark.parametrize("layer", [nn.Linear(5, 3), nn.Conv2d(5, 3, 3, stride=2, padding=1)])
def test_adapters_begin_with_nothing_and_are_multiplied_out(layer):
    x = torch.rand(2, 5) if isinstance(layer, nn.Linear) else torch.rand(2, 5, 6, 6)
    before = layer(x)
    net = nn.Sequential(layer)
    adapt(net, 2)
    assert isinstance(net[0], Adapted) and torch.equal(net(x), before)
    nn.init.normal_(net[0].up.weight)
    after = net(x)
    assert not torch.allclose(after, before) and torch.allclose(multiplied(net)(x), after, atol=1e-5)
    assert net[0] is layer


def test_adapters_are_all_that_is_trained_and_names_come_back():
    net = unet()
    names = list(net.state_dict())
    adapt(net, 2)
    trained = [name for name, p in net.named_parameters() if p.requires_grad]
    assert trained and all(name.split(".")[-2] in ("down", "up") for name in trained)
    assert list(multiplied(net).state_dict()) == names
