"""What the noise of a diffusion's forward process would have to be, were it to protect the records (dp-promise)."""

from __future__ import annotations

import math

from sfumato.accounting.gaussian import mu_of


def forward_noise(pixels: int, epsilon: float, delta: float, *, copies: int = 1, replaced: bool = False) -> float:
    """Deviation of the noise in noisy copies of every record that may be published at this budget.

    dp-promise (Wang et al., USENIX Security 2024) trains without further noise on copies x + n of high noise level.
    A copy that may be seen is a Gaussian release of its record: pixels in [-1, 1] lie within sqrt(d) of a blank, and
    within 2 sqrt(d) of each other. Every fresh copy is one release more. The copies alone may be used then: a loss
    that is told the noise n, its usual target, is told x.

    >>> [round(forward_noise(d, 10.0, 1e-5), 1) for d in (28 * 28, 3 * 32 * 32)]
    [14.0, 27.7]
    >>> round(forward_noise(3 * 32 * 32, 10.0, 1e-5, copies=100))
    277
    """
    reach = math.sqrt(pixels) * (2 if replaced else 1)
    return reach * math.sqrt(copies) / mu_of(epsilon, delta)
