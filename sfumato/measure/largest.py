"""Gradient compression of single examples: the largest coordinates, or their signs alone, then clipping.

    kept     coordinates of at least the size of the (share P)-th largest of P: ties stay, and a row of equals is whole
    signs    1, -1 or 0 in their place                                    (TopAgg in DPAF's table XII, DataLens)
    term     what is kept, times min(1, u / its norm)                     one record's own: Delta = u, or 2u

`TopK` of `clipping` sorts rows, which takes most of a step of DPAF; a threshold is found without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from sfumato.measure.clipping import Clip, Flat
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
        sizes, left_out = rows.abs().float(), self.left_out(rows.shape[1])
        if left_out:
            # The smallest that stays. In float32, where rows were computed: nothing is lost by it.
            least = sizes.kthvalue(left_out + 1, dim=1, keepdim=True).values
            rows = rows.where(sizes >= least, 0)
        return rows.sign() if self.signs else rows

    def left_out(self, coordinates: int) -> int:
        """How many of so many coordinates are zeroed, but for ties; one stays at least."""
        # 0.9 * 10 is 9.000000000000002 or 8.999999999999998 according to the factors; neither should lose a coordinate.
        return coordinates - max(1, int(self.share * coordinates + 1e-9))
