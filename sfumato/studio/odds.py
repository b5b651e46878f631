"""Epsilon in an attacker's odds, worked out beforehand for a row of values: no page computes anything."""

from __future__ import annotations

from typing import Any

from sfumato.accounting.gaussian import mu_of
from sfumato.release.statement.numbers import percent, up
from sfumato.release.statement.wording import advantage

LOW, HIGH, STEPS = 0.1, 20.0, 36


def scale(delta: float = 1e-5) -> list[dict[str, Any]]:
    """Values of epsilon, evenly spaced by their logarithms, each with how often an attacker can be right at most.

    >>> [row["epsilon"] for row in scale()][:3]
    [0.1, 0.116, 0.135]
    """
    factor = (HIGH / LOW) ** (1 / (STEPS - 1))
    return [{"epsilon": e, **right(e, delta)} for e in (float(f"{LOW * factor**n:.3g}") for n in range(STEPS))]


def right(epsilon: float, delta: float) -> dict[str, str]:
    """The largest share of right answers: under Gaussian noise, and of any mechanism with this guarantee.

    >>> right(2.0, 1e-5)
    {'right': '60 %', 'ever': '88 %'}
    """
    given = {"epsilon": epsilon, "delta": delta}
    return {"right": _share(given | {"mu": mu_of(epsilon, delta)}), "ever": _share(given)}


def _share(guarantee: dict[str, Any]) -> str:
    return percent(min(1.0, up(0.5 + advantage(guarantee) / 2)))
