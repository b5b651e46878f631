"""Our settings of PATE-GAN, GS-WGAN, G-PATE, DP-Sinkhorn, Private-Set and NDPDC for MNIST and Fashion-MNIST.

All are made for one large GPU and a few minutes. A smaller budget has more critics, whose sum grows with their number
while the noise does not, and fewer steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfumato.recipes.recipe import Recipe

SETS = ("mnist", "fashion-mnist")
NOTE = "Made for one large GPU and a few minutes; docs/results.md says what was measured."
# Method: what both budgets share, then what epsilon 1 and epsilon 10 have of their own.
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "pate-gan": (
        {"batch": 100, "teacher_batch": 15, "warmup": 60, "fits": 4, "moves": 2, "target": "share"},
        {"teachers": 4000, "steps": 250},
        {"teachers": 2000, "steps": 400},
    ),
    "gs-wgan": (
        {"share": 1.0, "batch": 50, "teacher_batch": 15, "warmup": 60, "learning_rate": 1e-3},
        {"teachers": 4000, "steps": 200},
        {"teachers": 2000, "steps": 300},
    ),
    "g-pate": (
        {"dimensions": 20, "confident": False, "answer": "mean", "warmup": 50, "ema_decay": 0.9},
        {"teachers": 4000, "steps": 120},
        {"teachers": 2000, "steps": 200},
    ),
    # A value in a ball has the same noise whatever the batch, and a small one is amplified more.
    "dp-sinkhorn": (
        {
            "batch": 50,
            "fakes": 100,
            "blur": 10.0,
            "rounds": 1,
            "mixture": 0.0,
            "learning_rate": 5e-4,
            "ema_decay": 0.998,
            "width": 32,
            "steps": 8000,
        },
        {},
        {},
    ),
    "private-set": ({"batch": 512, "inner": 20, "learning_rate": 0.02}, {"rounds": 10}, {"rounds": 20}),
    "ndpdc": ({"each": 50, "batch": 1000}, {"steps": 2000}, {"steps": 3000}),
}


def ours(method: str, data: str, epsilon: float) -> Recipe:
    """Settings for one of the two sets at epsilon 1 or 10.

    >>> ours("gs-wgan", "mnist", 1.0).settings["teachers"]
    4000
    """
    shared, small, large = SETTINGS[method]
    return Recipe(
        name=f"{method}-ours-{data}-{epsilon:g}",
        method=method,
        settings=shared | (large if epsilon > 1 else small),
        epsilon=epsilon,
        data=data,
        records=60_000,
        shape=(1, 28, 28),
        classes=10,
        kind="ours",
        paper="none",
        note=NOTE,
    )


def every() -> Iterator[Recipe]:
    """All of them."""
    yield from (ours(method, data, epsilon) for method in SETTINGS for data in SETS for epsilon in (1.0, 10.0))
