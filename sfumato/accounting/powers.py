"""A loss distribution composed with itself: the library's convolution with real transforms and fewer bounds to try."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

TAIL = 1e-15  # mass that may be cut off; it is added to the mass that is lost outright, as in the library


def power(pld: Any, times: int) -> Any:
    """The distribution of `times` releases."""
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    if times == 1:
        return pld
    first = _pmf_power(pld._pmf_remove.to_dense_pmf(), times)
    return PrivacyLossDistribution(first, None if pld._symmetric else _pmf_power(pld._pmf_add.to_dense_pmf(), times))


def _pmf_power(pmf: Any, times: int) -> Any:
    from dp_accounting.pld.pld_pmf import DensePLDPmf
    from scipy.fft import irfft, next_fast_len, rfft

    probs = np.asarray(pmf._probs, dtype=np.float64)
    interval = float(pmf._discretization)
    if not probs.sum():  # next to no noise: one release reveals everything, and so do many
        return pmf
    low, high = _window(probs, times)
    length = next_fast_len(max(high - low + 1, len(probs)), real=True)
    spread = irfft(_repeated_square(rfft(probs, length), times), length)
    kept = np.maximum(np.roll(spread, -(low % length))[: high - low + 1], 0.0)
    lost = -math.expm1(times * math.log1p(-float(pmf._infinity_mass))) + TAIL
    return DensePLDPmf(interval, times * int(pmf._lower_loss) + low, kept, min(1.0, lost), True)


def _repeated_square(values: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    found: NDArray[np.complex128] | None = None
    while times:
        if times & 1:
            found = values.copy() if found is None else found * values
        times >>= 1
        if times:
            values = values * values
    assert found is not None
    return found


def _window(probs: NDArray[np.float64], times: int) -> tuple[int, int]:
    """Sums of indices outside of which no more than `TAIL` lies, by Chernoff's bound at several orders."""
    index = np.arange(len(probs), dtype=np.float64)
    mass = float(probs.sum())
    mean = float(probs @ index) / mass
    centred = index - mean
    reach = math.log(2 / TAIL)
    low = 0.0
    high = float(times * (len(probs) - 1))
    # From the weakest order that could cut anything to the strongest that floats can hold.
    for order in np.geomspace(reach / (times * len(probs)), 600.0 / len(probs), 28).tolist():
        up, down = (math.log(float(probs @ np.exp(sign * order * centred))) for sign in (1, -1))
        high = min(high, times * mean + (times * up + reach) / order)
        low = max(low, times * mean - (times * down + reach) / order)
    return math.floor(low), max(math.ceil(high), math.floor(low))
