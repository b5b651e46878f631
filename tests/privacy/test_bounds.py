"""Bounds: whatever a contribution returns, one unit moves the sum by at most the declared sensitivity."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sfumato.accounting.budget import Relation
from sfumato.privacy.bounds import Bound, BoundedSum, IntegerBound

BOUNDS = [
    Bound(1.0),
    Bound(0.37),
    Bound(250.0),
    IntegerBound(1, low=0),
    IntegerBound(3),
    IntegerBound(2, low=-1, high=2),
    IntegerBound(12, low=-3, high=4),
    IntegerBound(12, low=-3, high=4, coordinates=12),
    IntegerBound(8, low=0, coordinates=12),
    IntegerBound(8, coordinates=12),
]

wild = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=12),
    elements=st.floats(allow_nan=True, allow_infinity=True, width=64),
)


@pytest.mark.parametrize("bound", BOUNDS)
@given(rows=wild)
@settings(max_examples=80, deadline=None)
def test_no_neighbour_exceeds_the_sensitivity(bound, rows):
    terms = bound.project(torch.from_numpy(rows))
    assert torch.isfinite(terms).all()
    total = terms.double().sum(0)
    for i in range(len(terms)):
        removed = total - terms[i]
        assert torch.linalg.vector_norm(total - removed) <= bound.sensitivity(Relation.ADD_REMOVE)
        for j in range(len(terms)):
            replaced = removed + terms[j]
            assert torch.linalg.vector_norm(total - replaced) <= bound.sensitivity(Relation.REPLACE_ONE)


def test_the_replace_bound_is_attained_by_opposite_terms():
    bound = Bound(1.0)
    terms = bound.project(torch.tensor([[5.0, 0.0], [-5.0, 0.0]]))
    gap = float(torch.linalg.vector_norm(terms[0] - terms[1]))
    assert gap == pytest.approx(2.0)
    assert gap <= bound.sensitivity(Relation.REPLACE_ONE)


def test_terms_inside_the_ball_are_left_alone_up_to_the_grid():
    bound, rows = Bound(1.0), torch.full((1, 4), 0.25, dtype=torch.float64)
    assert torch.equal(bound.project(rows), rows)


def test_sums_are_exact_in_any_order():
    bound = Bound(1.0)
    terms = bound.project(torch.randn(3000, 40))
    shuffled = terms[torch.randperm(3000)]
    parts = torch.stack([chunk.sum(0) for chunk in shuffled.split(7)]).sum(0)
    assert torch.equal(terms.sum(0), parts)


def test_a_record_of_nan_is_a_record_of_zeros():
    out = Bound(1.0).project(torch.tensor([[float("nan"), float("inf"), -float("inf")]]))
    assert torch.equal(out, torch.zeros(1, 3, dtype=torch.float64))


def test_a_person_has_one_vote():
    out = IntegerBound(1, low=0).project(torch.tensor([[2.0, 3.0], [1.0, 0.0], [0.0, 0.0]]))
    assert out.tolist() == [[0, 1], [1, 0], [0, 0]]


def test_votes_turned_over_attain_the_sensitivity_of_a_ballot():
    ballot = IntegerBound(4)
    rows = torch.tensor([[1, -1, 1, 1, 0, 0], [-1, 1, -1, -1, 0, 0]], dtype=torch.int8)
    assert torch.equal(ballot.project(rows), rows)
    gap = float(torch.linalg.vector_norm((rows[0] - rows[1]).double()))
    assert gap == ballot.sensitivity(Relation.REPLACE_ONE) == 4.0
    assert ballot.sensitivity(Relation.ADD_REMOVE) == 2.0


@pytest.mark.parametrize("relation", list(Relation))
def test_a_vote_on_one_question_cannot_move_elsewhere(relation):
    yes_no = IntegerBound(1, low=0, coordinates=1)
    assert yes_no.sensitivity(relation) == 1.0 and yes_no.shifts(relation) == ((1, 1),)
    assert IntegerBound(1, low=0).sensitivity(Relation.REPLACE_ONE) == pytest.approx(2**0.5)
    assert yes_no.project(torch.tensor([[3.0], [0.4], [float("nan")], [-2.0]])).tolist() == [[1], [0], [0], [0]]
    with pytest.raises(ValueError, match="Expected ballots of 1 numbers"):
        yes_no.project(torch.tensor([[1, 0]]))


def test_as_many_questions_as_votes_change_each_by_one():
    ten = IntegerBound(10, low=0, coordinates=10)
    assert ten.sensitivity(Relation.REPLACE_ONE) == ten.sensitivity(Relation.ADD_REMOVE) == 10**0.5
    gap = (ten.project(torch.ones(1, 10)) - ten.project(torch.zeros(1, 10))).double()
    assert float(torch.linalg.vector_norm(gap)) == ten.sensitivity(Relation.REPLACE_ONE)
    assert IntegerBound(10, low=0, coordinates=20).shifts(Relation.REPLACE_ONE) == ((20, 1),)


def test_votes_beyond_the_allowed_number_are_void():
    assert IntegerBound(2).project(torch.tensor([[0.0, 9.0, -7.0, 1.0]])).tolist() == [[0, 1, -1, 0]]


@pytest.mark.parametrize(
    "bad",
    [
        {"most": 0},
        {"most": 1, "low": 1},
        {"most": 1, "low": 0, "high": 0},
        {"most": 1, "high": 999},
        {"most": 3, "coordinates": 2},
    ],
)
def test_a_ballot_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        IntegerBound(**bad)


@pytest.mark.parametrize("bad", [{"norm": 0}, {"norm": -1}, {"norm": float("inf")}])
def test_a_bound_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        Bound(**bad)


def test_contributions_of_a_wrong_shape_are_refused():
    query = BoundedSum(lambda images, labels: images.flatten(1).sum(0), Bound(1.0), (4,))
    with pytest.raises(ValueError, match="Expected one row"):
        query.rows(torch.zeros(3, 1, 2, 2), torch.zeros(3, dtype=torch.long))
