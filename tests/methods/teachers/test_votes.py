"""Sparse votes: whatever a teacher wants, its vote obeys the bound, is its own, and is right on average."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sfumato.accounting.budget import Relation
from sfumato.methods.teachers.quantise import Lattice, Levels
from sfumato.methods.teachers.sketch import Sketch
from sfumato.methods.teachers.votes import TopKSigns, largest, unit

D = 37
VOTES = [
    TopKSigns(5),
    TopKSigns(5, clip=1e-5),
    TopKSigns(5, stochastic=False),
    TopKSigns(9, sparse=False),
    TopKSigns(1),
    TopKSigns(100),
]
WHOLE = [*VOTES, Levels(3), Levels(4), Levels(255, clip=1.0), Levels(5, rotate=True), Lattice(1.0, 0.1)]
ALL = [*WHOLE, Sketch(TopKSigns(5), 3, 20), Sketch(TopKSigns(5, sparse=False), 1, 8, keep=4)]

wild = hnp.arrays(np.float32, (2, 3, D), elements=st.floats(allow_nan=True, allow_infinity=True, width=32))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def adversarial(d: int = D) -> torch.Tensor:
    """One image a row, (rows, 1, d): everything that a broken teacher could say."""
    one_hot = torch.zeros(d)
    one_hot[3] = -2.0
    mixed = torch.randn(d, generator=seeded(1))
    mixed[::3], mixed[1::5], mixed[2] = math.nan, math.inf, -math.inf
    constants = (0.0, math.nan, math.inf, -math.inf, 1e30, -3.4e38, 1e-45, 1e-30, 1.0)
    signs = (-1.0) ** torch.arange(d)
    rows = [*(torch.full((d,), c) for c in constants), one_hot, mixed, signs, 3.4e38 * signs, 1e-45 * signs]
    return torch.stack(rows).unsqueeze(1)


def projected(compression, rows, d=D):
    """Each teacher's word on each image, brought within the bound as the barrier does it."""
    return compression.bound(d).project(rows.flatten(0, 1)).view(rows.shape)


@pytest.mark.parametrize("compression", WHOLE, ids=repr)
@given(directions=wild)
@settings(max_examples=40, deadline=None)
def test_votes_obey_their_bound_before_projection(compression, directions):
    for block in (torch.from_numpy(directions), adversarial()):
        rows = compression.encode(block, seeded())
        assert not rows.is_floating_point() and rows.shape == (*block.shape[:2], *compression.shape(D))
        bound = compression.bound(D)
        assert torch.linalg.vector_norm(rows.double(), dim=-1).max() <= bound.norm
        assert (projected(compression, rows) - rows).abs().max() <= (0 if bound.integer else bound.grid)


@pytest.mark.parametrize("compression", ALL, ids=repr)
def test_a_row_depends_on_its_own_teacher_and_image_alone(compression):
    calm = torch.randn(4, 3, D, generator=seeded())
    before = compression.encode(calm, seeded(7))
    for wild_row in adversarial()[:, 0]:
        other = calm.clone()
        other[1, 2] = wild_row
        after = compression.encode(other, seeded(7))
        after[1, 2] = before[1, 2]
        assert torch.equal(before, after)


@pytest.mark.parametrize("compression", ALL, ids=repr)
def test_random_numbers_taken_do_not_depend_on_the_directions(compression):
    states = []
    for block in (torch.zeros(14, 1, D), adversarial()):
        random = seeded()
        compression.encode(block, random)
        states.append(random.get_state())
    assert torch.equal(*states)


@pytest.mark.parametrize("compression", ALL, ids=repr)
def test_shapes_and_no_teacher_at_all(compression):
    assert compression.encode(torch.zeros(0, 3, D), seeded()).shape == (0, 3, *compression.shape(D))
    noisy = torch.randn(3, *compression.shape(D), dtype=torch.float64)
    decoded = compression.decode(noisy, D, 10)
    assert decoded.shape == (3, D) and decoded.dtype == torch.float64 and torch.isfinite(decoded).all()


@pytest.mark.parametrize("vote", VOTES, ids=repr)
def test_a_teacher_with_nothing_to_say_votes_zero(vote):
    silent = torch.tensor([0.0, math.nan, math.inf, -math.inf]).view(4, 1, 1).expand(4, 1, D)
    assert not vote.encode(silent, seeded()).any()


def test_ties_do_not_raise_the_number_of_votes_and_zeros_do_not_count():
    tied = torch.ones(2, 2, D)
    assert (TopKSigns(5).encode(tied, seeded()) != 0).sum(-1).eq(5).all()
    few = torch.zeros(1, 1, D)
    few[..., :3] = torch.tensor([1e-45, -2.0, 1e30])
    assert TopKSigns(5, stochastic=False).encode(few, seeded())[0, 0].nonzero().flatten().tolist() == [0, 1, 2]
    assert TopKSigns(5).encode(few, seeded())[0, 0].nonzero().flatten().tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_the_largest_pixels_vote_by_their_sign(dtype):
    directions = torch.randn(6, 4, D, generator=seeded()).to(dtype)
    votes = TopKSigns(5, stochastic=False).encode(directions, seeded())
    kept = votes != 0
    for row, mask in zip(directions.flatten(0, 1), kept.flatten(0, 1), strict=True):
        assert row[mask].abs().min() >= row[~mask].abs().max() and mask.sum() == 5
    assert torch.equal(votes[kept], directions[kept].sign().to(torch.int8))


@pytest.mark.parametrize("clip", [0.0, 0.8])
@pytest.mark.parametrize("sparse", [True, False])
def test_votes_are_unbiased(clip, sparse):
    draws, direction = 40_000, torch.randn(D, generator=seeded(2))
    vote = TopKSigns(8, clip=clip, sparse=sparse)
    mean = vote.encode(direction.expand(draws, 1, D), seeded()).double().mean((0, 1))
    wanted = unit(direction.clamp(-clip, clip) if clip else direction).double()
    if sparse:
        mask = torch.zeros(D).scatter(0, largest(direction.abs(), 8), 1.0)
        wanted, certain = wanted * mask, mask == 0
        assert not mean[certain].any()
    # b = min(max|g|, c): what is clipped votes by its sign for certain.
    assert torch.equal(mean[wanted.abs() == 1], wanted[wanted.abs() == 1])
    assert (mean - wanted).abs().max() < 5 / math.sqrt(draws)


def test_the_sensitivity_is_that_of_lemma_1():
    assert TopKSigns(200).bound(784).sensitivity(Relation.REPLACE_ONE) == 2 * math.sqrt(200)
    assert TopKSigns(200, sparse=False).bound(784).sensitivity(Relation.REPLACE_ONE) == 56
    assert TopKSigns(1000).bound(784) == TopKSigns(784).bound(784)


@pytest.mark.parametrize(
    "make", [lambda: TopKSigns(0), lambda: TopKSigns(2, clip=-1.0), lambda: TopKSigns(2, clip=math.nan)]
)
def test_impossible_settings_are_refused(make):
    with pytest.raises(ValueError, match="Expected"):
        make()


@pytest.mark.gpu
@pytest.mark.parametrize("compression", ALL, ids=repr)
def test_the_same_bounds_hold_on_a_gpu(compression):
    block = torch.cat([adversarial(), torch.randn(50, 1, D)]).cuda()
    rows = compression.encode(block, torch.Generator("cuda").manual_seed(0))
    gap = (projected(compression, rows) - rows).abs().max()
    if compression in WHOLE:
        assert gap <= (0 if compression.bound(D).integer else compression.bound(D).grid)
    assert torch.isfinite(compression.decode(rows.double().sum(0), D, len(block))).all()
