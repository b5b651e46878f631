"""The methods that the DataLens and DPAF papers compare with, at the settings of their official codes, on MNIST and
Fashion-MNIST at epsilon 1 and 10.

What is sound here and not there stands in each method's deviations. Of the others, DP-GAN is `dpgan-xie-code-…`, DPDM
`dpdm-paper-…`; D2P-Fed and FetchSGD, which are votes of DataLens, are in its table 5 for Fashion-MNIST, and here for
MNIST.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sfumato.recipes import datalens
from sfumato.recipes.baseline_settings import BASELINES, CELLS
from sfumato.recipes.recipe import Recipe

# In table 5 of DataLens: the row on Fashion-MNIST, and the accuracy on MNIST.
COMPRESSIONS = {"d2p-fed": ("datalens-table5-levels", 0.1424), "fetchsgd": ("datalens-table5-sketch", 0.6935)}


def code(name: str, data: str, epsilon: float) -> Recipe:
    """A baseline on one of the two sets.

    >>> code("dp-sinkhorn", "mnist", 10.0).settings["mixture"]
    1.0
    """
    found = BASELINES[name]
    return Recipe(
        name=f"{name}-code-{data}-{epsilon:g}",
        method=found.method,
        settings=found.shared | found.own.get(data, {}) | found.own.get(epsilon, {}),
        epsilon=epsilon,
        data=data,
        records=60_000,
        shape=(1, 28, 28),
        classes=10,
        kind="code",
        paper=found.source,
        note=found.note,
        published=found.published[CELLS.index((data, epsilon))],
    )


def compressed(name: str) -> Recipe:
    """D2P-Fed or FetchSGD in the place of TopAgg on MNIST at epsilon 1: as on Fashion-MNIST, around MNIST's settings.

    >>> compressed("fetchsgd").settings["compress"]
    'sketch'
    """
    theirs, published = COMPRESSIONS[name]
    base = datalens.datalens_code("mnist", 1.0)
    row = next(r for r in datalens.table5() if r.name == theirs)
    threshold = row.settings["threshold"] * base.settings["threshold"] / datalens.BASE.settings["threshold"]
    return replace(
        base,
        name=f"datalens-{name}-mnist-1",
        settings={
            **base.settings,
            "compress": row.settings["compress"],
            "sigma": row.settings["sigma"],
            "threshold": round(threshold, 4),
        },
        paper="table 5",
        note=row.note,
        published=published,
    )


def every() -> Iterator[Recipe]:
    """All of them."""
    yield from (compressed(name) for name in COMPRESSIONS)
    yield from (code(name, data, epsilon) for name in BASELINES for data, epsilon in CELLS)
