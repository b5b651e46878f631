"""Recipes of TopAgg: the numbers of the paper's Tables 8, 9 and 11."""

from __future__ import annotations

import math

import pytest

from sfumato import InputError
from sfumato.classify import Classifier
from sfumato.recipes import topagg


def test_there_is_one_for_each_cell():
    assert len(topagg.TABLES["8"]) == 8 * 4 and len(topagg.TABLES["8b"]) == 13 * 4
    assert len(topagg.TABLES["9"]) == 3 * 7
    assert all(topagg.RECIPES[name].published for names in topagg.TABLES.values() for name in names)


def test_settings_are_those_of_table_11():
    found = topagg.find("topagg-mnist-norm-0.6-1")
    wanted = {
        "clip": 16.0,
        "sigma": 1.6,
        "batch": 512,
        "learning_rate": 0.08,
        "k": 0.6,
        "momentum": 0.0,
        "network": "cnn",
    }
    made = Classifier(**found.settings).settings()
    assert {name: made[name] for name in wanted} == wanted
    assert found.published == 0.9513
    assert topagg.find("topagg-mnist-dimension-0.2-0.1").settings["by"] == "dimension"


@pytest.mark.parametrize("name", sorted(topagg.RECIPES))
def test_each_makes_a_classifier(name):
    recipe = topagg.RECIPES[name]
    assert Classifier(**recipe.settings).k == recipe.settings.get("k", 1.0) and recipe.method == "classifier"


def test_each_given_budget_has_a_plan():
    for epsilon in (0.05, 1.0):
        recipe = topagg.topagg("mnist", epsilon, 0.8)
        plan = Classifier(**recipe.settings).plan(recipe.spec(), recipe.budget())
        assert plan.epsilon() <= epsilon < plan.paper["epsilon"]
        assert plan.facts["steps"] == topagg.STEPS["mnist", epsilon][2]


def test_between_budgets_the_nearest_is_taken():
    between = topagg.topagg("mnist", 0.1, 1.0)
    assert "epsilon 0.05" in between.note and "sigma" not in between.settings and between.settings["steps"] == 4357
    assert "not a private run" in topagg.topagg("mnist", math.inf, 1.0).note


def test_an_unknown_one_is_refused():
    with pytest.raises(InputError, match="did you mean topagg-mnist"):
        topagg.find("topagg-mnist-norm-1")
