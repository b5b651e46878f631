"""The recipes of DPAF against the tables of its paper."""

from __future__ import annotations

import pytest

from sfumato.recipes import RECIPES
from sfumato.recipes.dpaf import TABLES, TOPAGG, every

# Cells of a table that differ in settings or in the set, at epsilon 1, without the canonical ones.
CELLS = {
    "III": 2,
    "IV": 2,
    "V": 2,
    "VI": 2,
    "VII": 10,
    "VIII": 4,
    "IX": 4,
    "X": 6,
    "XI": 2,
    "XII": 2,
    "XIII": 1,
    "XV": 9,
    "XVI": 9,
}


@pytest.mark.parametrize("table", CELLS)
def test_every_cell_of_a_table_is_there(table):
    made = [r for r in every() if r.paper == f"table {table}"]
    assert len(made) == CELLS[table] and all(r.published for r in made)
    assert set(TABLES[table]) == {"dpaf-paper", *(r.name for r in made)}
    assert all(r.method == "dpaf" and r.kind == "paper" for r in made)


def test_two_sets_have_four_budgets():
    made = {(r.data, r.epsilon) for r in every() if r.paper in ("table II", "table XIV")}
    assert made == {(data, e) for data in ("celeba-gender", "celeba-hair") for e in (0.5, 1.0, 5.0, 10.0)}


def test_the_canonical_recipe_is_the_papers():
    settings = RECIPES["dpaf-paper"].settings
    wanted = {"batch": 64, "latent": 100, "mu": 8, "keep": 0.9, "split": "0.1,x,0.1", "activation": "leaky"}
    assert wanted.items() <= settings.items() and settings["layout"] == "C2-C2-C1"
    assert RECIPES["dpaf-paper-ffhq-1"].settings["layout"] == "C3-C1-x"


def test_topagg_keeps_two_hundred_numbers():
    from sfumato.engine.gradients.topk import Largest, count_of

    recipe = RECIPES["dpaf-tableXII-topagg"]
    config = recipe.make().config(recipe.spec())
    assert config.conv2.clip == Largest(1.0, TOPAGG, signs=True)
    assert count_of(TOPAGG, 1_581_568) == 200
