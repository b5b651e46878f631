"""From one relation or group size to another, done right.

Adding and then removing is two steps, so a replaced record is a group of two. For (epsilon, delta) the deltas of
a group grow with e^epsilon; for Gaussian DP the parameter simply multiplies.
"""

from __future__ import annotations

import math

from sfumato.accounting import gaussian


def group(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """What (epsilon, delta)-DP for one unit means for `size` units together.

    >>> tuple(round(x, 8) for x in group(1.0, 1e-5, 2))
    (2.0, 3.718e-05)
    """
    if size < 1:
        raise ValueError(f"Expected a group of at least 1, found {size}.")
    grown = math.fsum(math.exp(i * epsilon) for i in range(size)) if (size - 1) * epsilon < 700 else math.inf
    return size * epsilon, min(1.0, delta * grown)


def replace_one(epsilon: float, delta: float) -> tuple[float, float]:
    """Replace-one from add-remove: (2 epsilon, (1 + e^epsilon) delta), never (2 epsilon, delta)."""
    return group(epsilon, delta, 2)


def group_mu(mu: float, size: int) -> float:
    """Gaussian DP of a group: exact, with no loss in delta."""
    return size * mu


def replace_one_mu(mu: float) -> float:
    """Gaussian DP under replace-one from add-remove."""
    return group_mu(mu, 2)


def gaussian_group_epsilon(epsilon: float, delta: float, size: int) -> float:
    """Epsilon of a group at the same delta, where the mechanism is Gaussian.

    >>> round(gaussian_group_epsilon(1.0, 1e-5, 2), 3)
    2.155
    """
    return gaussian.epsilon_of(delta, group_mu(gaussian.mu_of(epsilon, delta), size))
