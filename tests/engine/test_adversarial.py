"""Whose turn it is: a fixed number of critic steps, or one that grows by a public rule."""

from __future__ import annotations

import copy

import pytest
import torch

from sfumato import Run
from sfumato.engine.adversarial import LADDER, Players, Turns, public_batch
from sfumato.engine.gan_losses import OBJECTIVES
from sfumato.networks import ConvGenerator
from sfumato.networks.critic import ConvCritic


def test_the_generator_moves_after_so_many_steps():
    turns = Turns(3)
    found = []
    for _ in range(7):
        found.append(turns.due())
        if found[-1]:
            turns.moved(float("nan"))
    assert found == [False, False, True, False, False, True, False] and turns.count == 3


def test_the_count_grows_when_the_critic_falls_behind():
    turns = Turns(1, least=0.7, grace=5, decay=0.5)
    seen = []
    for _ in range(14):
        turns.moved(0.5)
        seen.append(turns.count)
    assert seen == [1] * 4 + [2] * 5 + [5] * 5
    for _ in range(30):
        turns.moved(0.9)  # it has caught up: two more rises at the very most, while the average follows
    assert turns.count <= 10
    last = Turns(LADDER[-1], least=0.7, grace=1)
    last.moved(0.1)
    assert last.count == LADDER[-1]


def test_turns_come_back_from_a_checkpoint():
    one, two = Turns(2, least=0.5), Turns(1, least=0.5)
    one.due()
    two.load_state_dict(one.state_dict())
    assert (two.count, two.since) == (2, 1) and two.due()
    one.moved(0.75)
    two.load_state_dict(one.state_dict())
    assert two.accuracy == 0.75 and two.state_dict() == one.state_dict()


def players(least=0.0, **more):
    torch.manual_seed(0)
    net, critic = ConvGenerator((1, 8, 8), ("a", "b"), 4, 8), ConvCritic((1, 8, 8), 2, 8)
    return Players(net, critic, Turns(1, least), learning_rate=0.01, critic_learning_rate=0.01, **more)


def test_a_move_changes_the_generator_alone():
    game, run = players(least=0.5), Run(device="cpu")
    before = [p.clone() for p in (*game.net.parameters(), *game.critic.parameters())]
    game.generator_step(OBJECTIVES["nonsaturating"], 8, run, 0)
    assert all(p.grad is None for p in game.critic.parameters())
    after = [*game.net.parameters(), *game.critic.parameters()]
    split = len(list(game.net.parameters()))
    assert any(not torch.equal(a, b) for a, b in zip(before[:split], after[:split], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before[split:], after[split:], strict=True))
    assert 0 <= game.turns.accuracy <= 1


def test_a_move_raises_the_scores_of_fakes():
    game, run = players(), Run(device="cpu")
    z, labels = torch.randn(32, 4), torch.arange(32) % 2
    score = lambda: float(game.critic(game.net(z, labels), labels).mean().detach())  # noqa: E731
    before = score()
    for step in range(5):
        game.generator_step(OBJECTIVES["wgan"], 16, run, step)
    assert score() > before


def test_weights_of_the_critic_can_be_kept_small():
    game = players()
    count = sum(p.numel() for p in game.critic.parameters())
    game.critic_step(torch.randn(count), weight_clip=0.02)
    assert max(float(p.detach().abs().max()) for p in game.critic.parameters()) <= 0.02


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_a_game_comes_back_from_its_state(ema_decay):
    one, two, run = players(ema_decay=ema_decay), players(ema_decay=ema_decay), Run(device="cpu")
    for step in range(2):
        one.generator_step(OBJECTIVES["nonsaturating"], 8, run, step)
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    for game in (one, two):
        game.generator_step(OBJECTIVES["nonsaturating"], 8, run, 2)
    made = [game.finished(torch.Generator()).sample(4, seed=1).pixels for game in (one, two)]
    assert (made[0] == made[1]).all()


def test_public_images_without_these_classes_get_labels_by_chance():
    pixels = torch.arange(20, dtype=torch.uint8).view(20, 1, 1, 1).expand(20, 1, 2, 2)
    labels = torch.where(torch.arange(20) % 2 == 0, 2, -1)
    images, found = public_batch((pixels, labels), 400, 3, torch.Generator().manual_seed(0), "cpu")
    number = images[:, 0, 0, 0].mul(255).round().long()
    assert (found[number % 2 == 0] == 2).all() and set(found[number % 2 == 1].tolist()) == {0, 1, 2}
