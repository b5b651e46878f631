"""Top-k: the largest coordinates of a single example's gradient, or their signs alone, then clipping.

energy   the largest coordinates as long as their energy stays at or below k ||g||^2; then to sqrt(k) C
                                                                      (NormTopK; DataLens, Algorithm 4)
count    coordinates of at least the size of the (share P)-th largest of P: ties stay, and a row of equals is whole
signs    1, -1 or 0 in their place                                    (TopAgg in DPAF's table XII, DataLens)
term     what is kept, times min(1, u / its norm)                     one record's own: Delta = u, or 2u

How large a coordinate must be to stay is found without sorting on CUDA, where a sort takes most of a step of DP-SGD.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, no_type_check

import numpy as np
import torch
from torch import Tensor

from sfumato.engine.gradients.clipping import Clip, Flat, positive
from sfumato.privacy.bounds import Bound

MOST = 65_536  # coordinates of a row that one program of a GPU holds
BITS = 31  # of a float32 that is not negative: they grow with the number


@dataclass(frozen=True)
class TopK(Clip):
    """Sparsify, then clip to S = sqrt(k) C (DataLens, Algorithm 4; privacy.md 2.4).

    by "energy": NormTopK, the largest coordinates as long as their energy stays at or below k ||g||^2; the one that
    would cross it is left out, with its equals. by "count": the k P largest of P coordinates, with their equals.

    >>> TopK(1.0, 0.8).keep(torch.tensor([[2.0, -4.0, 1.0]])).tolist()
    [[0.0, -4.0, 0.0]]
    >>> TopK(1.0, 0.7, by="count").keep(torch.tensor([[2.0, -4.0, 1.0]])).tolist()
    [[2.0, -4.0, 0.0]]
    """

    norm: float
    k: float
    by: str = "energy"

    whole_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(norm=self.norm, k=self.k)
        if self.k > 1 or self.by not in ("energy", "count"):
            raise ValueError(f"Expected k up to 1 and by='energy' or 'count', found k={self.k}, by={self.by!r}.")

    @property
    def bound(self) -> Bound:
        return Bound(math.sqrt(self.k) * self.norm)

    def weights(self, squared: Tensor) -> Tensor:
        return Flat(self.bound.norm).weights(squared)

    def keep(self, rows: Tensor) -> Tensor:
        sizes = rows.abs().float()  # rows were computed in float32: nothing is lost by it
        if self.by == "energy":
            return rows.where(sizes > first_out(sizes, self.k), 0)
        return rows.where(sizes >= least_of(sizes, count_of(self.k, rows.shape[1])), 0)


@dataclass(frozen=True)
class Largest(Clip):
    """Keep the largest `share` of a gradient's coordinates and bring what is left down to `norm`.

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


def count_of(k: float, coordinates: int) -> int:
    """How many a share k of so many coordinates is; at least one."""
    # 0.7 * 10 is 7.000000000000001 or 6.999999999999999 according to the factors; neither should lose a coordinate.
    return max(1, math.floor(k * coordinates + 1e-9))


def least_of(sizes: Tensor, count: int) -> Tensor:
    """(B, 1): the `count`-th largest of each row of sizes in float32.

    >>> least_of(torch.tensor([[2.0, 4.0, 1.0]]), 2).tolist()
    [[2.0]]
    """
    return sizes.kthvalue(sizes.shape[1] - count + 1, dim=1, keepdim=True).values


def first_out(sizes: Tensor, share: float) -> Tensor:
    """(B, 1): the largest size that is left out when the largest stay as long as their energy is at most `share`.

    What is larger than that stays; with `share` 1, everything.

    >>> first_out(torch.tensor([[2.0, 4.0, 1.0]]), 0.8).tolist()
    [[2.0]]
    """
    if share >= 1:
        return sizes.new_full((len(sizes), 1), -1.0)
    kernel = working(sizes.device) if sizes.is_cuda and 0 < sizes.shape[1] <= MOST else None
    return bisected(kernel, sizes, share) if kernel else sorted_out(sizes, share)


def sorted_out(sizes: Tensor, share: float) -> Tensor:
    """The same by sorting: all goes that lies below the first of whose energy 1 - share is made up."""
    # NumPy sorts rows many times as fast as torch does on a CPU.
    order = sizes.sort(dim=1).values if sizes.is_cuda else torch.from_numpy(np.sort(sizes.numpy(), axis=1))
    energy = order.double().square_().cumsum(1)
    return order.gather(1, torch.searchsorted(energy, (1 - share) * energy[:, -1:]))


def bisected(kernel: Any, sizes: Tensor, share: float) -> Tensor:
    """The same by trying one bit of the threshold after the other, on CUDA."""
    found = torch.empty(len(sizes), 1, dtype=torch.int32, device=sizes.device)
    block = max(1024, 1 << (sizes.shape[1] - 1).bit_length())
    if len(sizes):
        with torch.cuda.device_of(sizes):
            kernel[(len(sizes),)](
                sizes.contiguous(), found, sizes.shape[1], share, block, BITS, num_warps=min(32, block // 1024 * 4)
            )
    return found.view(torch.float32)


@cache
def working(device: torch.device) -> Any:
    """The kernel, if this machine can compile it and a small trial on the device comes out right; else None."""
    sizes = torch.rand(8, 3000, generator=torch.Generator().manual_seed(0)).to(device)
    try:
        kernel = _written()
        right = bool((bisected(kernel, sizes, 0.7) == sorted_out(sizes, 0.7)).all())
    except Exception:  # no Triton, no C compiler, no room on the disk for what it makes, ...
        return None
    return kernel if right else None


@cache
def _written() -> Callable[..., Any]:
    """The kernel. Made here so that nobody else needs Triton, which finds `tl` among the names of the module."""
    global tl
    import triton
    from triton import language as tl

    @triton.jit
    @no_type_check
    def bisect(sizes, found, columns, share, block: tl.constexpr, bits: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        at = tl.arange(0, block)
        size = tl.load(sizes + row * columns + at, mask=at < columns, other=0.0)
        peak = tl.max(size, 0)
        energy = size / tl.where(peak > 0, peak, 1.0)  # no square is too large
        energy = energy * energy
        most = share * tl.sum(energy, 0)
        number = size.to(tl.int32, bitcast=True)
        threshold = 0
        for bit in range(bits):
            tried = threshold | (1 << (bits - 1 - bit))
            over = tl.sum(tl.where(number >= tried, energy, 0.0), 0) > most
            threshold = tl.where(over, tried, threshold)
        tl.store(found + row, threshold)

    kernel: Callable[..., Any] = bisect
    return kernel
