"""Which recipes make a cell: by the names that recipes have, whether or not a recipe of that name is here yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sfumato.bench.table import Source
from sfumato.recipes import RECIPES
from sfumato.recipes.topagg import RECIPES as TOPAGG

FAITHFUL = ("paper", "code")  # kinds of settings that a table asks for
# DPGAN's family has the settings of several papers: DP-GAN is Xie et al.'s, Private-GANs is Bie et al.'s.
OF_A_FAMILY = {
    "DataLens": ("paper", "code", "mended"),
    "DP-GAN": ("paper", "xie-code", "xie"),
    "Private-GANs": ("code",),
}
OURS = {"dpgan": "revised"}  # where our own kind has another name than "ours"
# What recipes call a set, the nearest first: settings of another set are better than none, and their name says so.
CALLED: dict[str, tuple[str, ...]] = {
    "fashion-mnist": ("fashion-mnist", "mnist"),
    "celeba-gender": ("faces", "celeba-gender", "fairface", "fashion-mnist", "mnist"),
    "celeba-hair": ("hair", "celeba-hair", "faces", "fairface", "fashion-mnist", "mnist"),
    "ffhq-gender": ("ffhq", "ffhq-gender", "faces", "fairface", "fashion-mnist", "mnist"),
    "places365-3": ("places365-3", "places", "faces", "fashion-mnist", "mnist"),
}
METHODS = {
    "DP-GAN": "dpgan",
    "PATE-GAN": "pate-gan",
    "G-PATE": "g-pate",
    "GS-WGAN": "gs-wgan",
    "DataLens": "datalens",
    "DP-MERF": "dp-merf",
    "P3GM": "p3gm",
    "DP-Sinkhorn": "dp-sinkhorn",
    "DP-HP": "dp-hp",
    "NDPDC": "ndpdc",
    "PEARL": "pearl",
    "DPAF": "dpaf",
    "Private-GANs": "dpgan",
}


def here(name: str) -> bool:
    """Whether there is such a recipe, of images or of a classifier."""
    return name in RECIPES or name in TOPAGG


def named(method: str, kind: str, data: str, epsilon: float) -> Source:
    """The recipe of a kind that is nearest to a set and a budget; a name that is not here yet where there is none.

    >>> named("datalens", "paper", "mnist", 0.2).recipe
    'datalens-paper-mnist-0.2'
    """
    budgets = sorted({epsilon, 1.0, 10.0}, key=lambda e: max(e / epsilon, epsilon / e))
    wanted = [f"{method}-{kind}-{at}-{e:g}" for at in CALLED.get(data, (data,)) for e in budgets]
    return Source(next(filter(here, wanted), wanted[0]))


def for_column(column: str, data: str, epsilon: float, more: Sequence[Source] = ()) -> tuple[Source, ...]:
    """Every recipe that makes a column of a table: the paper's settings, its code's, then ours."""
    return (*more, *_every(METHODS[column], OF_A_FAMILY.get(column, FAITHFUL), data, epsilon))


def _every(method: str, kinds: tuple[str, ...], data: str, epsilon: float) -> Iterator[Source]:
    found = [named(method, kind, data, epsilon) for kind in kinds]
    yield from [s for s in found if here(s.recipe)] or found[:1]
    ours = named(method, OURS.get(method, "ours"), data, epsilon)
    if here(ours.recipe):
        yield ours
