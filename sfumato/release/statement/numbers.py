"""Numbers as people read them; an epsilon is never printed smaller than it is."""

from __future__ import annotations

import math
from typing import Any


def up(value: float, digits: int = 4) -> float:
    """Rounded up to so many significant digits.

    >>> up(1.00001), up(0.99999999999), up(0.26805)
    (1.001, 1.0, 0.2681)
    """
    if value == 0 or not math.isfinite(value):
        return value
    places = digits - 1 - math.floor(math.log10(abs(value)))
    nearest = round(value, places)
    # Nearest, where the difference is only floating-point dust.
    return nearest if nearest >= value * (1 - 1e-9) else round(math.ceil(value * 10**places) / 10**places, places)


def show(value: Any, digits: int = 4) -> str:
    """A number in few digits, anything else as text.

    >>> show(60000), show(1e-5), show(3.7305), show(1.0), show(True), show([1, 28, 28])
    ('60,000', '1e-5', '3.731', '1', 'yes', '1, 28, 28')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e")
    if isinstance(value, list | tuple):
        return ", ".join(show(part, digits) for part in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {show(part, digits)}" for key, part in value.items())
    return str(value)


def epsilon(value: float) -> str:
    """An epsilon in four digits, rounded up."""
    return show(up(float(value)), 6)


def one_in(delta: float) -> str:
    """A small probability as odds: 1e-5 is "1 in 100,000"."""
    return f"1 in {round(1 / delta):,}"


def percent(share: float) -> str:
    """A share as a whole percentage; never 100 % where certainty is not meant.

    >>> percent(0.5534), percent(0.9996), percent(1.0)
    ('55 %', 'more than 99 %', '100 %')
    """
    return "more than 99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"
