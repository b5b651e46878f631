"""The tables and figures of DataLens (Wang et al., CCS 2021), with every number as it is printed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from sfumato.bench.sources import for_column
from sfumato.bench.table import Cell, Figure, Source, Table, numbered, value, where
from sfumato.recipes import RECIPES, topagg

BEST = "the paper's test accuracy, by its official code the best of 600 test epochs"
COLUMNS = ("DP-GAN", "PATE-GAN", "G-PATE", "GS-WGAN", "DataLens")
TABLE_1 = """
    mnist 1           0.4036 0.4168 0.5810 0.1432 0.7123
    mnist 10          0.8011 0.6667 0.8092 0.8075 0.8066
    fashion-mnist 1   0.1053 0.4222 0.5567 0.1661 0.6478
    fashion-mnist 10  0.6098 0.6218 0.6934 0.6579 0.7061
    celeba-gender 1   0.5330 0.6068 0.6702 0.5901 0.7058
    celeba-gender 10  0.5211 0.6535 0.6897 0.6136 0.7287
    celeba-hair 1     0.3447 0.3789 0.4985 0.4203 0.6061
    celeba-hair 10    0.3920 0.3900 0.6217 0.5225 0.6224
    places365-3 1     0.3200 0.3238 0.3483 0.3375 0.4313
    places365-3 10    0.3292 0.3796 0.3883 0.3725 0.4875
"""
WITHOUT = """
    mnist          0.9653
    fashion-mnist  0.8032
    celeba-gender  0.8149
    celeba-hair    0.7678
    places365-3    0.7404
"""
TABLE_2 = """
    mnist 0.2          0.1104 0.2176 0.2230 0.0972 0.2344
    mnist 0.4          0.1524 0.2399 0.2478 0.1029 0.2919
    mnist 0.6          0.1022 0.3484 0.4184 0.1044 0.4201
    mnist 0.8          0.3732 0.3571 0.5377 0.1170 0.6485
    mnist 1            0.4046 0.4168 0.5810 0.1432 0.7123
    fashion-mnist 0.2  0.1021 0.1605 0.1874 0.1000 0.2226
    fashion-mnist 0.4  0.1302 0.2977 0.3020 0.1001 0.3863
    fashion-mnist 0.6  0.0998 0.3698 0.4283 0.1144 0.4314
    fashion-mnist 0.8  0.1210 0.3659 0.5258 0.1242 0.5534
    fashion-mnist 1    0.1053 0.4222 0.5567 0.1661 0.6478
"""
# Inception scores (table 3, and table 12 with the distances below), the real images first.
SCORES = """
    mnist 1           9.86 1.00 1.19 3.60 1.00 4.37
    mnist 10          9.86 1.00 1.46 5.16 8.59 5.78
    fashion-mnist 1   9.01 1.03 1.69 3.41 1.00 3.93
    fashion-mnist 10  9.01 1.05 2.35 4.33 5.87 4.58
    celeba-gender 1   1.88 1.00 1.15 1.11 1.00 1.18
    celeba-gender 10  1.88 1.00 1.16 1.12 1.00 1.42
"""
DISTANCES = """
    mnist 1           1.04 470.20 231.54 153.38 489.75 186.06
    mnist 10          1.04 304.86 253.55 150.62 58.77 173.50
    fashion-mnist 1   1.54 472.03 253.19 214.78 587.31 194.98
    fashion-mnist 10  1.54 433.38 229.25 171.90 135.47 167.68
    celeba-gender 1   2.38 485.92 434.47 302.45 437.33 297.73
    celeba-gender 10  2.38 485.41 424.60 323.95 432.58 320.84
"""
KNOBS = {"k": "k {}", "teachers": "{} teachers", "beta": "beta {}"}
TABLE_4 = """
    mnist k                 100 200 300        0.5889 0.7123 0.6753
    mnist teachers          2000 3000 4000     0.5841 0.7061 0.7123
    mnist beta              0 0.1 0.3 0.5 0.7 0.9   0.6361 0.6450 0.6890 0.6921 0.7123 0.6956
    fashion-mnist k         100 200 300        0.5738 0.6478 0.6088
    fashion-mnist teachers  2000 3000 4000     0.5608 0.5952 0.6478
    fashion-mnist beta      0 0.1 0.3 0.5 0.7 0.9   0.5859 0.6103 0.6060 0.6122 0.6213 0.6478
    celeba-gender k         500 700 900        0.6922 0.7058 0.6811
    celeba-gender teachers  4000 6000 8000     0.6378 0.7058 0.6936
    celeba-gender beta      0.5 0.6 0.7 0.8 0.85 0.9   0.6440 0.6789 0.6922 0.6861 0.7058 0.6381
    celeba-hair k           500 700 900        0.5792 0.6061 0.5769
    celeba-hair teachers    4000 6000 8000     0.5669 0.5835 0.6061
    celeba-hair beta        0.5 0.6 0.7 0.8 0.85 0.9   0.4957 0.5669 0.5612 0.6022 0.5835 0.6061
"""
TABLE_5 = """
    mnist          0.7123 0.1424 0.6935
    fashion-mnist  0.6478 0.1667 0.6387
    celeba-gender  0.7058 0.4445 0.6552
    celeba-hair    0.6061 0.2893 0.4926
"""
TABLE_6 = """
    mnist          338.34 492.43 785.34
    fashion-mnist  340.84 471.02 775.35
    celeba-gender  1196.60 3683.22 2622.40
    celeba-hair    1120.59 8092.50 2620.63
"""
TABLE_7 = """
    mnist          0.7123 0.5170 0.6741 0.6361
    fashion-mnist  0.6478 0.4775 0.6159 0.5859
    celeba-gender  0.7058 0.6134 0.6889 0.6860
    celeba-hair    0.6061 0.3318 0.5325 0.5504
"""
# Spreads of tables 8 and 9 (their means are in `recipes.topagg`), and both of table 10, in per cent.
SPREADS_8A = """
    0.05  4.77 3.59 2.89 4.00
    0.1   1.48 1.39 1.97 0.98
    0.2   0.64 0.40 1.04 0.37
    0.3   0.53 0.21 0.53 0.42
    0.5   0.52 0.75 0.46 0.24
    0.7   0.19 0.24 0.27 0.10
    1     0.33 0.20 0.20 0.26
    inf   0.19 0.11 0.09 0.04
"""
SPREADS_8B = """
    0.025  0.89 0.59 0.97 2.01
    0.05   0.48 0.32 0.25 0.27
    0.075  0.26 0.21 0.15 0.19
    0.1    0.18 0.17 0.20 0.09
    0.2    0.07 0.12 0.08 0.13
    0.3    0.17 0.08 0.15 0.10
    0.4    0.10 0.05 0.13 0.09
    0.6    0.36 0.20 0.15 0.04
    0.8    0.06 0.22 0.07 0.07
    2      0.08 0.18 0.08 0.04
    4      0.04 0.08 0.08 0.05
    8      0.05 0.04 0.04 0.03
    inf    0.3 0.02 0.03 0.02
"""
SPREADS_9 = """
    0.05  3.25 2.89 1.97
    0.1   0.73 1.39 0.70
    0.2   1.22 0.73 0.74
"""
TABLE_10 = """
    0.1  83.86±1.49 85.88±1.97 91.96±0.61 85.05±1.85 94.26±0.43
    1    94.95±0.25 95.42±0.20 98.03±0.09 x x
"""
CONTROLS = ("topk-full-noise", "topagg", "topk-sgd", "gm-dp", "clipped-sgd")
# Of the official README for CelebA-Hair, where it differs from CelebA-Gender's.
HAIR = {
    1.0: {"teachers": "8000", "threshold": "0.9", "batch": "15", "teacher_batch": "15"},
    10.0: {"teachers": "4000", "threshold": "0.25"},
}
STARTS = {"mnist": 0.7, "fashion-mnist": 0.9, "celeba-gender": 0.85, "celeba-hair": 0.9}  # beta of the base
TEACHERS = {"mnist": 4000, "fashion-mnist": 4000, "celeba-gender": 6000, "celeba-hair": 8000}
# Parts are as large as records allow, at most 30 in the code, whose 8000 teachers have 15 each on CelebA-Hair.
RECORDS = {"mnist": 60_000, "fashion-mnist": 60_000, "celeba-gender": 182_637, "celeba-hair": 120_000}
MOST = 30


def _lines(block: str) -> Iterator[tuple[str, float, list[str]]]:
    for name, numbers in numbered(block):
        data, epsilon = name.split()
        yield data, float(epsilon), numbers


def fewer(source: Source) -> Source:
    """A recipe for CelebA on FairFace, with a seventh of its records: a third of the teachers, beta N as it was."""
    if source.ours or "faces" not in source.recipe:
        return source
    made = {**RECIPES[source.recipe].settings, **source.settings}
    few = {"teachers": str(int(made["teachers"]) // 3), "batch": "14", "teacher_batch": "14"}
    return replace(source, on_stand_in=few | {"threshold": f"{3 * float(made['threshold']):.4g}"})


def _sources(column: str, data: str, epsilon: float) -> tuple[Source, ...]:
    if (column, data) == ("DataLens", "celeba-hair"):
        return (Source(f"datalens-code-faces-{epsilon:g}", settings=HAIR[epsilon]),)
    found = for_column(column, data, epsilon)
    return tuple(map(fewer, found)) if (column, data) == ("DataLens", "celeba-gender") else found


def _compared(block: str, metric: str = "accuracy", columns: tuple[str, ...] = COLUMNS) -> Iterator[Cell]:
    """A row for each set and budget, a column for each method."""
    for data, epsilon, numbers in _lines(block):
        for column, number in zip(columns, numbers, strict=True):
            real = column == "real images"
            yield Cell(
                row=where(data, epsilon),
                column=column,
                printed=value(number)[0],
                data=data,
                epsilon=None if real else epsilon,
                metric=metric,
                sources=() if real else _sources(column, data, epsilon),
                why="of the real images themselves, which no release has" if real else "",
            )


@cache
def table_1() -> tuple[Cell, ...]:
    """Five methods on five sets; the column without privacy is our own DC-GAN of `sfumato evaluate --reference`."""
    without = (
        Cell(
            row=where(data, None),
            column="DC-GAN, no privacy",
            printed=value(numbers[0])[0],
            data=data,
            sources=(Source(method="dc-gan"),),
        )
        for data, numbers in numbered(WITHOUT)
    )
    return (*without, *_compared(TABLE_1))


@cache
def table_2() -> tuple[Cell, ...]:
    """Small budgets."""
    return tuple(_compared(TABLE_2))


@cache
def table_3() -> tuple[Cell, ...]:
    """Inception scores."""
    return tuple(_compared(SCORES, "inception-score", ("real images", *COLUMNS)))


@cache
def table_12() -> tuple[Cell, ...]:
    """Inception scores and Frechet distances."""
    columns = ("real images", *COLUMNS)
    scores, distances = (_compared(b, m, columns) for b, m in ((SCORES, "inception-score"), (DISTANCES, "fid")))
    return (*scores, *distances)


def _base(data: str) -> Source:
    """The official settings at epsilon 1, from which the ablations start."""
    name = data if data in ("mnist", "fashion-mnist") else "faces"
    source = Source(f"datalens-code-{name}-1", settings=HAIR[1.0] if data == "celeba-hair" else {})
    return fewer(source) if name == "faces" else source


def _changed(data: str, recipe: str) -> Source:
    """An ablation that has a recipe for Fashion-MNIST, on another set: the same changes to its own base.

    The threshold is one of the noise, so that it goes with the base's; where it is what the ablation changes, it stays.
    """
    if data == "fashion-mnist":
        return Source(recipe)
    base = RECIPES["datalens-code-fashion-mnist-1"].settings
    changes = {f: v for f, v in RECIPES[recipe].settings.items() if base.get(f) != v}
    if "threshold" in changes and len(changes) > 1:
        changes["threshold"] = round(changes["threshold"] * STARTS[data] / STARTS["fashion-mnist"], 4)
    if "batch" in changes:
        changes |= dict.fromkeys(("batch", "teacher_batch"), _each(data, changes["teachers"]))
    start = _base(data)
    return fewer(replace(start, settings={**start.settings, **{f: str(v) for f, v in changes.items()}}))


def _each(data: str, teachers: str | int) -> int:
    return min(MOST, RECORDS[data] // int(teachers))


def _knob(data: str, knob: str, at: str) -> Source:
    """A cell of table 4: one setting away from the base, or the base itself."""
    own = {"k": "200" if "mnist" in data else "700", "teachers": str(TEACHERS[data]), "beta": f"{STARTS[data]:g}"}
    if at == own[knob]:
        return _base(data)
    name = f"datalens-table4-{'topk' if knob == 'k' else knob}-{at}"
    if name in RECIPES:
        return _changed(data, name)
    start = _base(data)
    changes = {"threshold": at if float(at) else "1e-09"} if knob == "beta" else {"topk": at}
    if knob == "teachers":
        part = str(_each(data, at))
        beta = f"{STARTS[data] * TEACHERS[data] / float(at):.4g}"
        changes = {"teachers": at, "threshold": beta, "batch": part, "teacher_batch": part}
    return fewer(replace(start, settings={**start.settings, **changes}))


@cache
def table_4() -> tuple[Cell, ...]:
    """k, teachers and beta, one at a time."""
    found = []
    for name, numbers in numbered(TABLE_4):
        data, knob = name.split()
        half = len(numbers) // 2
        for at, printed in zip(numbers[:half], numbers[half:], strict=True):
            found.append(
                Cell(
                    row=where(data, 1.0),
                    column=KNOBS[knob].format(at),
                    printed=float(printed),
                    data=data,
                    epsilon=1.0,
                    sources=(_knob(data, knob, at),),
                )
            )
    return tuple(found)


def _variants(block: str, columns: dict[str, tuple[str, ...]]) -> tuple[Cell, ...]:
    """Rows of sets at epsilon 1, columns that are recipes of Fashion-MNIST; no recipe is the base."""
    return tuple(
        Cell(
            row=where(data, 1.0),
            column=column,
            printed=float(printed),
            data=data,
            epsilon=1.0,
            sources=tuple(_changed(data, name) for name in names) or (_base(data),),
        )
        for data, numbers in numbered(block)
        for (column, names), printed in zip(columns.items(), numbers, strict=True)
    )


@cache
def table_5() -> tuple[Cell, ...]:
    """TopAgg, D2P-Fed and FetchSGD."""
    names = {
        "TopAgg": (),
        "D2P-Fed": ("datalens-table5-levels", "datalens-table5-levels-sigma-5000"),
        "FetchSGD": ("datalens-table5-sketch", "datalens-table5-sketch-sigma-5000"),
    }
    return _variants(TABLE_5, names)


@cache
def table_7() -> tuple[Cell, ...]:
    """Components left out."""
    names = {
        "DataLens": (),
        "no top-k": ("datalens-table7-dense",),
        "no stochastic signs": ("datalens-table7-plain-signs",),
        "no threshold": ("datalens-table4-beta-0",),
    }
    return _variants(TABLE_7, names)


@cache
def table_6() -> tuple[Cell, ...]:
    """Seconds an epoch; ours are seconds of the votes of one step, so that only ratios compare."""
    from sfumato.bench.compressions import BLOCKS, COMPRESSIONS, block_name

    columns = {"TopAgg": "top-k, stochastic", "D2P-Fed": "levels, rotated", "FetchSGD": "sketch"}
    assert set(columns.values()) <= set(COMPRESSIONS)
    return tuple(
        Cell(
            row=where(data, None),
            column=column,
            printed=float(printed),
            metric="seconds",
            sources=(Source(method=f"{what}: {block_name(BLOCKS['MNIST' if 'mnist' in data else 'CelebA'])}"),),
        )
        for data, numbers in numbered(TABLE_6)
        for (column, what), printed in zip(columns.items(), numbers, strict=True)
    )


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
    return (*_norm("mnist", SPREADS_8A), *_norm("cifar10", SPREADS_8B))


@cache
def table_9() -> tuple[Cell, ...]:
    """k by norm and by dimension."""
    by_dimension = (
        _trained("mnist", float(name), f"dimension {k:g}", topagg.dimension(float(name), k).name, spread)
        for name, spreads in numbered(SPREADS_9)
        for k, spread in zip(topagg.DIMENSIONS, spreads, strict=True)
    )
    return (*_norm("mnist", SPREADS_8A, 3), *by_dimension)


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
        for name, numbers in numbered(TABLE_10)
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


PRINTED_8 = "mean of ten runs, with settings searched for each cell; accuracy of the classifier"
TABLES = (
    Table("datalens-table-1", "accuracy of a classifier on synthetic images, epsilon 1 and 10", BEST, table_1),
    Table("datalens-table-2", "the same under small budgets", BEST, table_2),
    Table("datalens-table-3", "Inception scores", "with classifiers trained on the real sets", table_3, digits=2),
    Table("datalens-table-4", "k, teachers and beta", BEST, table_4),
    Table("datalens-table-5", "gradient compressions", BEST, table_5),
    Table(
        "datalens-table-6",
        "time of the compressions",
        "seconds an epoch on a T4; ours are seconds for the votes of one step, so that only ratios compare",
        table_6,
        heads=("set", "compression"),
        digits=2,
        measure="compressions",
    ),
    Table("datalens-table-7", "components left out", BEST, table_7),
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
    Table(
        "datalens-table-12",
        "Inception scores and Frechet distances",
        "scores as in table 3; distances by the Inception network of ImageNet",
        table_12,
        digits=2,
    ),
)
FIGURES = (
    Figure("datalens-figure-1", "overview of the method", instead="docs/methods/datalens.md"),
    Figure("datalens-figure-2", "epsilon by the data-independent and the data-dependent bound", "dependent_bound"),
    Figure("datalens-figure-3", "privacy against accuracy of TopAgg in DP-SGD", "privacy_accuracy"),
    Figure("datalens-figure-4", "synthetic images", "samples", runs=True),
    Figure("datalens-theorem-6", "bound on the gradient norm against k", "convergence"),
)
