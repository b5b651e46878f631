"""Recipes: verified settings for the tables of the papers, as plain data. A family is a file of functions."""

from __future__ import annotations

import math
from difflib import get_close_matches

from sfumato.errors import InputError
from sfumato.recipes import adversarial, baselines, datalens, dp_vae, dpaf, dpdm, dpgan, topagg
from sfumato.recipes.recipe import KINDS, Recipe

__all__ = ["CLASSIFIERS", "KINDS", "RECIPES", "TABLES", "Recipe", "find", "find_any"]

FAMILIES = (datalens, dpaf, dpgan, dpdm, dp_vae, adversarial, baselines)
RECIPES: dict[str, Recipe] = {recipe.name: recipe for family in FAMILIES for recipe in family.every()}
# Of `sfumato train-classifier`, which runs those with a budget.
CLASSIFIERS: dict[str, Recipe] = {name: r for name, r in topagg.RECIPES.items() if math.isfinite(r.epsilon)}
TABLES: dict[str, tuple[str, ...]] = datalens.TABLES  # of the DataLens paper: the recipes of each


def find(name: str) -> Recipe:
    """The recipe of this name, of a method that makes images.

    >>> find("datalens-code-fashion-mnist-1").settings["topk"]
    200
    """
    recipe = find_any(name)
    if recipe.method == topagg.METHOD:
        raise InputError(f"The recipe {name} is of a classifier; use `sfumato train-classifier DATA --recipe {name}`.")
    return recipe


def find_any(name: str) -> Recipe:
    """The recipe of this name, of images or of a classifier."""
    every = RECIPES | CLASSIFIERS
    if name in every:
        return every[name]
    near = get_close_matches(name, every, n=3, cutoff=0.4) or list(RECIPES)[:3]
    raise InputError(f"There is no recipe '{name}'; did you mean {' or '.join(near)}? See `sfumato recipes`.")
