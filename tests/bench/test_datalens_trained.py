"""Tables 8 to 11 of DataLens."""

from __future__ import annotations

import math

from sfumato.bench import datalens_trained as trained
from sfumato.recipes.topagg import RECIPES


def test_spreads_stand_behind_the_means_of_the_recipes():
    (cell,) = [c for c in trained.table_8() if c.row == "MNIST, 0.05" and c.column == "GM-DP"]
    assert (cell.printed, cell.spread) == (78.40, 4.00)
    (dimension,) = [c for c in trained.table_9() if c.row == "MNIST, 0.1" and c.column == "dimension 0.6"]
    assert (dimension.printed, dimension.spread) == (86.41, 0.70)


def test_every_cell_is_a_recipe_or_a_control():
    cells = [*trained.table_8(), *trained.table_9()]
    assert all(c.sources[0].recipe in RECIPES for c in cells)
    assert {c.sources[0].recipe.split("-")[0] for c in trained.table_10()} == {"table10"}
    assert sum(math.isinf(c.epsilon) for c in trained.table_8()) == 8
