"""How large a coordinate must be to be among the largest of its row: by their count, or by their energy.

A threshold is found without sorting on CUDA, where a sort takes most of a step of DP-SGD. Rows are sizes in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

MOST = 65_536  # coordinates of a row that one program of a GPU holds
BITS = 31  # of a float32 that is not negative: they grow with the number


def least_of(sizes: Tensor, count: int) -> Tensor:
    """(B, 1): the `count`-th largest of each row.

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

    return bisect
