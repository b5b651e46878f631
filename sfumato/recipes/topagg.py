"""Recipes of TopAgg for training (DataLens, appendix A): the settings of its Table 11, for tables 8, 9 and 10.

The paper gives c, sigma, batch and learning rate at three budgets a data set, for k = 0.6, 0.7, 0.8 and for GM-DP
(k = 1). Steps are as many as exact accounting allows at that sigma, which is more than the paper's. At other budgets
the settings and steps of the nearest one are taken, with the least noise that the budget allows; for dimension-based k,
of which the paper gives nothing, those of GM-DP.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sfumato.errors import InputError, did_you_mean
from sfumato.recipes.recipe import Recipe

METHOD = "classifier"
KS = (0.6, 0.7, 0.8, 1.0)
DIMENSIONS = (0.2, 0.4, 0.6)
# Table 11: (c, sigma, batch, learning rate) for each of KS.
MNIST = {
    0.05: ((10.0, 5.8, 128, 0.01), (5.0, 6.6, 128, 0.01), (5.0, 7.4, 128, 0.01), (3.0, 8.2, 128, 0.01)),
    0.2: ((12.0, 3.6, 512, 0.1), (10.0, 3.6, 512, 0.1), (10.0, 3.6, 512, 0.1), (10.0, 3.4, 512, 0.08)),
    1.0: ((16.0, 1.6, 512, 0.08), (12.0, 1.6, 512, 0.1), (10.0, 1.6, 512, 0.1), (14.0, 1.8, 512, 0.04)),
}
CIFAR10 = {
    0.025: ((1.0, 6.0, 24, 0.0008), (1.5, 7.0, 32, 0.001), (0.8, 6.0, 24, 0.001), (0.3, 7.0, 32, 0.002)),
    0.4: ((1.0, 2.5, 96, 0.005), (1.0, 2.5, 96, 0.005), (1.0, 2.5, 96, 0.005), (1.5, 3.0, 96, 0.005)),
    8.0: ((0.5, 2.5, 2048, 0.2), (0.5, 2.5, 2048, 0.2), (0.5, 3.0, 2048, 0.2), (2.5, 2.5, 2048, 0.04)),
}
# Steps that exact accounting allows at those budgets, for each of KS.
STEPS = {
    ("mnist", 0.05): (2151, 2803, 3538, 4357),
    ("mnist", 0.2): (617, 617, 617, 545),
    ("mnist", 1.0): (1933, 1933, 1933, 2599),
    ("cifar10", 0.025): (13_092, 10_071, 13_092, 10_071),
    ("cifar10", 0.4): (20_714, 20_714, 20_714, 30_701),
    ("cifar10", 8.0): (9339, 9339, 13_838, 9339),
}
# Table 8: accuracy for each of KS.
MNIST_PUBLISHED = {
    0.05: (0.7387, 0.7581, 0.7715, 0.7840),
    0.1: (0.8567, 0.8612, 0.8588, 0.8455),
    0.2: (0.8984, 0.9025, 0.9080, 0.9117),
    0.3: (0.9121, 0.9185, 0.9235, 0.9331),
    0.5: (0.9283, 0.9350, 0.9382, 0.9438),
    0.7: (0.9441, 0.9461, 0.9465, 0.9508),
    1.0: (0.9513, 0.9522, 0.9542, 0.9541),
    math.inf: (0.9794, 0.9858, 0.9879, 0.9908),
}
CIFAR10_PUBLISHED = {
    0.025: (0.4218, 0.4432, 0.4587, 0.4158),
    0.05: (0.6510, 0.7147, 0.7203, 0.7129),
    0.075: (0.7470, 0.7522, 0.7562, 0.7513),
    0.1: (0.7556, 0.7691, 0.7765, 0.7705),
    0.2: (0.7944, 0.8023, 0.8076, 0.8037),
    0.3: (0.8019, 0.8170, 0.8215, 0.8219),
    0.4: (0.8191, 0.8286, 0.8282, 0.8280),
    0.6: (0.8256, 0.8291, 0.8344, 0.8346),
    0.8: (0.8340, 0.8367, 0.8410, 0.8444),
    2.0: (0.8434, 0.8480, 0.8518, 0.8597),
    4.0: (0.8482, 0.8511, 0.8540, 0.8663),
    8.0: (0.8513, 0.8537, 0.8562, 0.8705),
    math.inf: (0.8519, 0.8542, 0.8580, 0.8785),
}
# Table 9: accuracy for each of DIMENSIONS.
DIMENSION_PUBLISHED = {0.05: (0.7425, 0.7845, 0.7355), 0.1: (0.8365, 0.8559, 0.8641), 0.2: (0.8910, 0.9048, 0.8930)}
# Table 10 at epsilon 0.1 and 1, k = 0.8: NormTopK with GM-DP's noise and without noise, and no compression.
CONTROL_PUBLISHED = {
    0.1: {"topk-full-noise": 0.8386, "topagg": 0.8588, "topk-sgd": 0.9196, "gm-dp": 0.8505, "clipped-sgd": 0.9426},
    1.0: {"topk-full-noise": 0.9495, "topagg": 0.9542, "topk-sgd": 0.9803},
}
SETS = {
    "mnist": ("mnist", 60_000, (1, 28, 28), MNIST, MNIST_PUBLISHED, "8a"),
    "cifar10": ("cifar10", 50_000, (3, 32, 32), CIFAR10, CIFAR10_PUBLISHED, "8b"),
}
NOTE = "Exact accounting allows more steps at the paper's sigma than the paper took."
BETWEEN = "The paper gives no settings at this budget: those of epsilon {near:g} are taken, but for the noise."
WITHOUT = "No noise at all: not a private run, and `sfumato train-classifier` refuses it."
BY_COUNT = "The paper gives no settings for dimension-based k: those of GM-DP are taken."


def nearest(given: dict[float, Any], epsilon: float) -> float:
    """The budget nearest to epsilon, by their ratio, at which settings are given.

    >>> nearest(MNIST, 0.1), nearest(MNIST, 0.3), nearest(MNIST, math.inf)
    (0.05, 0.2, 1.0)
    """
    return max(given) if math.isinf(epsilon) else min(given, key=lambda e: abs(math.log(e / epsilon)))


def topagg(name: str, epsilon: float, k: float) -> Recipe:
    """NormTopK on MNIST's CNN or on CIFAR-10 by public features; k = 1 is GM-DP.

    >>> topagg("mnist", 1.0, 0.7).settings["clip"]
    12.0
    """
    data, records, shape, given, published, table = SETS[name]
    near = nearest(given, epsilon)
    at = KS.index(k)
    c, sigma, batch, learning_rate = given[near][at]
    length = {"sigma": sigma} if near == epsilon else {"steps": STEPS[name, near][at]}
    settings = {
        "network": "cnn" if name == "mnist" else "features",
        "batch": batch,
        "clip": c,
        "learning_rate": learning_rate,
        "momentum": 0.0,
        "k": k,
        "by": "norm",
        **length,
    }
    notes = [NOTE] if near == epsilon else [BETWEEN.format(near=near)]
    which = "gm-dp" if k == 1 else f"norm-{k:g}"
    return Recipe(
        name=f"topagg-{name}-{which}-{epsilon:g}",
        method=METHOD,
        settings=settings,
        epsilon=epsilon,
        data=data,
        records=records,
        shape=shape,
        classes=10,
        kind="paper",
        paper=f"table {table}, table 11",
        note=" ".join(notes + [WITHOUT] * math.isinf(epsilon)),
        published=published.get(epsilon, (None,) * 4)[at],
    )


def dimension(epsilon: float, k: float) -> Recipe:
    """Dimension-based top-k on MNIST (table 9)."""
    base = topagg("mnist", epsilon, 1.0)
    return replace(
        base,
        name=f"topagg-mnist-dimension-{k:g}-{epsilon:g}",
        paper="table 9",
        note=BY_COUNT,
        settings={**base.settings, "k": k, "by": "dimension"},
        published=DIMENSION_PUBLISHED[epsilon][DIMENSIONS.index(k)],
    )


def scattering() -> Recipe:
    """Ours: fixed scattering features and a linear head, without public data."""
    return Recipe(
        name="scattering-fashion-mnist-1",
        method=METHOD,
        settings={"network": "scattering"},
        epsilon=1.0,
        data="fashion-mnist",
        records=60_000,
        shape=(1, 28, 28),
        classes=10,
        kind="ours",
        paper="none",
        note="The defaults of `sfumato train-classifier`.",
    )


def every() -> Iterator[Recipe]:
    """All of them."""
    yield from (topagg(name, epsilon, k) for name in SETS for epsilon in SETS[name][4] for k in KS)
    yield from (dimension(epsilon, k) for epsilon in DIMENSION_PUBLISHED for k in DIMENSIONS)
    yield scattering()


RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in every()}


def _rows(table: str) -> tuple[str, ...]:
    return tuple(name for name, recipe in RECIPES.items() if recipe.paper.startswith(f"table {table}"))


def _beside() -> tuple[str, ...]:
    """Rows of table 8 that table 9 repeats."""
    return tuple(topagg("mnist", epsilon, k).name for epsilon in DIMENSION_PUBLISHED for k in KS)


TABLES = {"8": _rows("8a"), "8b": _rows("8b"), "9": (*_beside(), *_rows("9"))}


def find(name: str) -> Recipe:
    """The recipe of this name."""
    if name in RECIPES:
        return RECIPES[name]
    hint = did_you_mean(name, RECIPES, 3, "see `sfumato recipes --method classifier`.")
    raise InputError(f"There is no recipe of a classifier '{name}'; {hint}")
