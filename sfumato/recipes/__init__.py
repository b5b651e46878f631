"""Recipes: verified settings for the tables of the papers, as plain data. A family is a file of functions."""

from __future__ import annotations

from difflib import get_close_matches

from sfumato.errors import InputError
from sfumato.recipes import datalens, dp_vae, dpaf, dpdm, dpgan
from sfumato.recipes.recipe import KINDS, Recipe

__all__ = ["KINDS", "RECIPES", "TABLES", "Recipe", "find"]

FAMILIES = (datalens, dpaf, dpgan, dpdm, dp_vae)
RECIPES: dict[str, Recipe] = {recipe.name: recipe for family in FAMILIES for recipe in family.every()}
TABLES: dict[str, tuple[str, ...]] = datalens.TABLES  # of the DataLens paper: the recipes of each


def find(name: str) -> Recipe:
    """The recipe of this name.

    >>> find("datalens-code-fashion-mnist-1").settings["topk"]
    200
    """
    if name in RECIPES:
        return RECIPES[name]
    near = get_close_matches(name, RECIPES, n=3, cutoff=0.4) or list(RECIPES)[:3]
    raise InputError(f"There is no recipe '{name}'; did you mean {' or '.join(near)}? See `sfumato recipes`.")
