"""What a table of a paper is here: cells with the printed value, and the recipes that make the same number."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# How a number was taken, by what a cell measures. Each protocol has its own column, and the printed value says its own.
PROTOCOLS: dict[str, dict[str, str]] = {
    "accuracy": {"fixed": "last step", "paper": "best of 8", "official": "best of 600"},
    "classifier": {"fixed": "last step"},
    "inception-score": {"inception-score": "score"},
    "fid": {"fid": "Inception", "fid/efficientnet-lite0": "EfficientNet"},
    "auc": {"auc": "AUC"},
    "seconds": {"seconds": "seconds a step", "ratio": "times TopAgg"},
    "setting": {"setting": "recipe"},
}
# The sets by name: as a table calls them, and what stands in for those that few have.
TITLES = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "celeba-gender": "CelebA-Gender",
    "celeba-hair": "CelebA-Hair",
    "ffhq-gender": "FFHQ-Gender",
    "places365-3": "Places365",
    "fairface": "FairFace",
}
ELSEWHERE = ("celeba-gender", "celeba-hair", "ffhq-gender", "places365-3")
STAND_INS = {"celeba-gender": ("fairface", None), "ffhq-gender": ("fairface", 128)}  # name, pixels where they differ


@dataclass(frozen=True)
class Source:
    """What makes a cell: a recipe by name, or a method, with changes to its settings."""

    recipe: str = ""
    method: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    on_stand_in: Mapping[str, str] = field(default_factory=dict)  # further changes on a set with fewer records
    as_printed: bool = False  # DPAF's printed procedure, which is not private
    public: str = ""  # the public set that it starts from

    @property
    def name(self) -> str:
        """As a table names it."""
        return (self.recipe or self.method) + (" as printed" if self.as_printed else "")

    @property
    def ours(self) -> bool:
        """Whether the settings are our own, in the place of the paper's or its code's."""
        chosen = not self.recipe and bool(self.settings)
        return chosen or re.search("-(ours|revised|small)-", self.recipe) is not None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of a table."""

    row: str
    column: str
    printed: float | None
    spread: float | None = None  # as printed behind it
    data: str = ""
    epsilon: float | None = None
    metric: str = "accuracy"
    sources: tuple[Source, ...] = ()
    why: str = ""  # why nothing here makes it
    value: float | None = None  # of a cell that is computed at once

    @property
    def label(self) -> str:
        """For `--only`: words with hyphens."""
        words = " ".join((self.row, self.column, *(s.name for s in self.sources)))
        return re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-")

    @property
    def faithful(self) -> tuple[Source, ...]:
        """The sources with the settings of the paper or its code; ours where there are no others."""
        return tuple(s for s in self.sources if not s.ours) or self.sources

    def asked(self, words: list[str]) -> bool:
        """Whether every word given with `--only` is in it."""
        return all(re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-") in self.label for word in words)


@dataclass(frozen=True)
class Table:
    """A table of a paper. `scale` takes our numbers to the paper's unit, `digits` are those that it prints."""

    id: str
    shows: str
    protocol: str  # of the printed values
    make: Callable[[], tuple[Cell, ...]]
    heads: tuple[str, str] = ("set, epsilon", "method")
    digits: int = 4
    scale: float = 1.0
    measure: str = "utility"
    notes: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[Cell, ...]:
        """In the paper's order."""
        return self.make()


@dataclass(frozen=True)
class Figure:
    """A figure of a paper: drawn by a function of `draw`, or a diagram without numbers that a page has in its place."""

    id: str
    shows: str
    drawing: str = ""
    instead: str = ""
    runs: bool = False  # a drawing of images, which makes releases first

    @property
    def suffix(self) -> str:
        """Of the file that it is drawn into."""
        return ".png" if self.runs else ".svg"


def numbered(block: str) -> list[tuple[str, list[str]]]:
    """Lines of a block as (name, numbers): a name ends at two spaces or more, and `x` is a number that is not printed.

    >>> numbered("mnist 1  0.40 x")
    [('mnist 1', ['0.40', 'x'])]
    """
    lines = [line.strip() for line in block.strip().splitlines()]
    return [(name, rest.split()) for name, rest in (re.split(r"\s{2,}", line, maxsplit=1) for line in lines)]


def value(text: str) -> tuple[float | None, float | None]:
    """A printed number with its spread.

    >>> value("0.802±0.018"), value("x")
    ((0.802, 0.018), (None, None))
    """
    if text == "x":
        return None, None
    mean, _, spread = text.partition("±")
    return float(mean), float(spread) if spread else None


def where(data: str, epsilon: float | None) -> str:
    """The name of a row by set and epsilon.

    >>> where("mnist", 0.2)
    'MNIST, 0.2'
    """
    return TITLES[data] + ("" if epsilon is None else f", {epsilon:g}")


@dataclass(frozen=True)
class Listing:
    """A table of words: rows that a function reads from the code, and the fields of each that a column holds."""

    id: str
    shows: str
    columns: Mapping[str, tuple[str, ...]]
    make: Callable[[], list[dict[str, str]]]
    notes: tuple[str, ...] = ()
