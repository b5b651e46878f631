"""The tables of DPAF: numbers typed a second time from the paper, and what makes them."""

from __future__ import annotations

import pytest

from sfumato.bench import dpaf
from sfumato.recipes import RECIPES


@pytest.mark.parametrize(
    ("table", "row", "column", "printed", "spread"),
    [
        (1, "CelebA-Gender, 10", "NDPDC", 183, None),
        (1, "CelebA-Hair, 1", "DataLens", None, None),
        (2, "CelebA-Gender, 1", "DPAF", 0.802, None),
        (2, "CelebA-Hair, 10", "DP-Sinkhorn", None, None),
        (2, "CelebA-Hair, 1", "PEARL", 0.606, None),
        (3, "FFHQ-Gender, 10", "DPAF", 0.646, 0.004),
        (4, "CelebA-Gender, 10", "random, (x, 0.2)", 0.700, 0.093),
        (5, "CelebA-Hair, 1", "(0.1, x, 0.1) in the game", 0.424, 0.079),
        (6, "CelebA-Hair, 10", "joint, (x, 0.1)", 0.660, 0.018),
        (7, "CelebA-Hair, 1", "(40%, 20%, 40%)", 0.454, 0.150),
        (8, "CelebA-Gender, 10", "C2-C1-C2", 0.514, 0.091),
        (9, "CelebA-Gender, 1", "mu 4", 0.688, 0.070),
        (10, "CelebA-Gender, 1", "C2-C1-x", 0.824, 0.025),
        (11, "CelebA-Hair, 10", "Trans(G + D)", 0.703, 0.015),
        (12, "CelebA-Gender, 10", "TopAgg", 0.530, 0.097),
        (13, "CelebA-Gender, 1", "tempered sigmoid", 0.802, 0.015),
        (14, "CelebA-Hair, 5", "PEARL", 0.609, None),
        (15, "DPAF-8, 10", "n 1", 0.789, None),
        (16, "Private-GANs, 5", "n 50", 0.416, None),
        (17, "epsilon 0.5", "64 images", 0.479, None),
    ],
)
def test_printed_values(table, row, column, printed, spread):
    made = dpaf.TABLES[table - 1]
    assert made.id == f"dpaf-table-{table}"
    (found,) = [c for c in made.cells if (c.row, c.column) == (row, column)]
    assert (found.printed, found.spread) == (printed, spread)


def test_how_many_cells_there_are():
    sizes = [20, 40, 4, 12, 12, 12, 44, 20, 20, 24, 12, 12, 8, 32, 60, 60, 10]
    assert [len(table.cells) for table in dpaf.TABLES] == sizes


def test_every_recipe_of_dpaf_is_here_and_has_the_printed_value_of_its_cell():
    told = {}
    for table in dpaf.TABLES:
        for cell in table.cells:
            for source in (s for s in cell.sources if s.recipe.startswith("dpaf-")):
                recipe = RECIPES[source.recipe]
                same = (cell.data, cell.epsilon) == (recipe.data, recipe.epsilon) and cell.metric == "accuracy"
                if same and recipe.published is not None and not table.id.endswith(("-15", "-16")):
                    told[source.recipe] = (cell.printed, recipe.published)
    assert len(told) > 30 and all(printed == published for printed, published in told.values())


def test_public_images_go_with_the_table_that_starts_from_them():
    named = {s.recipe: s.public for c in dpaf.ablation("XI") for s in c.sources}
    assert named["dpaf-tableXI-trans-d"] == named["dpaf-tableXI-trans-gd"] == "cifar10" and not named["dpaf-paper"]


def test_topagg_keeps_as_many_values_as_its_footnote_says():
    (source,) = next(
        c.sources for c in dpaf.ablation("XII") if (c.data, c.epsilon, c.column) == (dpaf.GENDER, 10.0, "TopAgg")
    )
    share = RECIPES["dpaf-tableXII-topagg"].settings["keep"]
    assert float(source.settings["keep"]) / share == pytest.approx(3000.5 / 200.5, rel=1e-4)


def test_an_ablation_on_fairface_changes_the_recipe_that_works_there():
    chosen = RECIPES["dpaf-paper-fairface-1"].settings
    (source,) = next(c.sources for c in dpaf.ablation("IX") if c.column == "mu 20" and c.data == dpaf.GENDER)
    assert source.on_stand_in["width"] == str(chosen["width"]) and "mu" not in source.on_stand_in
    (layout,) = next(c.sources for c in dpaf.ablation("VIII") if c.column == "C1-C3-C1" and c.data == dpaf.GENDER)
    assert "layout" not in layout.on_stand_in and layout.on_stand_in["width"] == str(chosen["width"])
