"""A unit that leaves one held part, or one class, and joins another: two terms change where the plan foresaw one.

Write the noise N(0, s^2) as a sum of two independent N(0, s^2 / 2), one for each of the two parts. What is released is
then the sum of two releases, each with one part's term and a noise of s / sqrt(2), and of what no neighbour changes.
A sum is post-processing, and parts are drawn independently of each other, so two uses with s / sqrt(2) are no better
than one use with both parts changed. Where every part takes part this is a Gaussian of twice the sensitivity: exact.

The same holds of a class that takes turns with others: a term that leaves or joins is one replaced by nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace

from sfumato.accounting.budget import Relation
from sfumato.accounting.events import Event
from sfumato.accounting.pld import ROUNDING

NARROW = 1.25 * ROUNDING


def two_parts(event: Event) -> Event:
    """The event of parts or classes, two of which a replaced unit changes.

    Whole-number noise is taken as the continuous noise that it is rounded from (see `pld`): for that one any
    two changed ballots are a distance, while patterns of whole numbers would have to be listed for both together.

    >>> one = Event("gaussian", 8.0, 2.0, 1.0, Relation.REPLACE_ONE, held=True)
    >>> round(two_parts(one).mu / one.mu, 12)
    2.0
    """
    if event.pair is not Relation.REPLACE_ONE:
        raise ValueError("Expected an event whose unit is replaced.")
    sigma = event.sigma
    if event.mechanism == "discrete-gaussian":
        if sigma <= NARROW:
            raise ValueError(
                "a replaced unit moves two parts of a plan under add-remove, and for noise as small as this plan's no "
                "price of that is proved; plan it with --relation replace-one"
            )
        sigma = math.sqrt(sigma**2 - ROUNDING**2)
    elif event.mechanism != "gaussian":
        raise ValueError("a replaced unit moves two parts, which this noise has no price for")
    half = sigma / math.sqrt(2)
    return replace(event, mechanism="gaussian", sigma=half, times=2 * event.times, shift=(1, 1), shifts=())
