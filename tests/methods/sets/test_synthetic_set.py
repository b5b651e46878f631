"""What optimisers of a fixed set share: their distances and their descent."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from sfumato import DataSpec
from sfumato.engine.gradients.validate import mixes_examples, validate
from sfumato.methods.sets import synthetic_set
from sfumato.methods.sets.convnets import ConvNet
from sfumato.networks import ImageSet

SPEC = DataSpec("scans", 60, (1, 8, 8), ("0", "1", "2"))


def random(seed=0):
    return torch.Generator().manual_seed(seed)


def points(each=2, weights=None):
    made = ImageSet(SPEC.shape, SPEC.classes, each, weights)
    made.start(random())
    return made


def net(depth=2):
    made = ConvNet(SPEC.shape, 3, width=8, depth=depth)
    made.draw(random(1))
    return made


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_networks_keep_examples_apart(depth):
    made = net(depth)
    validate(made)
    assert not mixes_examples(made, torch.rand(4, 1, 8, 8, generator=random()))
    assert made.features(torch.rand(5, 1, 8, 8)).shape == (5, made.size)
    assert made.features(torch.rand(5, 1, 8, 8).double()).dtype == torch.float64


def test_networks_are_drawn_from_their_own_randomness():
    one, same, other = (ConvNet(SPEC.shape, 3, width=8, depth=1) for _ in range(3))
    for made, seed in ((one, 1), (same, 1), (other, 2)):
        made.draw(random(seed))
    assert torch.equal(one.head.weight, same.head.weight) and not torch.equal(one.head.weight, other.head.weight)
    assert torch.equal(one.body[1].weight, torch.ones(8)) and not one.body[0].bias.any()
    wide = ConvNet(SPEC.shape, 3, width=256, depth=2)
    wide.draw(random())
    assert wide.body[4].weight.std().item() == pytest.approx((2 / (9 * 256)) ** 0.5, rel=0.02)


def test_the_gap_is_that_of_every_row_by_hand():
    mine = [torch.randn(3, 2, 2, 2, generator=random(1)), torch.randn(3, generator=random(2)), torch.randn(4, 5)]
    theirs = torch.randn(24 + 3 + 20, generator=random(3))
    rows = [(mine[0][i].flatten(), theirs[8 * i : 8 * i + 8]) for i in range(3)]
    rows += [(mine[2][i], theirs[27 + 5 * i : 32 + 5 * i]) for i in range(4)]
    by_hand = sum(1 - (a @ b) / (a.norm() * b.norm()) for a, b in rows)
    assert torch.allclose(synthetic_set.gradient_gap(mine, theirs), by_hand, atol=1e-5)
    own = torch.cat([g.flatten() for g in mine])
    assert synthetic_set.gradient_gap(mine, 7 * own).abs() < 1e-5
    assert torch.isfinite(synthetic_set.gradient_gap(mine, 0 * own))


def test_the_loss_of_a_set_weighs_classes_by_their_shares():
    made, judge = points(weights=(0.5, 0.5, 0.0)), net()
    images, labels = made.everything()
    losses = F.cross_entropy(judge(images), labels, reduction="none")
    assert torch.allclose(synthetic_set.set_loss(judge, made), losses[labels < 2].mean())


def test_study_lowers_the_loss():
    made, judge = points(), net()
    before = float(synthetic_set.set_loss(judge, made).detach())
    synthetic_set.study(judge, made, steps=20, learning_rate=0.05)
    assert float(synthetic_set.set_loss(judge, made).detach()) < 0.8 * before


def test_rows_are_shortened_to_the_norm():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    assert torch.allclose(synthetic_set.shortened(rows, 1.0), torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))


@pytest.mark.parametrize("optimiser", synthetic_set.OPTIMISERS)
def test_refining_descends_and_stays_within_range(optimiser):
    made = points()
    target = torch.rand(made.images.shape, generator=random(5)) * 1.5 - 0.25
    pixels = synthetic_set.PixelDescent(made, 0.05, 80, optimiser)
    for t in range(80):
        pixels.step((made.images - target).square().sum(), t)
    assert 0 <= made.images.min() <= made.images.max() <= 1
    assert (made.images - target.clamp(0, 1)).abs().max() < 0.05


def test_plain_descent_has_momentum_and_a_rate_that_stays():
    made = points()
    start = made.images.detach().clone()
    pixels = synthetic_set.PixelDescent(made, 0.01, 2, "sgd")
    for t in range(2):
        pixels.step(made.images.sum(), t)
    assert torch.allclose(made.images, (start - 0.01 * (1 + 1.5)).clamp(0, 1), atol=1e-6)


@pytest.mark.parametrize("optimiser", synthetic_set.OPTIMISERS)
def test_a_descent_goes_on_from_its_checkpoint(optimiser):
    def descend(made, pixels, steps):
        for t in steps:
            pixels.step(made.images.square().sum(), t)

    whole = points()
    descend(whole, synthetic_set.PixelDescent(whole, 0.05, 6, optimiser), range(6))
    half = points()
    first = synthetic_set.PixelDescent(half, 0.05, 6, optimiser)
    descend(half, first, range(3))
    second = synthetic_set.PixelDescent(half, 0.05, 6, optimiser)
    second.load_state_dict(first.state_dict())
    descend(half, second, range(3, 6))
    assert torch.equal(whole.images, half.images)
