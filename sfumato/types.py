"""Public values that pass between the parts. Nothing here is private."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from sfumato.accounting.budget import Relation, Unit
from sfumato.errors import extra

if TYPE_CHECKING:
    from torch import Tensor

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

    def to_json(self) -> dict[str, Any]:
        """All of it, for a plan, a statement or a page."""
        return {
            "name": self.name,
            "records": self.records,
            "shape": list(self.shape),
            "classes": list(self.classes),
            "unit": str(self.unit),
            "count_public": self.count_public,
            "public": self.public,
        }

    @property
    def conditional(self) -> bool:
        """Whether there is more than one class to tell apart."""
        return len(self.classes) > 1

    @property
    def pixels(self) -> int:
        """Numbers in one image."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Labelled images that may be shown to anyone: synthetic ones, or public data.

    `pixels` is uint8 of shape (n, channels, height, width); `labels` indexes `classes`. It is a sequence of pairs, an
    image as a float tensor from 0 to 1 and the number of its class, and so a map-style data set for a `DataLoader`. A
    slice, a mask or a list of places gives `Images` again.

    >>> images = Images(np.zeros((3, 1, 2, 2), np.uint8), np.array([0, 1, 1]), ("ill", "well"))
    >>> images
    Images(3 of 1x2x2 in 2 classes: ill, well)
    >>> images[-1][0].shape, images[-1][1], len(images[1:])
    (torch.Size([1, 2, 2]), 1, 2)
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

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.pixels.shape[1:]))
        names = ", ".join(self.classes[:5]) + ", ..." * (len(self.classes) > 5)
        kinds = f"{len(self.classes)} classes" if len(self.classes) > 1 else "1 class"
        return f"Images({len(self):,} of {shape} in {kinds}: {names})"

    @overload
    def __getitem__(self, at: int) -> tuple[Tensor, int]: ...
    @overload
    def __getitem__(self, at: slice | np.ndarray | Sequence[int]) -> Images: ...
    def __getitem__(self, at: Any) -> tuple[Tensor, int] | Images:
        if not isinstance(at, int | np.integer):
            at = at if isinstance(at, slice) else np.asarray(at)
            return Images(self.pixels[at], self.labels[at], self.classes)
        import torch

        return torch.from_numpy(self.pixels[at].astype(np.float32) / 255), int(self.labels[at])

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return (self[at] for at in range(len(self)))

    def to_pandas(self) -> Any:
        """A pandas table, a row an image: `image` (uint8, height x width, x 3 in colour), `label` and `class`."""
        pandas = extra("pandas", "pandas")
        names = [self.classes[label] for label in self.labels]
        return pandas.DataFrame({"image": list(self._upright()), "label": self.labels, "class": names})

    def to_hf(self) -> Any:
        """A Hugging Face dataset with the features `image` and `label`, which knows the names of the classes."""
        datasets = extra("datasets", "hf")
        from PIL import Image

        features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=[*self.classes])})
        rows = {"image": [Image.fromarray(image) for image in self._upright()], "label": self.labels.tolist()}
        return datasets.Dataset.from_dict(rows, features=features)

    def _upright(self) -> Iterator[np.ndarray]:
        """Each image as height x width, or height x width x 3."""
        return (p[0] if len(p) == 1 else np.ascontiguousarray(p.transpose(1, 2, 0)) for p in self.pixels)
