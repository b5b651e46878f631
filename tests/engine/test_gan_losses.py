"""Losses of the adversarial game: signs, the label's part, and a penalty that is each record's own."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from sfumato.engine.gan_losses import OBJECTIVES, fake_loss, partner, real_loss, steepness
from sfumato.networks.critic import ConvCritic

KEY = torch.tensor(1234567)


class Linear(nn.Module):
    """A score whose slope is known."""

    def __init__(self, weights):
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, images, labels):
        return (images * self.weights).sum((1, 2, 3))[:, None]


def batch(n=6, size=8, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, 1, size, size), generator=random) / 255, torch.arange(n) % 3


def test_a_score_of_zero_costs_what_it_should():
    out, labels = torch.zeros(2, 4), torch.tensor([0, 1])
    half, guess = math.log(2), math.log(3)
    for name, real, lure in (("nonsaturating", half, half), ("wgan", 0.0, 0.0), ("acgan", half + guess, half + guess)):
        sides = OBJECTIVES[name]
        assert sides.real(out, labels).tolist() == pytest.approx([real] * 2)
        assert sides.fake(out, labels).tolist() == pytest.approx([real] * 2)
        assert sides.lure(out, labels).tolist() == pytest.approx([lure] * 2)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_critic_and_generator_want_opposite_things(name):
    out = torch.zeros(1, 4, requires_grad=True)
    sides, labels = OBJECTIVES[name], torch.tensor([2])
    slopes = [
        torch.autograd.grad(side(out, labels).sum(), out)[0][0, 0] for side in (sides.real, sides.fake, sides.lure)
    ]
    assert slopes[0] < 0 < slopes[1] and slopes[2] < 0


def test_the_penalty_of_a_linear_score_is_known():
    weights = torch.full((1, 8, 8), 0.5)  # norm 4
    images, labels = batch()
    found = steepness(Linear(weights), images, labels, batch(5, seed=1)[0], KEY)
    assert found.tolist() == pytest.approx([9.0] * 6)
    whole = real_loss(OBJECTIVES["wgan"], 10.0)(Linear(weights), images, labels, batch(5, seed=1)[0], KEY)
    assert torch.allclose(whole, 90 - 0.5 * images.sum((1, 2, 3)))


def test_a_flat_score_has_a_penalty_with_a_slope():
    net = Linear(torch.zeros(1, 8, 8))
    images, labels = batch()
    loss = steepness(net, images, labels, images, KEY).sum()
    assert loss.item() == pytest.approx(6, abs=1e-4)
    assert torch.isfinite(torch.autograd.grad(loss, net.weights)[0]).all()


def test_a_partner_is_the_record_s_own_whatever_stands_beside_it():
    images, _ = batch(40)
    at, share = partner(images, 7, KEY)
    again = partner(images.flip(0), 7, KEY)
    assert torch.equal(at, again[0].flip(0)) and torch.equal(share, again[1].flip(0))
    for i in (0, 39):
        alone = partner(images[i : i + 1], 7, KEY)
        assert alone[0] == at[i] and alone[1] == share[i]


def test_partners_are_spread_and_change_with_the_key():
    images, _ = batch(2000)
    at, share = partner(images, 10, KEY)
    assert at.bincount(minlength=10).min() > 140 and at.max() == 9
    assert abs(float(share.mean()) - 0.5) < 0.03 and abs(float(share.var()) - 1 / 12) < 0.01
    other = partner(images, 10, KEY + 1)[0]
    assert float((other == at).double().mean()) < 0.2


@pytest.mark.parametrize("name", OBJECTIVES)
def test_no_record_moves_the_loss_of_another(name):
    images, labels = batch()
    net = ConvCritic((1, 8, 8), 3, width=8, auxiliary=OBJECTIVES[name].guesses)
    fakes = batch(5, seed=1)[0]
    loss = real_loss(OBJECTIVES[name], 10.0)
    one = loss(net, images, labels, fakes, KEY)
    changed = images.clone()
    changed[0] = 1 - changed[0]
    two = loss(net, changed, labels, fakes, KEY)
    assert torch.allclose(one[1:], two[1:], atol=1e-5) and not torch.allclose(one[0], two[0])
    assert fake_loss(OBJECTIVES[name])(net, images, labels).shape == (6,)
