"""The Gaussian mechanism, exactly: delta(eps; mu) and its inverses."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr


def delta_of(epsilon: float, mu: float) -> float:
    """Smallest delta for which a mu-Gaussian mechanism is (epsilon, delta)-DP.

    >>> round(delta_of(1.0, 0.26805) * 1e5, 3)
    1.0
    """
    if mu <= 0:
        return 0.0
    a = log_ndtr(mu / 2 - epsilon / mu)
    b = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    # Both terms may underflow or nearly cancel; work with their logarithms.
    return float(-math.exp(a) * math.expm1(b - a)) if b < a else 0.0


def epsilon_of(delta: float, mu: float) -> float:
    """Smallest epsilon for which a mu-Gaussian mechanism is (epsilon, delta)-DP."""
    if mu <= 0 or delta_of(0.0, mu) <= delta:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1.0
    return float(brentq(lambda e: delta_of(e, mu) - delta, 0.0, high, xtol=1e-13, rtol=1e-14))


def mu_of(epsilon: float, delta: float) -> float:
    """Largest mu whose Gaussian mechanism is (epsilon, delta)-DP; never rounds in favour of the user.

    >>> round(mu_of(1.0, 1e-5), 5), round(mu_of(10.0, 1e-5), 5)
    (0.26805, 2.00045)
    """
    high = 1.0
    while delta_of(epsilon, high) < delta:
        high *= 2
    mu = float(brentq(lambda m: delta_of(epsilon, m) - delta, 1e-12, high, xtol=1e-15, rtol=1e-14))
    while delta_of(epsilon, mu) > delta:
        mu *= 1 - 1e-15
    return mu
