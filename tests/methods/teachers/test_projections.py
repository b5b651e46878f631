"""Votes on projected gradients: against a computation by hand, and against teachers that say anything."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato import Relation
from sfumato.methods.teachers.projections import Binned, clipped_length, unit_length


def test_votes_are_the_bins_of_the_projection():
    votes, matrix = Binned(2, 5, 1.0), torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    directions = torch.tensor([[[3.0, 4.0]], [[-30.0, 0.0]]])  # lengths 1: (0.6, 0.8), (-1, 0); projected (0.6, 1.6)
    assert votes.chosen(directions, matrix).tolist() == [[[4, 4]], [[0, 2]]]
    assert votes.encode(directions, matrix).sum(0).tolist() == [[[1, 0, 0, 0, 1], [0, 0, 1, 0, 1]]]
    assert votes.agree(directions, matrix, torch.tensor([[4, 2]])).tolist() == [[[1, 0]], [[0, 1]]]
    back = votes.decode(torch.tensor([[4, 2]]), torch.tensor([[True, True]]), matrix)
    assert torch.allclose(back, torch.tensor([[0.8 / 2, 0.0]]))
    withheld = votes.decode(torch.tensor([[4, 4]]), torch.tensor([[False, True]]), matrix)
    assert torch.allclose(withheld, torch.tensor([[0.0, 2 * 0.8 / 2]]))
    counts = torch.tensor([[[0.0, 0, 0, 1, 1], [2.0, 0, 0, 0, 0]]])
    assert torch.allclose(votes.mean(counts, matrix), torch.tensor([[1.2 / 2, -2 * 1.6 / 2]]))


def test_over_many_matrices_a_direction_comes_back():
    votes, random = Binned(50, 101, 6.0), torch.Generator().manual_seed(0)
    truth, found = unit_length(torch.randn(1, 1, 30, generator=random)), torch.zeros(1, 30)
    for _ in range(40):
        matrix = votes.matrix(30, random)
        named = votes.chosen(truth, matrix)[0]
        found += votes.decode(named, torch.ones_like(named, dtype=torch.bool), matrix) / 40
    assert torch.nn.functional.cosine_similarity(found, truth[0]) > 0.98


def test_without_unit_length_bins_are_those_of_the_gradient_itself():
    votes, matrix = Binned(1, 4, 1e-4, unit=False), torch.tensor([[1.0], [0.0]])
    rows = torch.tensor([[[-9e-5, 7.0], [2e-5, 0.0], [6e-5, 0.0], [9.0, 0.0], [0.0, 0.0]]])
    assert votes.chosen(rows, matrix).flatten().tolist() == [0, 2, 3, 3, -1]
    assert torch.allclose(
        votes.decode(torch.tensor([[3]]), torch.tensor([[True]]), matrix), torch.tensor([[7.5e-5, 0]])
    )


@pytest.mark.parametrize("unit", [True, False])
def test_no_teacher_moves_the_counts_by_more_than_is_charged(unit):
    votes, random = Binned(6, 4, 1.0, unit), torch.Generator().manual_seed(1)
    matrix = votes.matrix(9, random)
    wild = torch.cat(
        [
            torch.randn(40, 1, 9, generator=random),
            torch.zeros(1, 1, 9),
            torch.full((1, 1, 9), 1e38),
            torch.full((1, 1, 9), float("nan")),
            torch.full((1, 1, 9), -1e-38),
        ]
    )
    wild = torch.cat([wild, -wild])
    rows = votes.encode(wild, matrix).flatten(0, 1)
    assert torch.equal(votes.histogram.project(rows), rows)  # nothing is void
    gaps = torch.cdist(rows.flatten(1).double(), rows.flatten(1).double())
    assert gaps.max() <= votes.histogram.sensitivity(Relation.REPLACE_ONE) == math.sqrt(12)
    assert gaps.max() == pytest.approx(math.sqrt(12))
    named = votes.chosen(wild[:1], matrix)[0]
    said = votes.confirmation.project(votes.agree(wild, matrix, named).flatten(0, 1)).double()
    assert torch.cdist(said, said).max() <= votes.confirmation.sensitivity(Relation.REPLACE_ONE) == math.sqrt(6)
    assert rows[40].sum() == rows[42].sum() == 0  # no direction, no vote


def test_clipping_leaves_short_gradients_alone():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [float("inf"), 1.0]])
    assert torch.allclose(clipped_length(rows, 1.0), torch.tensor([[0.6, 0.8], [0.3, 0.4], [0, 0], [0, 1.0]]))


def test_lengths_survive_the_smallest_and_the_largest_numbers():
    rows = torch.tensor([[1e-38, 0.0], [3e38, -3e38], [float("nan"), 2.0], [0.0, 0.0]])
    assert torch.linalg.vector_norm(unit_length(rows), dim=1).tolist() == pytest.approx([1, 1, 1, 0])


@pytest.mark.parametrize("bad", [(0, 10, 1.0), (10, 1, 1.0), (10, 10, 0.0), (10, 10, float("nan"))])
def test_bins_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        Binned(*bad)
