"""Votes for the nearest candidate: exact, and each record's own."""

from __future__ import annotations

import torch

from sfumato.methods.sets.nearest import Nearest
from sfumato.privacy.bounds import IntegerBound


def some(n, seed=0):
    return torch.randint(0, 256, (n, 1, 6, 6), generator=torch.Generator().manual_seed(seed)).float() / 255


def test_a_vote_goes_to_the_nearest_of_its_class():
    images, labels, candidates = some(20), torch.arange(20) % 3, some(15, 1).view(3, 5, 1, 6, 6)
    votes = Nearest(1)(images, labels, candidates)
    for image, label, vote in zip(images, labels, votes, strict=True):
        apart = (candidates[label] - image).square().sum((1, 2, 3))
        assert vote.tolist() == torch.nn.functional.one_hot(apart.argmin(), 5).tolist()


def test_pooled_distances_ignore_what_is_finer():
    board = (torch.arange(36).view(6, 6) // 6 + torch.arange(36).view(6, 6)) % 2
    flat = torch.full((1, 1, 1, 6, 6), 127 / 255)
    other = torch.zeros(1, 1, 1, 6, 6)
    candidates = torch.cat([other, flat], 1)
    assert Nearest(2)(board.view(1, 1, 6, 6).float(), torch.tensor([0]), candidates).tolist() == [[0, 1]]


def test_ties_and_batches_do_not_matter():
    images, labels = some(64), torch.zeros(64, dtype=torch.long)
    candidates = torch.cat([some(4, 2), some(4, 2)]).view(1, 8, 1, 6, 6)  # each of them twice
    together = Nearest(2)(images, labels, candidates)
    alone = torch.cat([Nearest(2)(images[i : i + 1], labels[:1], candidates) for i in range(64)])
    wide = Nearest(2)(images.double(), labels, candidates)
    assert torch.equal(together, alone) and torch.equal(together, wide)
    assert together[:, 4:].sum() == 0


def test_any_record_has_one_vote():
    odd = torch.stack([torch.full((1, 6, 6), v) for v in (torch.nan, torch.inf, -torch.inf, 1e30, 0.0)])
    votes = Nearest(2)(odd, torch.arange(5) % 3, some(15).view(3, 5, 1, 6, 6))
    assert (votes.sum(1) == 1).all() and torch.equal(IntegerBound(1, low=0).project(votes), votes)
