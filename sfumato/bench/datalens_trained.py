"""Tables 8 to 11 of DataLens: classifiers trained by DP-SGD with TopAgg, and their settings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from sfumato.bench import datalens_printed as paper
from sfumato.bench.table import Cell, Source, Table, numbered, value, where
from sfumato.recipes import topagg

PRINTED_8 = "mean of ten runs, with settings searched for each cell; accuracy of the classifier"
CONTROLS = ("topk-full-noise", "topagg", "topk-sgd", "gm-dp", "clipped-sgd")


def _trained(data: str, epsilon: float, column: str, recipe: str, spread: str) -> Cell:
    mean = topagg.RECIPES[recipe].published
    return Cell(
        row=where(data, epsilon),
        column=column,
        printed=None if mean is None else round(100 * mean, 2),
        spread=float(spread),
        data=data,
        epsilon=epsilon,
        metric="classifier",
        sources=(Source(recipe),),
    )


def _norm(data: str, block: str, budgets: int | None = None) -> Iterator[Cell]:
    for name, spreads in numbered(block)[:budgets]:
        for k, spread in zip(topagg.KS, spreads, strict=True):
            column = "GM-DP" if k == 1 else f"k {k:g}"
            yield _trained(data, float(name), column, topagg.topagg(data, float(name), k).name, spread)


@cache
def table_8() -> tuple[Cell, ...]:
    """TopAgg in DP-SGD, on MNIST and CIFAR-10."""
    return (*_norm("mnist", paper.SPREADS_8A), *_norm("cifar10", paper.SPREADS_8B))


@cache
def table_9() -> tuple[Cell, ...]:
    """k by norm and by dimension."""
    by_dimension = (
        _trained("mnist", float(name), f"dimension {k:g}", topagg.dimension(float(name), k).name, spread)
        for name, spreads in numbered(paper.SPREADS_9)
        for k, spread in zip(topagg.DIMENSIONS, spreads, strict=True)
    )
    return (*_norm("mnist", paper.SPREADS_8A, 3), *by_dimension)


@cache
def table_10() -> tuple[Cell, ...]:
    """Compression and noise apart."""
    return tuple(
        Cell(
            row=where("mnist", float(name)),
            column=control,
            printed=value(printed)[0],
            spread=value(printed)[1],
            data="mnist",
            epsilon=float(name),
            metric="classifier",
            sources=(Source(f"table10-{control}-{name}"),),
        )
        for name, numbers in numbered(paper.TABLE_10)
        for control, printed in zip(CONTROLS, numbers, strict=True)
    )


@cache
def table_11() -> tuple[Cell, ...]:
    """The settings of the printed table beside those of our recipes, which were taken from it."""
    names = ("clip", "sigma", "batch", "learning_rate")
    found = []
    for data, given in (("mnist", topagg.MNIST), ("cifar10", topagg.CIFAR10)):
        for epsilon, columns in given.items():
            for k, settings in zip(topagg.KS, columns, strict=True):
                made = topagg.topagg(data, epsilon, k).settings
                for name, printed in zip(names, settings, strict=True):
                    kind = "GM-DP" if math.isclose(k, 1) else f"k {k:g}"
                    found.append(
                        Cell(
                            row=where(data, epsilon),
                            column=f"{kind}, {name}",
                            printed=float(printed),
                            metric="setting",
                            value=float(made[name]),
                        )
                    )
    return tuple(found)


TABLES = (
    Table("datalens-table-8", "TopAgg in DP-SGD", PRINTED_8, table_8, digits=2, scale=100, measure="classifier"),
    Table(
        "datalens-table-9", "k by norm and by dimension", PRINTED_8, table_9, digits=2, scale=100, measure="classifier"
    ),
    Table(
        "datalens-table-10",
        "compression and noise apart",
        PRINTED_8,
        table_10,
        digits=2,
        scale=100,
        measure="classifier",
    ),
    Table("datalens-table-11", "settings of tables 8 to 10", "as printed", table_11, digits=4, measure="computed"),
)
