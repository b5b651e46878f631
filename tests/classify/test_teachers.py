"""Teachers as one model: each learns and votes as it would alone."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from sfumato.classify.teachers import LinearTeachers

MODEL = LinearTeachers(nn.Flatten(), 16, 3, teacher_batch=5, learning_rate=0.1, momentum=0.9, decay=0.01)


def records(seed=0, parts=4):
    random = torch.Generator().manual_seed(seed)
    images = torch.rand(parts, 5, 1, 4, 4, generator=random)
    return images, torch.randint(3, (parts, 5), generator=random)


def taught(model=MODEL, parts=4, steps=3, only=None):
    block = model.make(parts if only is None else 1, torch.Generator(), "cpu")
    for step in range(steps):
        images, labels = records(step, parts)
        block.update(*((images, labels) if only is None else (images[only : only + 1], labels[only : only + 1])))
    return block


def test_a_step_is_that_of_sgd_with_momentum():
    head = nn.Linear(16, 3)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    optimiser = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    for step in range(3):
        images, labels = records(step)
        optimiser.zero_grad()
        cross_entropy(head(images[2].flatten(1)), labels[2]).backward()
        optimiser.step()
    weight = taught().weight[2]
    assert torch.allclose(weight[:-1], head.weight.T, atol=1e-6) and torch.allclose(weight[-1], head.bias, atol=1e-6)


def test_a_teacher_votes_as_it_would_alone():
    images, _ = records(9)
    seen = MODEL.seen(images.flatten(0, 1))
    votes = taught().votes(seen)
    assert votes.shape == (4, 20, 3) and torch.equal(votes.sum(2), torch.ones(4, 20, dtype=torch.int64))
    for teacher in range(4):
        assert torch.equal(votes[teacher], taught(only=teacher).votes(seen)[0])


def test_a_broken_teacher_still_casts_one_vote_and_breaks_no_other():
    block = taught()
    seen = MODEL.seen(records(9)[0].flatten(0, 1))
    usual = block.votes(seen)
    block.weight[1] = float("nan")
    votes = block.votes(seen)
    assert torch.equal(votes[[0, 2, 3]], usual[[0, 2, 3]]) and int(votes[1].sum(1).max()) == 1


def test_blocks_follow_from_public_facts():
    wide = LinearTeachers(nn.Flatten(), 4000, 10)
    assert 1 <= wide.block(10_000, "cpu") < 10_000 and wide.block(3, "cpu") == 3


def test_a_state_is_put_back():
    block, other = taught(), taught(steps=0)
    other.load_state_dict(block.state_dict())
    images, labels = records(5)
    block.update(images, labels)
    other.update(images, labels)
    assert torch.equal(block.weight, other.weight)
