"""Gradient compression of single examples: the largest coordinates, or their signs alone, then clipping.

kept     coordinates of at least the size of the (share P)-th largest of P: ties stay, and a row of equals is whole
signs    1, -1 or 0 in their place                                    (TopAgg in DPAF's table XII, DataLens)
term     what is kept, times min(1, u / its norm)                     one record's own: Delta = u, or 2u
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from sfumato.engine.gradients.clipping import Clip, Flat, count_of
from sfumato.engine.gradients.thresholds import least_of
from sfumato.privacy.bounds import Bound


@dataclass(frozen=True)
class Largest(Clip):
    """Keep the largest `share` of a gradient's coordinates and bring what is left down to `norm`.

    >>> import torch
    >>> Largest(1.0, 0.5).keep(torch.tensor([[2.0, -4.0, 1.0, 0.0]])).tolist()
    [[2.0, -4.0, 0.0, 0.0]]
    >>> Largest(1.0, 0.25, signs=True).keep(torch.tensor([[2.0, -4.0, 1.0, 0.0]])).tolist()
    [[0.0, -1.0, 0.0, 0.0]]
    """

    norm: float
    share: float
    signs: bool = False

    whole_rows: ClassVar[bool] = True
    by_layer: ClassVar[bool] = False

    def __post_init__(self) -> None:
        Flat(self.norm)
        if not 0 < self.share <= 1:
            raise ValueError(f"Expected share above 0 and up to 1, found share={self.share}.")

    @property
    def bound(self) -> Bound:
        return Bound(self.norm)

    def weights(self, squared: Tensor) -> Tensor:
        return Flat(self.norm).weights(squared)

    def keep(self, rows: Tensor) -> Tensor:
        if self.share < 1:
            sizes = rows.abs().float()  # rows were computed in float32: nothing is lost by it
            rows = rows.where(sizes >= least_of(sizes, count_of(self.share, rows.shape[1])), 0)
        return rows.sign() if self.signs else rows
