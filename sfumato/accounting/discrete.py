"""A wide discrete Gaussian is post-processing of a continuous one, and may be accounted as that.

Round x ~ N(c, s^2) to the whole number y with probability proportional to exp(-(y - x)^2 / 2 r^2). The normaliser
sum_y exp(-(y - x)^2 / 2 r^2) is r sqrt(2 pi) (1 +- 2 exp(-2 pi^2 r^2)) for every x, by Poisson's summation formula.
So y follows the discrete Gaussian around c of parameter sigma = sqrt(s^2 + r^2), up to a factor of that size, in each
coordinate: with r = 2 it is 1 +- 1e-33, nothing even over 2^60 coordinates. Whatever is true of the Gaussian with
s = sqrt(sigma^2 - 4) is therefore true of the discrete one: any integer neighbour, composition, subsampling.
"""

from __future__ import annotations

import math
from dataclasses import replace

from sfumato.accounting.events import AnyEvent, Event

ROUNDING = 2.0  # r
# Below this sigma the loss distribution of the integer shifts themselves is tighter than the detour.
WIDE = 200.0
LOUD = 20.0  # sensitivity over sigma from which on there is no privacy to speak of


def smoothed(event: AnyEvent) -> AnyEvent:
    """The continuous event that a discrete one is post-processing of, where that is the tighter or the only way.

    >>> from sfumato.accounting.budget import Relation
    >>> votes = Event("discrete-gaussian", 5000, 28.3, 14.2, Relation.ADD_REMOVE)
    >>> smoothed(votes).mechanism, round(smoothed(votes).sigma, 4)
    ('gaussian', 4999.9996)
    """
    if not isinstance(event, Event):
        return event
    if event.mechanism == "gaussian" and event.rate < 1 and event.sensitivity > LOUD * event.sigma:
        # Losses out of the range of floats. That only some take part never hurts, and would not help here.
        return replace(event, rate=1.0, cap=None, records=None)
    if event.mechanism != "discrete-gaussian":
        return event
    if event.rate < 1 and event.sigma <= 1.25 * ROUNDING:
        return replace(event, rate=1.0)  # too narrow for the detour: being drawn by chance is not made use of
    if event.rate == 1.0 and event.sigma < WIDE:
        return event
    return replace(event, mechanism="gaussian", sigma=math.sqrt(event.sigma**2 - ROUNDING**2), shift=(1, 1), shifts=())
