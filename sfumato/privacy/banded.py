"""Noise that later uses take back in part: banded matrix factorisation (Choquette-Choo et al. 2023).

    Z        independent Gaussian noise, a row a use
    C        lower triangular, Toeplitz, with b bands:  C[t, t - k] = c_k for k < b,  c_0 = 1
    answer   a = x + C^-1 Z,  where x_t is the exact sum of use t

The sum of all answers so far has far less noise than with independent rows, since each row takes back a part of those
before it. What is charged for is y = C x + Z, of which the answers are a function. A unit takes part in uses that are b
or more apart (`samplers.CyclicPoisson`), so that its terms meet columns of C without a common row:

    block    of a unit of class j: the b uses from t = j (mod b) on; one coin, and one term u that is fixed at its start
    y        of a block is c_0 u, ..., c_{b-1} u if the coin says so, with noise Z, and what others add: those terms are
             functions of answers given before, the same with the unit and without it
    cost     of a block is that of one Poisson-subsampled Gaussian whose term has the norm |c| |u|, |c|^2 = sum of c_k^2

All of a block's noise could be handed out when it begins, so blocks compose one after the other: n uses cost
ceil(n / b) such releases. This holds for any fixed classes. It needs that a unit's class never changes and that of
others does not depend on it; see docs/privacy.md.

On a grid of step g nothing may round. Coefficients are multiples of 2^-12 and Z lies on the grid of step g 2^-12, as
C x does. The noise of use t is e_t = [z_t - sum over k >= 1 of c_k e_{t-k}], rounded to the grid of x. So

    a_t = x_t + e_t = [y_t - sum over k >= 1 of c_k a_{t-k}]

to the bit, since x_t is a whole number of steps and [v] = floor(v + 1/2) commutes with those: the answers are computed
from y alone. The noises e of the last b - 1 uses are kept behind the barrier (`cycle.Cycle`); earlier sums are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import torch
from torch import Tensor

DIGITS = 12
ONE = 2**DIGITS  # coefficients and noise are whole multiples of its inverse
MOST = 1024  # bands
LONG = 10_000  # steps, from which on the best power hardly changes


@dataclass(frozen=True)
class Banded:
    """C as (1 - x)^-power, cut off after `bands` coefficients: those fall, so that C^-1 Z stays bounded.

    The square root of all prefix sums, power 1/2, is best where a run is hardly longer than the bands; where it is much
    longer a larger power is, and the best one is within a hundredth of the best Toeplitz matrix with so many bands.

    >>> [c / ONE for c in Banded(4, 0.5).coefficients]
    [1.0, 0.5, 0.375, 0.3125]
    >>> Banded(4, 0.5).column_norm(1), Banded(2, 0.5).column_norm(100) == 1.25**0.5
    (1.0, True)
    """

    bands: int
    power: float

    def __post_init__(self) -> None:
        if not (1 <= self.bands <= MOST and 0 < self.power < 1):
            raise ValueError(f"Expected bands from 1 to {MOST} and a power between 0 and 1, found {self}.")

    @classmethod
    def best(cls, bands: int, steps: int) -> Banded:
        """With the power at which the sums of all answers so far have the least noise for what is charged."""
        return _best(bands, min(steps, LONG))

    @cached_property
    def coefficients(self) -> tuple[int, ...]:
        """c_0, ..., c_{b-1} in steps of 2^-12."""
        exact = np.cumprod([1.0, *((k - 1 + self.power) / k for k in range(1, self.bands))])
        return tuple(round(float(c) * ONE) for c in exact)

    def column_norm(self, uses: int) -> float:
        """|c|, the largest norm of a column of C, of which `uses` rows are there."""
        squared = sum(c * c for c in self.coefficients[: max(1, uses)])
        return float(math.sqrt(squared) / ONE)

    def noise(self, z: Tensor, past: Sequence[Tensor]) -> Tensor:
        """e_t in steps of the grid, from z_t in steps of 2^-12 of it and e_{t-1}, e_{t-2}, ...: all whole, in int64."""
        left = z
        for c, e in zip(self.coefficients[1:], past, strict=False):
            left = left - c * e
        rounded: Tensor = torch.bitwise_right_shift(left + ONE // 2, DIGITS)  # floors, below zero too
        return rounded

    def prefix_error(self, steps: int) -> float:
        """The noise of the sums of all answers so far, over that of independent noise as large as Z: root mean square.

        A C^-1 has the entries s_0, s_1, ... = the prefix sums of 1 / c(x); independent noise has 1, 1, ...

        >>> Banded(1, 0.5).prefix_error(500), 0.15 < Banded(32, 0.5).prefix_error(500) < 0.2
        (1.0, True)
        """
        from scipy.signal import lfilter

        c = np.array(self.coefficients) / ONE
        sums = np.cumsum(lfilter([1.0], c, np.eye(1, steps)[0]))
        rows = np.arange(steps, 0, -1)  # in which an entry stands
        return float(np.sqrt((rows * sums**2).sum() / rows.sum()))


@cache
def _best(bands: int, steps: int) -> Banded:
    tried = [Banded(bands, n / 32) for n in range(16, 31)]
    # Ties are broken by the order, so that all machines find the same.
    return min(tried, key=lambda c: c.column_norm(steps) * c.prefix_error(steps))
