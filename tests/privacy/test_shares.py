"""Shares of noise: their variances reach sigma, and their sum is a discrete Gaussian up to the stated factor."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.privacy.bounds import Bound, IntegerBound
from sfumato.privacy.mechanisms import DiscreteLaplace
from sfumato.privacy.noise import Noise, _chacha20
from sfumato.privacy.plan import Crossing, crossing
from sfumato.privacy.shares import (
    EXCESS,
    LEAST,
    NUMBERS,
    in_steps,
    log_excess,
    log_tau,
    most_numbers,
    share,
    spread_of,
    unfit,
)


class Fixed(Noise):
    """A stream that is the same each time."""

    def _rekey(self):
        super()._rekey()
        self._stream = _chacha20(bytes(32))


@pytest.mark.parametrize("bound", [IntegerBound(3), Bound(0.37), Bound(5.0)])
@pytest.mark.parametrize("shares", [1, 2, 3, 7, 100])
def test_the_variances_of_the_shares_reach_that_of_the_crossing_exactly(bound, shares):
    asked = crossing(bound, 41.3)
    whole = Fraction(asked.mechanism.std(bound)) / Fraction(bound.grid)
    spread = spread_of(asked, shares)
    assert whole**2 <= shares * Fraction(spread) ** 2 < whole**2 * (1 + Fraction(1, 2**50))


def pmf(spread, far):
    """A discrete Gaussian, to the last digit of a float where it matters."""
    at = np.arange(-far, far + 1)
    weights = np.exp(-(at**2) / (2 * spread**2))
    return weights / weights.sum()


@pytest.mark.parametrize("spread", [0.5, 0.7])
@pytest.mark.parametrize("shares", [2, 3, 5])
def test_a_sum_of_shares_is_a_discrete_gaussian_up_to_tau(spread, shares):
    """Where tau is large enough to be seen: the probabilities of the sum by convolution, against those of one draw."""
    far = 40
    total = pmf(spread, far)
    for _ in range(shares - 1):
        total = np.convolve(total, pmf(spread, far))
    seen = slice(far * shares - 4, far * shares + 5)
    one = pmf(spread * math.sqrt(shares), far * shares)
    apart = np.abs(np.log(total[seen] / one[seen])).max()
    assert 1e-6 < apart < math.exp(log_tau(spread, shares))


def test_what_shares_cost_is_limited_by_how_many_numbers_may_be_released():
    assert log_tau(LEAST, 1) == -math.inf
    least = crossing(IntegerBound(1), LEAST * math.sqrt(10))
    fine = crossing(Bound(1.0), 0.01)
    assert most_numbers(fine, 10) == NUMBERS and 1e4 < most_numbers(least, 10) < 1e5
    assert log_excess([least, fine], 10) == pytest.approx(math.log(EXCESS), abs=1e-3)
    assert log_excess([crossing(IntegerBound(1), 4 * math.sqrt(10))], 10) < math.log(1e-50)
    assert log_excess([least, fine], 1) == -math.inf


def test_a_share_that_is_too_small_is_refused_with_the_remedy():
    assert unfit(crossing(IntegerBound(1), 4.0), 4) is None
    assert "2 are needed; lower epsilon" in unfit(crossing(IntegerBound(1), 3.9), 4)
    laplace = Crossing(IntegerBound(1), DiscreteLaplace(100.0))
    assert "trust: trusted" in unfit(laplace, 2)


def test_shares_add_up_to_noise_of_the_stated_spread():
    """With a fixed stream: 3 of 3 shares, in steps of a grid."""
    asked = crossing(Bound(1.0), 2.0)
    noise = Fixed()
    total = sum(share((40_000,), asked, 3, noise) for _ in range(3))
    assert total.std() * asked.bound.grid == pytest.approx(2.0, rel=0.01)


def test_a_sum_on_the_grid_is_whole_in_steps():
    import torch

    asked = crossing(Bound(1.0), 2.0)
    steps = torch.tensor([3.0, -7.0, 2.0**40])
    assert in_steps(steps * asked.bound.grid, asked).tolist() == [3, -7, 2**40]
