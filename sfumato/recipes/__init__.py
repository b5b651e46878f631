"""Recipes: verified settings for the tables of the papers, as plain data. A family is a file of functions."""

from __future__ import annotations

import math

from sfumato.errors import InputError, did_you_mean
from sfumato.recipes import adversarial, baselines, datalens, dp_vae, dpaf, dpdm, dpgan, public_diffusion, topagg
from sfumato.recipes.recipe import KINDS, Recipe

__all__ = ["CLASSIFIERS", "KINDS", "RECIPES", "TABLES", "Recipe", "find", "find_any", "select"]

FAMILIES = (datalens, dpaf, dpgan, dpdm, public_diffusion, dp_vae, adversarial, baselines)
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
    raise InputError(f"There is no recipe '{name}'; {did_you_mean(name, every, 3, 'see `sfumato recipes`.')}")


def select(method: str | None = None, data: str | None = None, epsilon: float | None = None) -> list[Recipe]:
    """The recipes of a method, for a set, at a budget: all that is given must hold. What no recipe has is refused.

    >>> [recipe.name for recipe in select(method="dpdm", data="fairface")]
    ['dpdm-ours-fairface-10']
    """
    every = [*RECIPES.values(), *CLASSIFIERS.values()]
    given = {"method": method, "data": data, "epsilon": epsilon}
    asked = {name: value for name, value in given.items() if value is not None}
    for name, value in asked.items():
        _refuse_unknown(name, value, sorted({getattr(recipe, name) for recipe in every}))
    return [recipe for recipe in every if all(getattr(recipe, name) == value for name, value in asked.items())]


def _refuse_unknown(name: str, value: str | float, known: list[str | float]) -> None:
    if value not in known:
        there_are = f"there are {', '.join(_text(each) for each in known)}."
        hint = there_are if name == "epsilon" else did_you_mean(str(value), map(str, known), otherwise=there_are)
        raise InputError(f"No recipe has --{name} {_text(value)}; {hint}")


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"
