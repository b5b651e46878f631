"""PEARL: its plan, its re-weighting, and that it learns."""

from __future__ import annotations

import copy

import pytest
import torch

from sfumato import DPMERF, PEARL, Budget, Relation
from sfumato.engine.random_fourier import RandomFourier
from sfumato.methods.embedding.reweight import LIMIT, Reweighting
from tests.one_release import MNIST, bright_and_dark, learned_apart


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
def test_it_costs_what_dp_merf_costs(epsilon, relation):
    budget = Budget(epsilon, relation=relation)
    ours, theirs = (m.plan(MNIST, budget).crossings["embedding"] for m in (PEARL(), DPMERF()))
    assert ours == theirs


@pytest.mark.parametrize(
    "bad",
    [
        {"frequencies": 0},
        {"bandwidth": 0.0},
        {"octaves": -1},
        {"reweight": -0.1},
        {"batch": 1},
        {"width": 12},
        {"learning_rate": 0.0},
        {"feature_seed": -1},
    ],
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        PEARL(**bad)


def features(k=50):
    return RandomFourier(16, 2 * k, 0.3, torch.Generator().manual_seed(0), 1.5)


def test_with_equal_weights_it_is_the_distance_of_characteristic_functions():
    phi = features()
    images, target = torch.rand(2, 6, 1, 4, 4), torch.randn(2, 100) * 0.1
    made = phi(images.flatten(0, 1)).view(2, 6, 100)
    found = Reweighting(phi.frequencies, 0.0)(made, target)
    pairs = torch.einsum("cif,cjf->cij", made, made)
    own = (pairs.sum((1, 2)) - pairs.diagonal(dim1=1, dim2=2).sum(1)) / 30
    expected = (own - 2 * (made.mean(1) * target).sum(1) + target.square().sum(1)).mean()
    assert float(found) == pytest.approx(float(expected), abs=1e-5)


def test_weights_rise_where_the_two_differ():
    phi = features()
    images = torch.rand(300, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    target = phi(images).mean(0, keepdim=True)
    off = target.clone()
    low = phi.frequencies.square().sum(0) < phi.frequencies.square().sum(0).median()  # smooth views are wrong
    off[:, torch.cat([low, low])] += 0.3
    distance = Reweighting(phi.frequencies, 0.1)
    for _ in range(40):
        distance(phi(images)[None], off)
    weights = distance.weights().detach()
    assert weights[low].mean() > 1.5 * weights[~low].mean()
    assert float(weights.mean()) == pytest.approx(1, abs=1e-5)
    assert weights.max() / weights.min() <= torch.e ** (2 * LIMIT)


def test_its_state_comes_back():
    phi = features()
    one, two = Reweighting(phi.frequencies, 0.1), Reweighting(phi.frequencies, 0.1)
    made, target = phi(torch.rand(6, 1, 4, 4))[None], torch.zeros(1, 100)
    one(made, target)
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    assert torch.equal(one(made, target), two(made, target)) and torch.equal(one.tilt, two.tilt)


def test_it_learns_what_is_easy():
    assert learned_apart(PEARL(frequencies=100, steps=60, batch=8, latent=4, width=8), bright_and_dark()) > 60
