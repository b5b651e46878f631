"""Public values that pass between the parts. Nothing here is private."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from sfumato.accounting.budget import Relation, Unit

__all__ = ["DataSpec", "Images", "Relation", "Site", "Unit"]


class Site(StrEnum):
    """Where the privacy barrier sits (B1 to B4)."""

    B1 = "between real data and measurement"
    B2 = "within measurement"
    B3 = "between measurement and synthetic data"
    B4 = "within the generator"


@dataclass(frozen=True)
class DataSpec:
    """All that is public about a private image set; a plan is made from this alone.

    `records` counts units of privacy (persons where the unit is a person). It is the true count
    where `count_public`, and otherwise a size the custodian declared without looking.

    >>> DataSpec("scans", 1000, (1, 28, 28), ("ill", "well")).conditional
    True
    """

    name: str
    records: int
    shape: tuple[int, int, int]  # channels, height, width
    classes: tuple[str, ...]
    unit: Unit = Unit.RECORD
    count_public: bool = True
    public: bool = False  # a named benchmark set, declared public as a whole

    def __post_init__(self) -> None:
        if self.records < 1:
            raise ValueError(f"Expected records of at least 1, found records={self.records}.")
        if len(self.shape) != 3 or self.shape[0] not in (1, 3) or min(self.shape) < 1:
            raise ValueError(f"Expected shape as 1xHxW or 3xHxW, found {'x'.join(map(str, self.shape))}.")
        if not self.classes:
            raise ValueError("Expected at least one class name.")

    @property
    def conditional(self) -> bool:
        """Whether there is more than one class to tell apart."""
        return len(self.classes) > 1

    @property
    def pixels(self) -> int:
        """Numbers in one image."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Images:
    """Labelled images that may be shown to anyone: synthetic ones, or public data.

    `pixels` is uint8 of shape (n, channels, height, width); `labels` indexes `classes`.
    """

    pixels: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...] = field(default=("image",))

    def __post_init__(self) -> None:
        if self.pixels.dtype != np.uint8 or self.pixels.ndim != 4:
            raise ValueError(f"Expected uint8 pixels of four axes, found {self.pixels.dtype} of {self.pixels.ndim}.")
        if self.labels.shape != self.pixels.shape[:1]:
            raise ValueError(f"Expected one label an image, found {self.labels.shape} for {len(self.pixels)} images.")

    def __len__(self) -> int:
        return len(self.pixels)
