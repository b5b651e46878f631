"""The tables and figures of DPAF (Lin et al.), with every number as it is printed.

The printed accuracies belong to the printed procedure, whose guarantee does not hold; recipes are of the sound one, and
the printed one stands beside them where it was run. FairFace's genders stand in for those of CelebA and FFHQ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from sfumato.bench import dpaf_printed as paper
from sfumato.bench.sources import for_column, here, named
from sfumato.bench.table import Cell, Figure, Source, Table, numbered, value, where
from sfumato.recipes import RECIPES
from sfumato.recipes.dpaf import CANONICAL as CANONICAL_SETTINGS
from sfumato.recipes.dpaf import TOPAGG

PRINTED = "mean of five runs of the printed procedure, which is not private"
GENDER, HAIR, FFHQ = "celeba-gender", "celeba-hair", "ffhq-gender"
ROWS = ((GENDER, 1.0), (GENDER, 10.0), (HAIR, 1.0), (HAIR, 10.0))
WITHOUT_CANONICAL = ("X",)  # which has no column of it
PUBLIC = "cifar10"  # the public images of table XI
# k of TopAgg at these (footnote 3), as a share of the numbers of conv2*; the recipe has that of CelebA-Gender at 1.
K = 200.5  # of the recipe
KEPT = {(GENDER, 10.0): 3000, (HAIR, 1.0): 150, (HAIR, 10.0): 200}
CRITICS = (1, 10, 50, 100, 200)
# Methods without a recipe for faces: the settings that served in docs/results.md.
LONG = {"steps": "2000", "width": "64", "batch": "100"}
PLAIN = {
    "DP-MERF": Source(method="dp-merf", settings={**LONG, "features": "20000"}),
    "PEARL": Source(method="pearl", settings={**LONG, "frequencies": "10000"}),
    "DP-HP": Source(method="dp-hp", settings=LONG),
    "P3GM": Source(
        method="p3gm", settings={"steps": "1000", "batch": "2048", "learning_rate": "0.003", "ema_decay": "0.99"}
    ),
}


def canonical(data: str, epsilon: float) -> tuple[Source, ...]:
    """DPAF itself: the canonical recipe, that for the set that stands in, each as printed too, and ours."""
    recipe = {GENDER: "dpaf-paper", HAIR: f"dpaf-paper-hair-{epsilon:g}", FFHQ: f"dpaf-paper-ffhq-{epsilon:g}"}[data]
    if data == GENDER and epsilon != 1:
        recipe = f"dpaf-paper-faces-{epsilon:g}"
    faithful = [recipe] + [chosen(epsilon)] * (data == GENDER)
    ours = f"dpaf-ours-fairface-{epsilon:g}"
    beside = (Source(ours),) if data != HAIR and here(ours) else ()
    return (*(Source(name, as_printed=printed) for name in faithful for printed in (False, True)), *beside)


def chosen(epsilon: float) -> str:
    """The recipe for FairFace, with what the paper leaves open."""
    return named("dpaf", "paper", "fairface", epsilon).recipe


def on_fairface(source: Source, epsilon: float) -> Source:
    """An ablation of the canonical recipe on FairFace: of the recipe that works there, the same thing changed."""
    made = RECIPES[source.recipe].settings
    own = {f: v for f, v in RECIPES[chosen(epsilon)].settings.items() if made.get(f) == CANONICAL_SETTINGS.get(f)}
    return replace(source, on_stand_in={f: str(v) for f, v in own.items() if made.get(f) != v})


def _made_by(column: str, data: str, epsilon: float) -> tuple[Source, ...]:
    if column == "DPAF":
        return canonical(data, epsilon)
    found = for_column(column, data, epsilon)
    return (*found, PLAIN[column]) if column in PLAIN else found


def _compared(block: str, columns: tuple[str, ...], metric: str = "accuracy") -> Iterator[Cell]:
    """A row for each set and budget, a column for each method."""
    for name, numbers in numbered(block):
        data, epsilon = name.split()
        for column, number in zip(columns, numbers, strict=True):
            printed, spread = value(number)
            yield Cell(
                row=where(data, float(epsilon)),
                column=column,
                printed=printed,
                spread=spread,
                data=data,
                epsilon=float(epsilon),
                metric=metric,
                sources=_made_by(column, data, float(epsilon)),
            )


@cache
def table_i() -> tuple[Cell, ...]:
    """Frechet distances."""
    return tuple(_compared(paper.TABLE_I, ("DataLens", "DP-HP", "NDPDC", "PEARL", "DPAF"), "fid"))


@cache
def table_ii() -> tuple[Cell, ...]:
    """Ten methods on CelebA."""
    others = ("GS-WGAN", "DP-MERF", "P3GM", "G-PATE", "DP-Sinkhorn", "DataLens", "DP-HP", "NDPDC", "PEARL")
    return tuple(_compared(paper.TABLE_II, (*others, "DPAF")))


@cache
def table_iii() -> tuple[Cell, ...]:
    """Images of 128 pixels."""
    return tuple(_compared(paper.TABLE_III, ("PEARL", "DPAF")))


@cache
def table_xiv() -> tuple[Cell, ...]:
    """More budgets, and Private-GANs (Bie et al. 2023)."""
    return tuple(_compared(paper.TABLE_XIV, ("NDPDC", "PEARL", "Private-GANs", "DPAF")))


def _ablation(number: str) -> Iterator[Cell]:
    """A column for each recipe, after the canonical one."""
    lines = [(column, words[0], words[1:]) for column, words in numbered(paper.ABLATIONS[number])]
    start = [] if number in WITHOUT_CANONICAL else [("DPAF", "", paper.CANONICAL.split())]
    for column, recipe, numbers in (*start, *lines):
        for (data, epsilon), text in zip(ROWS, numbers, strict=True):
            printed, spread = value(text)
            yield Cell(
                row=where(data, epsilon),
                column=column,
                printed=printed,
                spread=spread,
                data=data,
                epsilon=epsilon,
                sources=(_changed(recipe, data, epsilon),) if recipe else canonical(data, epsilon),
            )


def _changed(recipe: str, data: str, epsilon: float) -> Source:
    """A recipe of an ablation, which is made for CelebA-Gender at epsilon 1, at another set or budget."""
    source = Source(recipe, public=PUBLIC if recipe.startswith("dpaf-tableXI-") else "")
    kept = KEPT.get((data, epsilon)) if recipe == "dpaf-tableXII-topagg" else None
    source = replace(source, settings={"keep": f"{(kept + 0.5) / K * TOPAGG:.6g}"}) if kept else source
    return on_fairface(source, epsilon) if data == GENDER else source


@cache
def ablation(number: str) -> tuple[Cell, ...]:
    """The cells of a table from IV to XIII, by rows."""
    cells = list(_ablation(number))
    return tuple(sorted(cells, key=lambda c: ROWS.index((c.data, c.epsilon or 0))))


@cache
def critics(number: str) -> tuple[Cell, ...]:
    """n_critic, for Private-GANs and for DPAF with mu 1 and 8."""
    data, block = (GENDER, paper.TABLE_XV) if number == "XV" else (HAIR, paper.TABLE_XVI)
    return tuple(
        Cell(
            row=f"{called}, {epsilon}",
            column=f"n {n}",
            printed=float(printed),
            data=data,
            epsilon=float(epsilon),
            sources=_critic(number, called, n, data, float(epsilon)),
        )
        for name, numbers in numbered(block)
        for called, epsilon in [name.split()]
        for n, printed in zip(CRITICS, numbers, strict=True)
    )


def _critic(number: str, called: str, n: int, data: str, epsilon: float) -> tuple[Source, ...]:
    if called == "Private-GANs":
        return (replace(for_column(called, data, epsilon)[0], settings={"critic_steps": str(n)}),)
    if called == "DPAF-8" and n == 1:
        return canonical(data, epsilon)
    source = Source(f"dpaf-table{number}-" + (f"critic-{n}" if called == "DPAF-8" else f"mu-1-critic-{n}"))
    return (on_fairface(source, epsilon) if data == GENDER else source,)


@cache
def table_xvii() -> tuple[Cell, ...]:
    """AUC of GAN-Leaks against training sets of 64 and 128 images."""
    from sfumato.evaluate.attacks.recipes import DPAF_TABLE_XVII

    return tuple(
        Cell(
            row=row,
            column=f"{size} images",
            printed=printed,
            data=GENDER,
            epsilon=None if row == "SGD" else float(row.split()[1]),
            metric="auc",
            sources=(Source(method=f"{'dc-gan' if row == 'SGD' else 'dpaf'} under attack, {size} images"),),
        )
        for row, sizes in DPAF_TABLE_XVII.items()
        for size, printed in sizes.items()
    )


def _table(number: int, roman: str, shows: str, make: str = "") -> Table:
    cells = {"critics": critics, "": ablation}[make]
    return Table(f"dpaf-table-{number}", shows, PRINTED, lambda: cells(roman), digits=3)


TABLES = (
    Table("dpaf-table-1", "Frechet distances on CelebA", "by the Inception network of ImageNet", table_i, digits=0),
    Table("dpaf-table-2", "accuracy of ten methods on CelebA", PRINTED, table_ii, digits=3),
    Table("dpaf-table-3", "images of 128 pixels", PRINTED, table_iii, digits=3),
    _table(4, "IV", "conv1 random"),
    _table(5, "V", "conv1 updated in the game"),
    _table(6, "VI", "conv1 and conv2* updated together"),
    _table(7, "VII", "split of the budget"),
    _table(8, "VIII", "layers of conv1, conv2* and conv3*"),
    _table(9, "IX", "asymmetry multiplier mu"),
    _table(10, "X", "layers of conv1 and conv2*"),
    _table(11, "XI", "pre-training on public images"),
    _table(12, "XII", "gradient compression"),
    _table(13, "XIII", "tempered sigmoids"),
    Table(
        "dpaf-table-14",
        "more budgets, beside Private-GANs",
        "mean of 50 runs, otherwise as in table II",
        table_xiv,
        digits=3,
    ),
    _table(15, "XV", "n_critic on CelebA-Gender", "critics"),
    _table(16, "XVI", "n_critic on CelebA-Hair", "critics"),
    Table(
        "dpaf-table-17",
        "membership inference against few records",
        "AUC of GAN-Leaks, full black box",
        table_xvii,
        heads=("trained by", "training set"),
        digits=3,
        measure="attack",
    ),
)
FIGURES = (
    *(
        Figure(f"dpaf-figure-{n}", shows, instead="docs/methods/dpaf.md")
        for n, shows in enumerate(
            (
                "aggregation shortens the gradient",
                "aggregation keeps the structure of the gradient",
                "aggregated features bear more noise",
                "architecture",
                "the classifier's update",
                "the game's update",
                "asymmetric training",
            ),
            1,
        )
    ),
    Figure("dpaf-figure-8", "the classifier that judges", "classifier"),
    Figure("dpaf-figure-9", "synthetic faces at epsilon 10", instead="docs/images/samples/faces-10.png"),
    Figure("dpaf-figure-10", "synthetic faces at epsilon 1", instead="docs/images/samples/faces-1.png"),
    Figure("dpaf-figure-11", "faces of 128 pixels", instead="docs/images/samples/dpaf-128.png"),
)
