"""DP-NF: its plan, its gradient, and that it learns."""

from __future__ import annotations

import pytest
import torch

from sfumato import DPNF, Budget, DataSpec, Relation
from sfumato.engine.gradients.per_example import per_example
from sfumato.networks.flow import FlowGenerator
from sfumato.record_rng import drawing, record_keys, uniform
from tests.explicit import learned, told_apart

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))


def draw(noise_multiplicity=1):
    return drawing(lambda name, step: torch.Generator().manual_seed(step), noise_multiplicity)(0)


def network():
    torch.manual_seed(0)
    net = FlowGenerator((1, 8, 8), ("a", "b"), width=8, layers=2)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.1 * torch.randn(p.shape))
    return net


def test_the_plan_is_that_of_dp_sgd():
    plan = DPNF(steps=500, batch=600).plan(MNIST, Budget(1.0))
    event = plan.events()[0]
    assert event.rate == 0.01 and event.times == 500 and 0.999 < plan.epsilon() <= 1.0 < plan.paper["epsilon"]


def test_the_loss_is_the_density_with_grain_of_the_record():
    net, method = network(), DPNF()
    images, labels = (torch.rand(4, 1, 8, 8) * 255).round() / 255, torch.arange(4) % 2
    keys, copy = draw()(4)
    grain = uniform(record_keys(images, keys), (1, 8, 8))
    assert torch.equal(method.loss(net, images, labels, keys, copy), net.surprise(images, grain, labels))
    assert grain.min() > 0 and grain.max() < 1


def test_gradients_go_the_fast_way_and_are_bounded():
    net = network()
    query = per_example(net, DPNF(noise_multiplicity=2).loss, 0.5, batch=6, noise_multiplicity=2, draw=draw(2))
    images, labels = torch.rand(6, 1, 8, 8), torch.arange(6) % 2
    whole = query.total(images, labels)
    assert list(query._chosen.values()) == ["ghost"]
    for i in range(6):
        kept = torch.arange(6) != i
        moved = (whole - query.total(images[kept], labels[kept])).norm()
        assert 0.49 < moved <= query.bound.sensitivity(Relation.ADD_REMOVE)


def test_it_learns():
    assert told_apart(learned(DPNF(steps=120, batch=60, width=16, layers=4, learning_rate=5e-2, ema_decay=0.0))) > 0.9


@pytest.mark.parametrize(
    "bad",
    [{"steps": 0}, {"frequencies": 0}, {"frequencies": 1}, {"layers": 0}, {"temperature": 0.0}, {"learning_rate": 0.0}],
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        DPNF(**bad)
