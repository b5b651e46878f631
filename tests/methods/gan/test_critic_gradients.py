"""What a critic learns from: what is released, what is public, and schedules that leave the bound alone."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato import DPGAN, Relation, Run
from sfumato.data.public import PublicImages
from sfumato.engine.adversarial import Players, Turns
from sfumato.engine.gan_losses import OBJECTIVES, fake_loss, real_loss
from sfumato.engine.gradients.per_example import bound_for
from sfumato.methods.gan.critic_gradients import CLIPPINGS, CriticGradients, public_game, typical_norm
from sfumato.networks import ConvGenerator
from sfumato.networks.critic import ConvCritic
from sfumato.types import Images
from tests.made_up import arrays, box

KEY = torch.tensor(99)
SPEC = box().spec


def asked(loss="nonsaturating", **more):
    return CriticGradients(OBJECTIVES[loss], batch=6, clip=0.5, **more)


def critic(loss="nonsaturating"):
    torch.manual_seed(0)
    return ConvCritic((1, 8, 8), 3, 4, auxiliary=OBJECTIVES[loss].guesses)


def images(n, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, 1, 8, 8), generator=random) / 255, torch.arange(n) % 3


def by_hand(net, losses, clip):
    """The sum of gradients, each shortened to `clip`, one after the other."""
    total = 0
    for one in losses:
        slopes = torch.autograd.grad(one, list(net.parameters()), retain_graph=True)
        row = torch.cat([s.flatten() for s in slopes]).double()
        total = total + row * min(1.0, clip / float(row.norm()))
    return total


@pytest.mark.parametrize(("loss", "penalty"), [("nonsaturating", 0.0), ("acgan", 0.0), ("wgan", 10.0)])
def test_the_answer_is_the_sum_of_clipped_gradients(loss, penalty):
    net, (x, y), (fakes, labels) = critic(loss), images(6), images(5, seed=1)
    made = asked(loss, penalty=penalty)
    real, fake = made.queries(net)
    found = 0.5 * real.total(x, y, fakes, KEY)  # in units of the threshold
    single = [real_loss(OBJECTIVES[loss], penalty)(net, x[i : i + 1], y[i : i + 1], fakes, KEY)[0] for i in range(6)]
    exact = by_hand(net, single, 0.5)
    assert torch.allclose(found, exact, atol=1e-5), (found - exact).abs().max()
    free = made.of_fakes(fake, fakes, labels, 0.5)
    assert torch.allclose(free, by_hand(net, fake_loss(OBJECTIVES[loss])(net, fakes, labels), 0.5) / 5, atol=1e-5)
    plain = made.of_fakes(fake, fakes, labels, None)
    assert torch.allclose(plain, by_hand(net, fake_loss(OBJECTIVES[loss])(net, fakes, labels), 1e9) / 5, atol=1e-5)


@pytest.mark.parametrize("clipping", CLIPPINGS)
@pytest.mark.parametrize(("loss", "penalty"), [("nonsaturating", 0.0), ("wgan", 10.0)])
def test_no_neighbour_moves_the_answer_by_more_than_declared(loss, penalty, clipping):
    net, (x, y), fakes = critic(loss), images(6), images(5, seed=1)[0]
    query = asked(loss, penalty=penalty, clipping=clipping).queries(net)[0]
    whole = query.total(x, y, fakes, KEY)
    strangers = {"zero": 0 * x[:1], "white": 0 * x[:1] + 1, "nan": x[:1] * torch.nan, "huge": x[:1] * 1e30}
    for i in (0, 3, 5):
        kept = torch.arange(6) != i
        without = query.total(x[kept], y[kept], fakes, KEY)
        assert torch.linalg.vector_norm(whole - without) <= query.bound.sensitivity(Relation.ADD_REMOVE)
        for stranger in strangers.values():
            other, labels = x.clone(), y.clone()
            other[i], labels[i] = stranger[0], (y[i] + 1) % 3
            away = torch.linalg.vector_norm(whole - query.total(other, labels, fakes, KEY))
            assert away <= query.bound.sensitivity(Relation.REPLACE_ONE)


@pytest.mark.parametrize("clipping", CLIPPINGS)
def test_a_moving_threshold_leaves_the_bound_alone(clipping):
    made = asked(clipping=clipping)
    bounds = {bound_for(made.clip_at(t), 6) for t in (0.125, 0.5, 3.0)}
    assert len(bounds) == 1
    assert made.unit(0.25) == (0.25 if clipping == "flat" else 1.0)


class Silent:
    """In the place of a barrier: zeros, and what was asked."""

    spec = SPEC

    def __init__(self):
        self.asked = []

    def release(self, name, query, *public):
        self.asked.append((query.clip, [tuple(p.shape) for p in public]))
        return torch.zeros(query.shape, dtype=torch.float64)


def tiny(**more):
    settings = {"steps": 4, "batch": 6, "fakes": 5, "clip": 0.5, "critic_steps": 2, "critic_width": 4, "latent": 4}
    return DPGAN(**settings | {"width": 8, "generator": "conv", **more})


def test_the_critic_is_moved_by_the_release_and_by_public_fakes_alone():
    barriers = Silent(), Silent()
    one, two = (tiny(clip_decay=0.5).learn(barrier, Run(device="cpu")) for barrier in barriers)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    asked = barriers[0].asked
    assert [shapes for _, shapes in asked] == [[(5, 1, 8, 8), ()]] * 4
    assert [clip.threshold for clip, _ in asked] == pytest.approx([0.5 * 0.5 ** (t / 4) for t in range(4)])


def test_public_images_start_the_game_and_set_the_threshold():
    pixels, labels = arrays(seed=1)
    public = PublicImages(Images(pixels[:, None], labels, SPEC.classes), "made up")
    barrier = Silent()
    tiny(loss="wgan", penalty=1.0, public_steps=2, clip_public=True).learn(barrier, Run(device="cpu"), public)
    thresholds = [clip.threshold for clip, _ in barrier.asked]
    assert len(set(thresholds)) == 4 and all(1e-3 <= t <= 1e3 for t in thresholds)


def test_a_public_game_moves_the_critic_and_leaves_the_turns_alone():
    torch.manual_seed(1)
    net = ConvGenerator((1, 8, 8), SPEC.classes, 4, 8)
    players = Players(net, critic("wgan"), Turns(2), learning_rate=0.01, critic_learning_rate=0.01)
    known = (images(20)[0].mul(255).byte(), torch.full((20,), -1))  # classes of others: labels by chance
    public_game(players, asked("wgan", penalty=1.0), known, Run(device="cpu"), steps=1, fakes=5)
    assert players.turns.since == 0 and any(
        not torch.equal(a, b) for a, b in zip(players.critic.parameters(), critic("wgan").parameters(), strict=True)
    )


def test_a_norm_from_public_images_stays_between_limits():
    class Odd:
        def __init__(self, norms):
            self.found = torch.tensor(norms)

        def norms(self, *given):
            return self.found

    for norms, expected in (([2.0, 4.0], 3.0), ([0.0], 1e-3), ([1e9], 1e3), ([math.nan], 1e3)):
        assert typical_norm(Odd(norms), images(1), ()) == expected
