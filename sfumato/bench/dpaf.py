"""The tables and figures of DPAF (Lin et al.), with every number as it is printed.

The printed accuracies belong to the printed procedure, whose guarantee does not hold; recipes are of the sound one, and
the printed one stands beside them where it was run. FairFace's genders stand in for those of CelebA and FFHQ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from sfumato.bench.sources import for_column, here, named
from sfumato.bench.table import Cell, Figure, Source, Table, numbered, value, where
from sfumato.recipes import RECIPES
from sfumato.recipes.dpaf import CANONICAL as CANONICAL_SETTINGS
from sfumato.recipes.dpaf import TOPAGG

PRINTED = "mean of five runs of the printed procedure, which is not private"
GENDER, HAIR, FFHQ = "celeba-gender", "celeba-hair", "ffhq-gender"
TABLE_I = """
    celeba-gender 1   298 352 235 303 285
    celeba-gender 10  320 341 183 302 298
    celeba-hair 1     x 339 239 338 301
    celeba-hair 10    x 340 185 337 298
"""
TABLE_II = """
    celeba-gender 1   0.590 0.594 0.567 0.670 0.543 0.700 0.656 0.540 0.634 0.802
    celeba-gender 10  0.614 0.608 0.588 0.690 0.621 0.729 0.617 0.600 0.646 0.826
    celeba-hair 1     0.420 0.441 0.453 0.499 x 0.606 0.561 0.498 0.606 0.675
    celeba-hair 10    0.523 0.449 0.486 0.622 x 0.622 0.474 0.462 0.626 0.671
"""
TABLE_III = """
    ffhq-gender 1   0.441±0.019 0.567±0.038
    ffhq-gender 10  0.511±0.027 0.646±0.004
"""
# Tables IV to XIII: a row for each set and budget; the canonical column is the same in all.
CANONICAL = "0.802±0.018 0.826±0.010 0.675±0.013 0.671±0.014"
ROWS = ((GENDER, 1.0), (GENDER, 10.0), (HAIR, 1.0), (HAIR, 10.0))
# Table: (column, recipe, its printed values in the order of ROWS).
ABLATIONS = {
    "IV": """
        random, (x, 0.5)  dpaf-tableIV-random-0.5 0.752±0.045 0.793±0.024 0.635±0.035 0.681±0.015
        random, (x, 0.2)  dpaf-tableIV-random-0.2 0.774±0.012 0.700±0.093 0.667±0.029 0.670±0.016
    """,
    "V": """
        (0.1, x, 0.1) in the game      dpaf-tableV-game 0.594±0.112 0.747±0.100 0.424±0.079 0.599±0.116
        (33%, 34%, 33%) in the game    dpaf-tableV-game-33-34-33 0.727±0.143 0.817±0.024 0.642±0.038 0.685±0.018
    """,
    "VI": """
        joint, (50%, 50%)  dpaf-tableVI-joint-half 0.768±0.036 0.759±0.030 0.661±0.034 0.648±0.038
        joint, (x, 0.1)    dpaf-tableVI-joint-0.1 0.748±0.072 0.790±0.020 0.643±0.028 0.660±0.018
    """,
    "VII": """
        (20%, 20%, 60%)  dpaf-tableVII-20-20-60 0.741±0.074 0.787±0.018 0.570±0.144 0.639±0.031
        (20%, 60%, 20%)  dpaf-tableVII-20-60-20 0.801±0.035 0.820±0.020 0.663±0.031 0.619±0.038
        (20%, 40%, 40%)  dpaf-tableVII-20-40-40 0.793±0.030 0.790±0.017 0.657±0.023 0.659±0.016
        (30%, 20%, 50%)  dpaf-tableVII-30-20-50 0.771±0.035 0.767±0.040 0.643±0.046 0.598±0.050
        (30%, 50%, 20%)  dpaf-tableVII-30-50-20 0.795±0.033 0.813±0.013 0.666±0.024 0.577±0.094
        (30%, 40%, 30%)  dpaf-tableVII-30-40-30 0.791±0.012 0.799±0.022 0.677±0.011 0.610±0.018
        (30%, 30%, 40%)  dpaf-tableVII-30-30-40 0.704±0.164 0.799±0.023 0.653±0.024 0.643±0.012
        (40%, 30%, 30%)  dpaf-tableVII-40-30-30 0.745±0.102 0.797±0.015 0.646±0.039 0.628±0.011
        (40%, 20%, 40%)  dpaf-tableVII-40-20-40 0.759±0.025 0.782±0.032 0.454±0.150 0.634±0.036
        (40%, 40%, 20%)  dpaf-tableVII-40-40-20 0.763±0.038 0.798±0.022 0.641±0.064 0.645±0.021
    """,
    "VIII": """
        C1-C3-C1  dpaf-tableVIII-C1-C3-C1 0.448±0.164 0.727±0.039 0.356±0.077 0.368±0.074
        C2-C1-C1  dpaf-tableVIII-C2-C1-C1 0.673±0.099 0.803±0.022 0.540±0.036 0.664±0.035
        C2-C1-C2  dpaf-tableVIII-C2-C1-C2 0.505±0.067 0.514±0.091 0.354±0.038 0.352±0.055
        C3-C1-C1  dpaf-tableVIII-C3-C1-C1 0.800±0.017 0.820±0.015 0.669±0.018 0.670±0.016
    """,
    "IX": """
        mu 2   dpaf-tableIX-mu-2 0.775±0.037 0.665±0.162 0.578±0.094 0.670±0.027
        mu 4   dpaf-tableIX-mu-4 0.688±0.070 0.819±0.033 0.642±0.038 0.666±0.041
        mu 10  dpaf-tableIX-mu-10 0.772±0.036 0.745±0.010 0.656±0.017 0.670±0.015
        mu 20  dpaf-tableIX-mu-20 0.773±0.030 0.735±0.110 0.648±0.011 0.668±0.020
    """,
    "X": """
        C1-C1-x  dpaf-tableX-C1-C1-x 0.629±0.040 0.720±0.045 0.423±0.089 0.565±0.019
        C1-C2-x  dpaf-tableX-C1-C2-x 0.737±0.025 0.733±0.038 0.475±0.120 0.644±0.024
        C2-C1-x  dpaf-tableX-C2-C1-x 0.824±0.025 0.762±0.079 0.643±0.014 0.639±0.039
        C1-C3-x  dpaf-tableX-C1-C3-x 0.661±0.144 0.729±0.032 0.662±0.019 0.657±0.023
        C2-C2-x  dpaf-tableX-C2-C2-x 0.805±0.021 0.786±0.018 0.519±0.095 0.683±0.022
        C3-C1-x  dpaf-tableX-C3-C1-x 0.811±0.020 0.751±0.036 0.623±0.038 0.659±0.019
    """,
    "XI": """
        Trans(D)      dpaf-tableXI-trans-d 0.819±0.020 0.830±0.018 0.663±0.038 0.695±0.036
        Trans(G + D)  dpaf-tableXI-trans-gd 0.820±0.027 0.831±0.023 0.695±0.015 0.703±0.015
    """,
    "XII": """
        no compression  dpaf-tableXII-no-compression 0.725±0.150 0.818±0.022 0.673±0.016 0.678±0.017
        TopAgg          dpaf-tableXII-topagg 0.549±0.075 0.530±0.097 0.359±0.079 0.375±0.056
    """,
    "XIII": """
        tempered sigmoid  dpaf-tableXIII-tanh 0.802±0.015 0.806±0.025 0.594±0.031 0.620±0.043
    """,
}
WITHOUT_CANONICAL = ("X",)  # which has no column of it
PUBLIC = "cifar10"  # the public images of table XI
# k of TopAgg at these (footnote 3), as a share of the numbers of conv2*; the recipe has that of CelebA-Gender at 1.
K = 200.5  # of the recipe
KEPT = {(GENDER, 10.0): 3000, (HAIR, 1.0): 150, (HAIR, 10.0): 200}
TABLE_XIV = """
    celeba-gender 0.5  0.518 0.655 0.620 0.768
    celeba-gender 1    0.540 0.634 0.663 0.802
    celeba-gender 5    0.535 0.639 0.679 0.789
    celeba-gender 10   0.600 0.646 0.714 0.826
    celeba-hair 0.5    0.497 0.592 0.513 0.663
    celeba-hair 1      0.498 0.606 0.474 0.675
    celeba-hair 5      0.469 0.609 0.508 0.680
    celeba-hair 10     0.462 0.626 0.540 0.671
"""
CRITICS = (1, 10, 50, 100, 200)
TABLE_XV = """
    Private-GANs 0.5  0.468 0.448 0.612 0.620 0.598
    Private-GANs 1    0.570 0.541 0.629 0.663 0.498
    Private-GANs 5    0.584 0.572 0.652 0.680 0.634
    Private-GANs 10   0.607 0.673 0.677 0.714 0.623
    DPAF-1 0.5        0.490 0.650 0.511 0.463 0.515
    DPAF-1 1          0.507 0.666 0.491 0.466 0.549
    DPAF-1 5          0.535 0.690 0.500 0.524 0.496
    DPAF-1 10         0.503 0.666 0.552 0.452 0.546
    DPAF-8 0.5        0.501 0.668 0.579 0.500 0.517
    DPAF-8 1          0.567 0.725 0.573 0.537 0.510
    DPAF-8 5          0.687 0.715 0.524 0.511 0.503
    DPAF-8 10         0.789 0.690 0.556 0.519 0.472
"""
TABLE_XVI = """
    Private-GANs 0.5  0.513 0.441 0.488 0.411 0.356
    Private-GANs 1    0.474 0.437 0.366 0.355 0.357
    Private-GANs 5    0.508 0.498 0.416 0.408 0.405
    Private-GANs 10   0.540 0.491 0.466 0.454 0.373
    DPAF-1 0.5        0.367 0.533 0.368 0.356 0.331
    DPAF-1 1          0.301 0.467 0.358 0.372 0.333
    DPAF-1 5          0.353 0.518 0.357 0.332 0.345
    DPAF-1 10         0.379 0.523 0.351 0.375 0.324
    DPAF-8 0.5        0.616 0.540 0.366 0.343 0.306
    DPAF-8 1          0.345 0.514 0.361 0.345 0.319
    DPAF-8 5          0.468 0.524 0.329 0.367 0.319
    DPAF-8 10         0.556 0.513 0.357 0.347 0.308
"""
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
    return tuple(_compared(TABLE_I, ("DataLens", "DP-HP", "NDPDC", "PEARL", "DPAF"), "fid"))


@cache
def table_ii() -> tuple[Cell, ...]:
    """Ten methods on CelebA."""
    others = ("GS-WGAN", "DP-MERF", "P3GM", "G-PATE", "DP-Sinkhorn", "DataLens", "DP-HP", "NDPDC", "PEARL")
    return tuple(_compared(TABLE_II, (*others, "DPAF")))


@cache
def table_iii() -> tuple[Cell, ...]:
    """Images of 128 pixels."""
    return tuple(_compared(TABLE_III, ("PEARL", "DPAF")))


@cache
def table_xiv() -> tuple[Cell, ...]:
    """More budgets, and Private-GANs (Bie et al. 2023)."""
    return tuple(_compared(TABLE_XIV, ("NDPDC", "PEARL", "Private-GANs", "DPAF")))


def _ablation(number: str) -> Iterator[Cell]:
    """A column for each recipe, after the canonical one."""
    lines = [(column, words[0], words[1:]) for column, words in numbered(ABLATIONS[number])]
    start = [] if number in WITHOUT_CANONICAL else [("DPAF", "", CANONICAL.split())]
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
    data, block = (GENDER, TABLE_XV) if number == "XV" else (HAIR, TABLE_XVI)
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
