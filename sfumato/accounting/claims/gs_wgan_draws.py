"""GS-WGAN: the claim, the official procedure accounted soundly, and two ways to repair it.

N critics on disjoint parts, m fake images an iteration, T iterations; each image's gradient is clipped to C and
gets noise of 2 C sigma, so `sigma` is relative to the change that one record can cause.
"""

from __future__ import annotations

import math

from sfumato.accounting import accountant
from sfumato.accounting.budget import Relation
from sfumato.accounting.claims.label import Claim, claim
from sfumato.accounting.events import Event, combined_multiplier
from sfumato.accounting.profile import RenyiCurve
from sfumato.accounting.rdp import without_replacement


def gs_wgan(critics: int, sigma: float, images: int, iterations: int, delta: float = 1e-5) -> Claim:
    """As printed: T m independent subsampled Gaussians at rate 1/N, without replacement, 2017 conversion."""
    orders = tuple(float(i) for i in range(2, 65))
    one = without_replacement(1 / critics, sigma, orders)
    values = tuple(images * iterations * value for value in one)
    reason = (
        "unsound: one critic is drawn an iteration and serves all its images, which is one event and not m; critics "
        "train only when drawn, so that secret past draws shape later answers and no amplification theorem applies; "
        "the official loop runs one iteration more than it counts"
    )
    return claim(RenyiCurve(orders, values, "mironov").epsilon(delta), reason)


def gs_wgan_sound(
    critics: int, sigma: float, images: int, iterations: int, delta: float = 1e-5, *, conservative: bool = False
) -> float:
    """Epsilon of the official draws, were training independent of them: one event an iteration.

    The pair that can be realised is a mixture against one point; `conservative` takes the replace-one pair.
    """
    multiplier = combined_multiplier([sigma] * images)
    return _epsilon(critics, multiplier, iterations, delta, conservative)


def gs_wgan_fix_a(critics: int, sigma: float, images: int, iterations: int, delta: float = 1e-5) -> float:
    """An independent critic for each image, trained on a schedule apart from the draws: T m events are right."""
    return _epsilon(critics, sigma, images * iterations, delta, conservative=True)


def gs_wgan_fix_b(
    critics: int, images: int, iterations: int, epsilon: float, delta: float = 1e-5, *, conservative: bool = False
) -> float:
    """The sigma with which one critic an iteration, trained on an independent schedule, meets `epsilon`."""
    from sfumato.accounting.calibrate import noise_within

    def events_at(sigma: float) -> list[Event]:
        return [_event(critics, combined_multiplier([sigma] * images), iterations, conservative)]

    return noise_within(events_at, epsilon, delta)


def gs_wgan_unamplified_mu(sigma: float, images: int, iterations: int) -> float:
    """Gaussian-DP parameter with no amplification at all: what holds whatever the schedule."""
    return math.sqrt(images * iterations) / sigma


def _event(critics: int, multiplier: float, times: int, conservative: bool) -> Event:
    relation = Relation.REPLACE_ONE if conservative else Relation.ADD_REMOVE
    return Event("gaussian", multiplier, 2.0 if conservative else 1.0, 1.0, relation, 1 / critics, times)


def _epsilon(critics: int, multiplier: float, times: int, delta: float, conservative: bool) -> float:
    return accountant.epsilon([_event(critics, multiplier, times, conservative)], delta)
