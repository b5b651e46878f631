"""Count sketch of votes: linear, right on average, and private where algorithm 7 is not."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato.accounting.budget import Relation
from sfumato.methods.teachers.sketch import Sketch, hashes
from sfumato.methods.teachers.votes import TopKSigns

D = 200


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_sketching_is_linear():
    sketch, (a, b) = Sketch(TopKSigns(5), 3, 17), torch.randint(-4, 5, (2, 3, D), generator=seeded())
    assert torch.equal(sketch.fold(None, 2 * a - b, D), 2 * sketch.fold(None, a, D) - sketch.fold(None, b, D))


def test_the_sketch_of_a_vote_is_the_sketch_of_its_dense_row():
    sketch, directions = Sketch(TopKSigns(9), 3, 17), torch.randn(4, 2, D, generator=seeded())
    votes = sketch.votes.encode(directions, seeded(1))
    assert torch.equal(sketch.encode(directions, seeded(1)), sketch.fold(None, votes, D))


def test_it_is_the_textbook_sum():
    sketch, row = Sketch(TopKSigns(5), 3, 7), torch.randint(-3, 4, (D,), generator=seeded())
    buckets, signs = hashes(0, 3, 7, D)
    wanted = torch.zeros(3, 7)
    for r in range(3):
        for j in range(D):
            wanted[r, buckets[r, j]] += signs[r, j] * row[j]
    assert torch.equal(sketch.fold(None, row, D), wanted)


def test_estimates_are_right_on_average_over_public_seeds():
    row, seeds = torch.randint(-3, 4, (1, D), generator=seeded()), 3000
    total = torch.zeros(1, D)
    for seed in range(seeds):
        sketch = Sketch(TopKSigns(5), 3, 150, seed=seed)
        total += sketch.decode(sketch.fold(None, row, D), D)
    hashes.cache_clear()
    spread = float(row.float().norm()) / math.sqrt(150)  # of one estimate; the middle one of three has less
    assert (total / seeds - row).abs().max() < 5 * spread / math.sqrt(seeds)


def test_a_sparse_heavy_vector_is_recovered():
    directions = torch.zeros(50, 2, D)
    heavy = torch.tensor([3, 77, 150])
    directions[..., heavy] = torch.tensor([1.0, -1.0, 2.0])
    sketch = Sketch(TopKSigns(3, stochastic=False), 5, 60, keep=3)
    total = sketch.encode(directions, seeded()).double().sum(0)
    wanted = torch.zeros(2, D, dtype=torch.float64)
    wanted[:, heavy] = torch.tensor([50.0, -50.0, 50.0], dtype=torch.float64)
    assert torch.equal(sketch.decode(total, D), wanted)
    noisy = total + torch.randn(total.shape, generator=seeded(), dtype=torch.float64)
    found = sketch.decode(noisy, D)
    assert torch.equal(found != 0, wanted != 0) and (found - wanted).abs().max() < 5


def test_buckets_without_a_pixel_are_left_out():
    sketch, row = Sketch(TopKSigns(5)), torch.randint(-3, 4, (1, D), generator=seeded())
    (rows, columns), (buckets, _) = sketch.shape(D), hashes(0, 20, 10_000, D)
    assert rows == 20 and columns == buckets.max() + 1 <= D  # not 10,000
    assert [sorted(set(r)) for r in buckets.tolist()] == [list(range(max(r) + 1)) for r in buckets.tolist()]
    assert (sketch.decode(sketch.fold(None, row, D), D) - row).abs().max() == 0  # hardly two pixels in one bucket


def test_an_even_number_of_rows_has_its_median_in_between():
    sketch = Sketch(TopKSigns(5), rows=4, columns=1)
    _, signs = hashes(0, 4, 1, 1)
    tables = torch.tensor([1.0, 9.0, 3.0, 5.0]).view(1, 4, 1) * signs.view(1, 4, 1)
    assert sketch.decode(tables, 1).item() == 4.0


def test_colliding_votes_are_cut_to_the_bound():
    """All of one teacher's votes in one bucket: sqrt(rows) k, which the ball does not allow."""
    sketch = Sketch(TopKSigns(20, stochastic=False), 1, 1)
    _, signs = hashes(0, 1, 1, D)
    rows = sketch.encode(signs.float().view(1, 1, D), seeded())
    bound = sketch.bound(D)
    assert rows.abs().max() == 20 and bound.norm == math.sqrt(20)
    assert bound.project(rows.flatten(0, 1)).abs().max() == pytest.approx(bound.norm)


def test_a_sketch_is_as_long_as_its_bound_on_average():
    sketch = Sketch(TopKSigns(30), 5, 100)
    rows = sketch.encode(torch.randn(400, 1, D, generator=seeded()), seeded())
    assert rows.double().square().sum((-1, -2)).mean() == pytest.approx(sketch.bound(D).norm ** 2, rel=0.03)


def test_one_teacher_cannot_swap_what_is_released():
    """Two groups of pixels tie, half of the teachers vote for each; one teacher changes sides (privacy.md 2.3)."""
    sketch, teachers, k = Sketch(TopKSigns(10, stochastic=False), 5, 400, keep=10), 40, 10
    directions = torch.zeros(teachers, 1, D)
    directions[: teachers // 2, :, :k] = 1.0
    directions[teachers // 2 :, :, k : 2 * k] = 1.0
    sums, picked = [], []
    for mover in (slice(0, k), slice(k, 2 * k)):
        directions[0] = 0.0
        directions[0, :, mover] = 1.0
        directions[-1] = 0.0
        sums.append(sketch.bound(D).project(sketch.encode(directions, seeded()).flatten(0, 1)).sum(0))
        picked.append(sketch.decode(sums[-1].unsqueeze(0), D))
    assert torch.linalg.vector_norm(sums[0] - sums[1]) <= sketch.bound(D).sensitivity(Relation.REPLACE_ONE)
    # What algorithm 7 would add its noise to moves by as much as half of all teachers.
    assert torch.linalg.vector_norm(picked[0] - picked[1]) > 2 * math.sqrt(k) * 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sketch(TopKSigns(2), 0),
        lambda: Sketch(TopKSigns(2), 3, 0),
        lambda: Sketch(TopKSigns(2), keep=-1),
    ],
)
def test_impossible_settings_are_refused(make):
    with pytest.raises(ValueError, match="Expected"):
        make()
