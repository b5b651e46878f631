"""A releasable upper bound of GNMax's data-dependent cost, by smooth sensitivity (Papernot et al. 2018).

A query's cost falls with the margin s of its plurality, where q = (m-1)/2 erfc(s) for m classes. One teacher moves a
margin by at most 1/sigma: x -> erfc(erfc^-1(x) - t) is concave, so all terms equal is the worst case. Margins are
rounded down to a grid that divides 1/sigma evenly, so that the bound below is exact for the number released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.budget import Relation
from sfumato.accounting.data_dependent import gaussian_likely_outcome
from sfumato.accounting.events import Event
from sfumato.accounting.pate import Counts, gnmax_failure
from sfumato.accounting.private_number import PrivateNumber

CELLS = 8  # grid cells in the distance that one teacher can move a margin
MOVE = CELLS + 1  # one more, for a margin that rounding puts into the cell below
WIDEST = 26.0  # erfc(26) is the smallest that a double still holds


@dataclass(frozen=True)
class Sanitised:
    """What may be released: a noisy upper bound, and what releasing it cost.

    `epsilon` at `delta` covers the answers and this release; it fails to be a bound with probability `failure`,
    which belongs into delta.
    """

    divergence: float
    order: float
    epsilon: float
    delta: float
    failure: float
    cost_mu: float
    events: tuple[Event, ...]
    note: str


def smooth_sensitivity(counts: Counts, sigma: float, order: float, beta: float) -> PrivateNumber:
    """A beta-smooth bound on how much one teacher can change the total cost."""
    return PrivateNumber(_smooth(_cells(counts, sigma), _costs(sigma, order, _classes(counts)), beta), "smoothness")


def sanitise(
    counts: Counts,
    sigma: float,
    order: float,
    delta: float,
    draws: tuple[float, float],
    *,
    beta: float = 0.05,
    spread: float = 5.0,
    log_sigma: float = 0.25,
    failure: float = 1e-6,
) -> Sanitised:
    """GNMax's cost at `order` with noise, raised so that it is an upper bound but for `failure`.

    `draws` are two fresh standard normal numbers from the secret source of noise; `order` is fixed beforehand. First
    the logarithm of the smooth sensitivity is released, whose own sensitivity is beta; raised by its error it is a
    public bound on the local sensitivity, and the cost is then released as a plain Gaussian of multiplier `spread`.
    """
    costs = _costs(sigma, order, _classes(counts))
    cells = _cells(counts, sigma)
    total = float(costs[cells].sum())
    high = -gaussian_quantile(failure / 2)
    log_scale = math.log(_smooth(cells, costs, beta)) + log_sigma * float(draws[0]) + log_sigma * high
    scale = math.exp(log_scale)
    noisy = max(0.0, total + spread * scale * (float(draws[1]) + high))
    noisy = min(noisy, len(counts) * order / sigma**2)  # the data-independent bound is public and always holds
    cost_mu = math.hypot(beta / log_sigma, 1 / spread)
    divergence = noisy + order * cost_mu**2 / 2
    gain = math.log1p(-1 / order) - math.log(order) / (order - 1)
    epsilon = max(0.0, divergence + math.log(1 / delta) / (order - 1) + gain)
    plain = Event("gaussian", 1 / cost_mu, 1.0, 1.0, Relation.ADD_REMOVE)
    note = (
        "data-dependent, made releasable by smooth sensitivity; its own release is included, as a Gaussian of "
        f"mu={cost_mu:.3g} at order {order:g}; add {failure:g} to delta for the chance that noise hid a larger cost"
    )
    return Sanitised(divergence, order, epsilon, delta, failure, cost_mu, (plain,), note)


def gaussian_quantile(p: float) -> float:
    """Quantile of the standard normal law."""
    from scipy.special import ndtri

    return float(ndtri(p))


def _classes(counts: Counts) -> int:
    sizes = {len(c) for c in counts}
    if len(sizes) != 1 or min(sizes) < 2:
        raise ValueError("Expected the same number of classes, at least 2, in every query.")
    return sizes.pop()


def _step(sigma: float) -> float:
    return 1 / (sigma * CELLS)


def _cells(counts: Counts, sigma: float) -> NDArray[np.int64]:
    """Grid cell of each query's margin, 0 being the smallest."""
    from scipy.special import erfcinv

    classes = _classes(counts)
    shares = np.array([2 * gnmax_failure(c, sigma) / (classes - 1) for c in counts])
    margins = np.where(shares > 0, erfcinv(np.maximum(shares, 5e-324)), WIDEST)
    return np.clip(np.floor(margins / _step(sigma)), 0, _cell_count(sigma) - 1).astype(np.int64)


def _cell_count(sigma: float) -> int:
    return math.ceil(WIDEST / _step(sigma)) + 1


def _costs(sigma: float, order: float, classes: int) -> NDArray[np.float64]:
    """Cost of a query in each cell, from the smallest margin in it; never rising with the margin."""
    margins = np.arange(_cell_count(sigma)) * _step(sigma)
    raw = [gaussian_likely_outcome(order, (classes - 1) / 2 * math.erfc(s), sigma**-2) for s in margins]
    falling: NDArray[np.float64] = np.maximum.accumulate(np.array(raw)[::-1])[::-1]
    return falling


def _smooth(cells: NDArray[np.int64], costs: NDArray[np.float64], beta: float) -> float:
    """max over d of e^(-beta d) times the largest change at distance d, summed over queries."""
    from scipy.ndimage import maximum_filter1d

    padded = np.pad(costs, MOVE, mode="edge")
    local = np.maximum(padded[: -2 * MOVE] - costs, costs - padded[2 * MOVE :])
    ceiling = len(cells) * float(local.max())
    best = 0.0
    distance = 0
    reach = local
    while math.exp(-beta * distance) * ceiling > best:
        best = max(best, math.exp(-beta * distance) * float(reach[cells].sum()))
        reach = maximum_filter1d(reach, 2 * MOVE + 1, mode="nearest")
        distance += 1
    return max(best, 1e-300)
