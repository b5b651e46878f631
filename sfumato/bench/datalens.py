"""The tables and figures of DataLens (Wang et al., CCS 2021), with every number as it is printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from sfumato.bench import datalens_printed as paper
from sfumato.bench import datalens_trained as trained
from sfumato.bench.sources import for_column
from sfumato.bench.table import Cell, Figure, Source, Table, numbered, value, where
from sfumato.recipes import RECIPES

BEST = "the paper's test accuracy, by its official code the best of 600 test epochs"
COLUMNS = ("DP-GAN", "PATE-GAN", "G-PATE", "GS-WGAN", "DataLens")
KNOBS = {"k": "k {}", "teachers": "{} teachers", "beta": "beta {}"}
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
        for data, numbers in numbered(paper.WITHOUT)
    )
    return (*without, *_compared(paper.TABLE_1))


@cache
def table_2() -> tuple[Cell, ...]:
    """Small budgets."""
    return tuple(_compared(paper.TABLE_2))


@cache
def table_3() -> tuple[Cell, ...]:
    """Inception scores."""
    return tuple(_compared(paper.SCORES, "inception-score", ("real images", *COLUMNS)))


@cache
def table_12() -> tuple[Cell, ...]:
    """Inception scores and Frechet distances."""
    columns = ("real images", *COLUMNS)
    scores, distances = (
        _compared(b, m, columns) for b, m in ((paper.SCORES, "inception-score"), (paper.DISTANCES, "fid"))
    )
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
    for name, numbers in numbered(paper.TABLE_4):
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
    return _variants(paper.TABLE_5, names)


@cache
def table_7() -> tuple[Cell, ...]:
    """Components left out."""
    names = {
        "DataLens": (),
        "no top-k": ("datalens-table7-dense",),
        "no stochastic signs": ("datalens-table7-plain-signs",),
        "no threshold": ("datalens-table4-beta-0",),
    }
    return _variants(paper.TABLE_7, names)


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
        for data, numbers in numbered(paper.TABLE_6)
        for (column, what), printed in zip(columns.items(), numbers, strict=True)
    )


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
    *trained.TABLES,
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
