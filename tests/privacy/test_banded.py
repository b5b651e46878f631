"""Noise that later uses take back in part: in whole numbers, a function of what is charged for, and worth it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import toeplitz
from scipy.optimize import minimize
from scipy.signal import lfilter

from sfumato.privacy.banded import ONE, Banded
from sfumato.privacy.bounds import Bound
from sfumato.privacy.cycle import Cycle
from sfumato.privacy.mechanisms import BandedGaussian
from sfumato.privacy.noise import Noise

MATRIX = Banded(5, 0.75)


def dense(matrix, steps):
    column = np.zeros(steps)
    column[: matrix.bands] = np.array(matrix.coefficients)[:steps] / ONE
    return toeplitz(column, np.eye(1, steps)[0])


def noises(matrix, steps=40, width=7):
    """Z and what is added, both in whole numbers."""
    z = torch.randint(-(2**44), 2**44, (steps, width), generator=torch.Generator().manual_seed(0))
    past = []
    for row in z:
        past = [matrix.noise(row, past), *past][: matrix.bands - 1]
        yield row, past[0] if past else matrix.noise(row, [])


@pytest.mark.parametrize("bands", [1, 2, 7, 64, 1024])
def test_coefficients_begin_with_one_and_never_rise(bands):
    c = Banded.best(bands, 3 * bands).coefficients
    assert c[0] == ONE and min(c) > 0 and all(b <= a for a, b in zip(c, c[1:], strict=False))


def test_bands_and_powers_out_of_range_are_refused():
    for bands, power in ((0, 0.5), (1025, 0.5), (4, 1.0), (4, 0.0)):
        with pytest.raises(ValueError, match="Expected bands from 1"):
            Banded(bands, power)


def test_one_band_is_independent_noise():
    assert all(torch.equal(e, (z + ONE // 2) >> 12) for z, e in noises(Banded(1, 0.5)))


def test_the_noise_is_the_inverse_of_c_times_z_but_for_rounding():
    z, e = (torch.stack(rows).double().numpy() for rows in zip(*noises(MATRIX), strict=True))
    assert np.abs(dense(MATRIX, 40) @ e - z / ONE).max() <= 0.5 + 1e-9


def test_answers_are_a_function_of_what_is_charged_for():
    """a_t = [y_t - sum of c_k a_{t-k}] with y = C x + Z, to the bit and for any sums x."""
    c = MATRIX.coefficients
    x = torch.randint(-(2**30), 2**30, (40, 7), generator=torch.Generator().manual_seed(1))
    answers = []
    for t, (z, e) in enumerate(noises(MATRIX)):
        y = z + sum(c[k] * x[t - k] for k in range(min(t + 1, len(c))))
        again = y - sum(c[k] * answers[t - k] for k in range(1, min(t + 1, len(c))))
        answers.append((again + ONE // 2) >> 12)
        assert torch.equal(answers[t], x[t] + e)


def test_uses_a_cycle_apart_meet_columns_without_a_common_row():
    C = dense(MATRIX, 33)
    for turn in range(5):
        own = C[:, turn :: MATRIX.bands]
        gram = own.T @ own
        assert np.array_equal(gram, np.diag(np.diag(gram)))
        assert np.sqrt(np.diag(gram)).max() <= MATRIX.column_norm(33) + 1e-15


def test_the_norm_of_a_column_counts_the_rows_that_are_there():
    for uses in (1, 2, 5, 33):
        assert MATRIX.column_norm(uses) == pytest.approx(np.linalg.norm(dense(MATRIX, uses), axis=0).max(), rel=1e-14)


def test_the_error_of_prefix_sums_is_that_of_the_whole_matrix():
    sums = np.tril(np.ones((50, 50)))
    whole = np.linalg.norm(sums @ np.linalg.inv(dense(MATRIX, 50))) / np.linalg.norm(sums)
    assert MATRIX.prefix_error(50) == pytest.approx(whole, rel=1e-9)


def test_the_best_power_is_near_the_best_toeplitz_matrix():
    steps, bands = 400, 8

    def cost(tail):
        c = np.r_[1.0, tail]
        sums = np.cumsum(lfilter([1.0], c, np.eye(1, steps)[0]))
        return np.sqrt((c**2).sum() * (np.arange(steps, 0, -1) * sums**2).sum() / (steps * (steps + 1) / 2))

    best = Banded.best(bands, steps)
    found = best.column_norm(steps) * best.prefix_error(steps)
    start = np.array(best.coefficients[1:]) / ONE
    assert found <= 1.01 * minimize(cost, start, method="L-BFGS-B").fun
    root = Banded(bands, 0.5)
    assert found < 0.95 * root.column_norm(steps) * root.prefix_error(steps)


def test_the_mechanism_adds_whole_steps_and_remembers_the_last_ones():
    bound, cycle = Bound(3.0), Cycle(bytes(32))
    mechanism = BandedGaussian(2.0, MATRIX)
    for use in range(8):
        answer = mechanism(torch.zeros(50, dtype=torch.float64), bound, Noise(), cycle)
        assert torch.equal(torch.round(answer / bound.grid) * bound.grid, answer)
        assert len(cycle.past) == min(use + 1, 4) and torch.equal(cycle.past[0].double() * bound.grid, answer)
    assert mechanism.std(bound) == 6.0
