"""The tables of DataLens: numbers typed a second time from the paper, and settings of its ablations."""

from __future__ import annotations

import pytest

from sfumato.bench import datalens
from sfumato.bench.table import Cell, Table
from sfumato.recipes import RECIPES
from sfumato.recipes.topagg import RECIPES as TOPAGG


def cell(cells: tuple[Cell, ...], row: str, column: str, metric: str = "") -> Cell:
    (found,) = [c for c in cells if (c.row, c.column) == (row, column) and c.metric.startswith(metric)]
    return found


@pytest.mark.parametrize(
    ("table", "row", "column", "printed"),
    [
        (1, "MNIST, 1", "DataLens", 0.7123),
        (1, "Places365, 10", "GS-WGAN", 0.3725),
        (1, "CelebA-Hair", "DC-GAN, no privacy", 0.7678),
        (2, "MNIST, 0.8", "DP-GAN", 0.3732),
        (2, "Fashion-MNIST, 0.6", "PATE-GAN", 0.3698),
        (3, "Fashion-MNIST, 10", "GS-WGAN", 5.87),
        (4, "Fashion-MNIST, 1", "beta 0.3", 0.6060),
        (4, "CelebA-Gender, 1", "8000 teachers", 0.6936),
        (5, "MNIST, 1", "FetchSGD", 0.6935),
        (6, "CelebA-Hair", "D2P-Fed", 8092.50),
        (7, "CelebA-Gender, 1", "no threshold", 0.6860),
        (8, "MNIST, 0.5", "k 0.7", 93.50),
        (8, "CIFAR-10, 0.025", "k 0.8", 45.87),
        (9, "MNIST, 0.2", "dimension 0.4", 90.48),
        (10, "MNIST, 0.1", "gm-dp", 85.05),
        (10, "MNIST, 1", "gm-dp", None),
        (11, "MNIST, 0.05", "k 0.8, sigma", 7.4),
    ],
)
def test_printed_values(table, row, column, printed):
    made = datalens.TABLES[table - 1]
    assert made.id == f"datalens-table-{table}"
    assert cell(made.cells, row, column).printed == printed


def test_scores_and_distances_stand_side_by_side():
    cells = datalens.table_12()
    assert cell(cells, "MNIST, 10", "G-PATE", "inception").printed == 5.16
    assert cell(cells, "MNIST, 10", "G-PATE", "fid").printed == 150.62


def test_how_many_cells_there_are():
    sizes = [55, 50, 36, 48, 12, 12, 16, 84, 21, 10, 96, 72]
    assert [len(table.cells) for table in datalens.TABLES] == sizes


def known(table: Table) -> set[str]:
    return {s.recipe for c in table.cells for s in c.sources if s.recipe}


def test_every_recipe_is_here_or_of_a_control():
    """Recipes of baselines may come later; those of DataLens itself are here."""
    named = {name for table in datalens.TABLES for name in known(table)}
    own = {name for name in named if name.startswith(("datalens-", "topagg-"))}
    assert own <= set(RECIPES) | set(TOPAGG)
    assert all(c.sources or c.why or c.value is not None for t in datalens.TABLES for c in t.cells)


def test_an_ablation_on_mnist_changes_what_it_changes_on_fashion_mnist():
    few = cell(datalens.table_4(), "MNIST, 1", "2000 teachers").sources[0]
    assert few.recipe == "datalens-code-mnist-1"
    assert few.settings == {"teachers": "2000", "teacher_batch": "30", "batch": "30", "threshold": "1.4"}
    levels = cell(datalens.table_5(), "MNIST, 1", "D2P-Fed").sources[0]
    own = RECIPES["datalens-table5-levels"].settings
    assert levels.settings["compress"] == "levels" and float(levels.settings["sigma"]) == own["sigma"]
    assert float(levels.settings["threshold"]) == pytest.approx(own["threshold"] * 7 / 9, abs=1e-4)
    base = cell(datalens.table_4(), "MNIST, 1", "k 200").sources[0]
    assert base.recipe == "datalens-code-mnist-1" and not base.settings


def test_ablations_are_settings_that_the_method_takes():
    from sfumato.bench.measure import method_of

    for table in (datalens.table_4(), datalens.table_5(), datalens.table_7()):
        for c in table:
            for source in c.sources:
                assert method_of(source, {**source.settings, **source.on_stand_in}).name == "datalens"


def test_few_faces_have_fewer_teachers_and_the_same_threshold_of_votes():
    source = cell(datalens.table_1(), "CelebA-Gender, 1", "DataLens").sources[0]
    made = RECIPES[source.recipe].settings
    few = source.on_stand_in
    assert int(few["teachers"]) * float(few["threshold"]) == pytest.approx(made["teachers"] * made["threshold"])
