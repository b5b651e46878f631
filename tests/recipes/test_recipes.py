"""The recipes: names, settings, plans, and the papers' own counts."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from sfumato import InputError, api
from sfumato.accounting.claims import datalens_queries
from sfumato.methods import find as find_method
from sfumato.recipes import FAMILIES, KINDS, RECIPES, TABLES, Recipe, find
from sfumato.recipes.datalens import EPSILONS, SETS

# Steps that the official code takes until its epsilon is spent (published.md 2.2): k, sigma, images a step.
STEPS = {
    "mnist-1": (200, 5000, 15, 86),
    "fashion-mnist-1": (200, 5000, 15, 86),
    "faces-1": (700, 9000, 30, 40),
    "mnist-10": (300, 800, 15, 109),
    "fashion-mnist-10": (350, 1000, 15, 146),
    "faces-10": (500, 700, 30, 25),
}


def one_of_each_table():
    """All recipes; of those of one table of DPAF, whose plans take long, the first is in the default run."""
    seen = set()
    for recipe in RECIPES.values():
        table = (recipe.method, recipe.paper)
        again = recipe.method == "dpaf" and recipe.kind == "paper" and table in seen
        seen.add(table)
        yield pytest.param(recipe, id=recipe.name, marks=[pytest.mark.slow] if again else [])


@pytest.mark.parametrize("recipe", list(one_of_each_table()))
def test_every_recipe_makes_a_plan_within_its_budget(recipe):
    method = recipe.make()
    assert set(recipe.settings) <= set(find_method(recipe.method)().settings())
    assert all(getattr(method, field) == value for field, value in recipe.settings.items())
    assert all(type(value) is type(method.settings()[field]) for field, value in recipe.settings.items())
    plan = method.plan(recipe.spec(), recipe.budget())
    assert recipe.epsilon * 0.85 < plan.epsilon() <= recipe.epsilon * (1 + 1e-9)
    assert plan.facts.get("steps", recipe.settings.get("steps")) >= 1
    told = ("delta=", "The set has")  # the papers' delta, whatever the records; the size of a fixed set
    assert [w for w in plan.warnings if not w.startswith(told)] == []
    assert api.make_method(recipe.method, recipe.texts()) == method


def test_names_are_unique_and_say_what_they_are():
    assert sum(len(list(family.every())) for family in FAMILIES) == len(RECIPES)
    for name, recipe in RECIPES.items():
        family = "datalens-ours" if recipe.method == "kernel-votes" else recipe.method
        assert name == recipe.name and name.startswith(family) and recipe.kind in KINDS
        assert recipe.note.endswith(".") and recipe.paper


def test_no_two_recipes_are_the_same():
    told = [(r.data, r.epsilon, tuple(sorted(r.settings.items()))) for r in RECIPES.values()]
    assert len(set(told)) == len(told)


def test_each_set_has_every_epsilon():
    wanted = {f"datalens-{kind}-{name}-{e:g}" for kind in ("paper", "ours") for name in SETS for e in EPSILONS}
    assert wanted | {f"datalens-code-{cell}" for cell in STEPS} <= set(RECIPES)


@pytest.mark.parametrize("data", ["mnist", "fashion-mnist"])
def test_the_paper_counts_as_it_does(data):
    for epsilon, ours, theirs in ((1, 2245, 1301), (10, 2315, 1793)):
        recipe = find(f"datalens-paper-{data}-{epsilon}")
        plan = recipe.make().plan(recipe.spec(), recipe.budget())
        assert (plan.facts["queries_max"], plan.paper["queries_max"]) == (ours, theirs)


def test_paper_and_code_differ_where_they_do():
    paper, code = find("datalens-paper-mnist-10").settings, find("datalens-code-mnist-10").settings
    changed = {field for field in paper if paper[field] != code[field]}
    assert changed == {"latent_distribution", "topk", "sigma", "threshold"} and set(paper) == set(code)


@pytest.mark.parametrize("cell", STEPS)
def test_the_code_stops_when_it_does(cell):
    k, sigma, batch, steps = STEPS[cell]
    recipe = find(f"datalens-code-{cell}")
    assert [recipe.settings[field] for field in ("topk", "sigma", "batch")] == [k, sigma, batch]
    # The code tries the orders 1.1 and 2 to 199 alone, and stops before the step that would exceed epsilon.
    orders = [1.1, *range(2, 200)]
    spent = lambda t: min(2 * k * a * t * batch / sigma**2 + math.log(1e5) / (a - 1) for a in orders)  # noqa: E731
    assert spent(steps) <= recipe.epsilon < spent(steps + 1)
    assert 0 <= datalens_queries(k, sigma, recipe.epsilon) // batch - steps <= 1


def test_beta_lies_where_the_paper_says():
    for recipe in RECIPES.values():
        if recipe.kind != "paper" or "table" in recipe.name or not recipe.settings.get("threshold"):
            continue
        beta, least = recipe.settings["threshold"], recipe.settings["sigma"] / recipe.settings["teachers"] / 2
        assert least <= beta <= 2 * least, recipe.name


def test_tables_name_recipes_and_begin_with_the_base():
    assert {name for names in TABLES.values() for name in names} <= set(RECIPES)
    for table in "457":
        assert TABLES[table][0] == "datalens-code-fashion-mnist-1"
        made = [find(name) for name in TABLES[table]]
        assert {(r.data, r.epsilon) for r in made} == {("fashion-mnist", 1.0)}


def test_compressions_get_as_many_steps_as_the_votes_they_replace():
    for name in ("levels", "rotated-levels", "lattice", "sketch"):
        recipe = find(f"datalens-table5-{name}")
        assert recipe.make().plan(recipe.spec(), recipe.budget()).facts["steps"] == 149


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(InputError, match="datalens-paper-mnist-1 "):
        find("datalens-paper-mnst-1")
    with pytest.raises(InputError, match="sfumato recipes"):
        find("")


def test_a_recipe_has_a_kind():
    with pytest.raises(ValueError, match="kind=paper or kind=code or kind=ours"):
        Recipe(**{**find("datalens-small-fashion-mnist-10").to_json(), "kind": "rumour"})


def test_make_takes_changes():
    assert find("datalens-code-mnist-1").make(blur=1.0).blur == 1.0


def test_recipes_are_light():
    line = "import sys, sfumato.recipes; print([m for m in ('torch', 'numpy', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
