"""Dense votes in whole numbers: levels and the lattice."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato.accounting.budget import Relation
from sfumato.methods.teachers.quantise import Lattice, Levels, in_ball, rounded_norm
from sfumato.methods.teachers.votes import unit

D = 37


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("levels", [3, 4, 5, 8])
def test_two_dense_votes_differ_by_all_levels_everywhere(levels):
    """privacy.md 2.2: (L - 1) sqrt(d), attained, and more than the paper prints."""
    vote, d = Levels(levels), 784
    ends = torch.stack([torch.ones(1, d), -torch.ones(1, d)])
    high, low = vote.encode(ends, seeded())[:, 0].double()
    sensitivity = vote.bound(d).sensitivity(Relation.REPLACE_ONE)
    assert torch.linalg.vector_norm(high - low) == sensitivity == (levels - 1) * math.sqrt(d)
    assert sensitivity > vote.printed_sensitivity(200)


@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize("levels", [2, 3, 4, 5, 16])
def test_levels_are_unbiased(levels, rotate):
    vote, voters, direction = Levels(levels, rotate=rotate), 30_000, torch.randn(D, generator=seeded(1))
    total = vote.encode(direction.expand(voters, 1, D), seeded()).double().sum(0)
    mean = vote.decode(total, D, voters)[0] / voters
    if rotate:  # the divisor is that of the rotated row, one number for all pixels
        direction, mean = unit(direction), unit(mean)
    assert (mean - unit(direction)).abs().max() < 12 / math.sqrt(voters)


def test_no_draw_goes_beyond_the_highest_level():
    """254 and a number just below 1 add up to 255 in float32."""
    row = Levels(255).encode(torch.ones(1, 1, 2_000_000), seeded())
    assert row.min() == row.max() == 127


def test_a_rotated_row_is_divided_by_its_own_largest_entry():
    one_pixel = torch.zeros(1, 1, 64)
    one_pixel[..., 5] = 1e-3
    assert Levels(5, rotate=True).encode(one_pixel, seeded()).abs().eq(2).all()


def test_even_levels_need_the_number_of_voters():
    with pytest.raises(ValueError, match="Expected voters"):
        Levels(4).decode(torch.zeros(1, D), D)
    assert not Levels(5).decode(torch.zeros(1, D), D).any()


def test_an_odd_number_of_levels_keeps_zero_at_zero():
    assert not Levels(5).encode(torch.zeros(3, 2, D), seeded()).any()
    assert set(Levels(4).encode(torch.zeros(3, 2, D), seeded()).unique().tolist()) == {0, 1}


@pytest.mark.parametrize("length", [0.01, 1.0, 50.0])
def test_the_lattice_recovers_the_mean_of_cut_directions(length):
    vote, voters = Lattice(norm=1.0, spacing=0.02), 4000
    direction = length * unit(torch.randn(D, generator=seeded(1)))
    total = vote.encode(direction.expand(voters, 1, D), seeded()).double().sum(0)
    wanted = direction / max(1.0, float(direction.norm()))
    assert (vote.decode(total, D)[0] / voters - wanted).abs().max() < 0.02 * 5 / math.sqrt(voters)


def test_a_rounding_that_is_too_long_is_drawn_again_and_in_the_end_cut():
    """Many coordinates half way between two numbers, where nearly all luck is forbidden."""
    d = 64
    rows = torch.full((2000, 1, d), 0.5)
    tight = Lattice(norm=4.0, spacing=1.0, slack=0.999, tries=2)
    norm, cap = torch.linalg.vector_norm(tight.encode(rows, seeded()).double(), dim=-1), tight.bound(d).norm
    loose = torch.linalg.vector_norm(Lattice(4.0, 1.0, slack=1e-9).encode(rows, seeded()).double(), dim=-1)
    assert norm.max() <= cap < loose.max() and norm.max() > 0


def test_first_rounding_is_short_enough_as_often_as_promised():
    d, slack = 256, math.exp(-0.5)
    draw = torch.rand(20_000, d, generator=seeded())
    for length in (1.0, 8.0, 100.0):
        row = torch.randn(d, generator=seeded(3))
        row *= length / row.norm()
        rounded = (row + draw).floor().norm(dim=1)
        assert (rounded > rounded_norm(length, d, slack)).double().mean() <= slack


def test_a_rounded_norm_is_never_above_what_rounding_can_do():
    assert rounded_norm(0.5, 4, 1e-300) == 0.5 + 2
    assert rounded_norm(10.0, 64, 0.5) ** 2 == pytest.approx(100 + 16 + math.sqrt(2 * math.log(2)) * 14)


@pytest.mark.parametrize("scale", [0.0, 1e-45, 1e-3, 1.0, 1e30, 3e38])
def test_huge_and_tiny_rows_are_cut_to_the_ball(scale):
    row = in_ball(scale * torch.tensor([[1.0, -1.0, 0.5, 0.0]]), 10.0, 1e-3)
    assert torch.isfinite(row).all() and float(row.norm()) <= 10 * (1 + 1e-6)
    if scale >= 1e-3:
        assert float(row.norm()) == pytest.approx(min(10.0, 1.5 * scale / 1e-3), rel=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Levels(1),
        lambda: Levels(256),
        lambda: Levels(3, clip=-1.0),
        lambda: Lattice(0.0, 0.1),
        lambda: Lattice(1.0, 0.0),
        lambda: Lattice(1e9, 1e-3),
        lambda: Lattice(1.0, 0.1, slack=1.0),
        lambda: Lattice(1.0, 0.1, tries=0),
    ],
)
def test_impossible_settings_are_refused(make):
    with pytest.raises(ValueError, match="Expected"):
        make()
