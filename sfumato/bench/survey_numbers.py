"""Accuracies beside the survey's table: of a classifier that learned from synthetic MNIST, at epsilon 10 or else 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfumato.bench.measured import measured
from sfumato.bench.results import read
from sfumato.recipes import RECIPES

DATA = "mnist"
BUDGETS = (10.0, 1.0)

# What others state for MNIST at epsilon 10, under protocols of their own, and where it stands.
PUBLISHED = {
    "DP-MERF": "81.3, DPImageBench",
    "DP-NTK": "91.3, DPImageBench",
    "DPSDA": "32.7, DPImageBench, with a model of ImageNet",
    "DPGAN": "80.1, DataLens' table 1",
    "PATE-GAN": "66.7, DataLens' table 1",
    "Bie et al. 2023": "93.0, its code",
    "GS-WGAN": "80.8, DataLens' table 1; its accounting does not hold",
    "G-PATE": "80.9, DataLens' table 1; its epsilon depends on the data",
    "DataLens": "80.7, its table 1",
    "DP-Sinkhorn": "83.2, DPDM's abstract",
    "DPDM": "98.1, its abstract; 97.7, DPImageBench",
    "Ghalebikesabi et al. 2023": "97.4, DPImageBench (PDP-Diffusion), with ImageNet",
    "DP-LDM": "95.5, DPImageBench, with ImageNet",
}
NONE = "none at hand"
# Recipes that stand for an approach where the best settings of its method are those of another one.
RECIPES_OF = {"DPGAN": "dpgan-xie-", "Bie et al. 2023": "dpgan-revised-"}


def published(approach: str) -> str:
    """What others state of an approach.

    >>> published("DP-Sinkhorn (Cao et al. 2021)")
    "83.2, DPDM's abstract"
    """
    return PUBLISHED.get(_short(approach), NONE)


def _short(approach: str) -> str:
    return approach.split(" (")[0]


def measured_of(approach: str, place: str) -> str:
    """What was measured of an approach, which a method or the beginning of the names of recipes stands for."""
    return ours(RECIPES_OF.get(_short(approach), place))


def ours(place: str) -> str:
    """What was measured of a method, or of recipes by the beginning of their names, with the settings that did best.

    >>> ours("dp-moments")
    '96.2 ± 0.3 at 10'
    """
    lines = list(_lines(place))
    for epsilon in BUDGETS:
        found = [line for line in lines if line["data"] == DATA and line["epsilon"] == epsilon]
        if found:
            return _words(max(found, key=lambda line: float(line["accuracy"])))
    return "not measured"


def _lines(place: str) -> Iterator[dict[str, Any]]:
    """Of a method all recipes; of recipes those that begin so, whatever their method."""
    results = read()
    of_recipes = {r.method for r in RECIPES.values() if r.name.startswith(place)} if place.endswith("-") else set()
    for method in sorted(of_recipes) if place.endswith("-") else [place]:
        for line in measured(method, results):
            if not of_recipes or line["recipe"].startswith(place):
                yield line


def _words(line: dict[str, Any]) -> str:
    spread = f" ± {100 * line['spread']:.1f}" if line["seeds"] > 1 else ", one seed"
    judge = "" if line["network"] == "cnn" else f", {line['network']}"
    return f"{100 * line['accuracy']:.1f}{spread} at {line['epsilon']:g}{judge}"
