"""Adam on the weights of linear layers whose gradients are never stored.

The gradient of one teacher's linear layer is a product of two slim matrices, images by inputs and images by outputs.
Stored, it is as large as the weights themselves, written once and read once. Here, on CUDA, a kernel works out one tile
of it, takes Adam's step there, and stores weights, moments and the short copy of the weights. Where Triton is absent or
fails a small trial there is no kernel, and the caller multiplies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from triton import language as tl

GOLDEN = 40503  # 2^16 over the golden ratio
# of a tile: 16 numbers a thread; of twelve tried on an H200 the fastest
ROWS = 16
COLUMNS = 128
WARPS = 4
MOST = 64  # images, which a tile takes at once


def descend(
    kernel: Any, inputs: Tensor, slopes: Tensor, state: list[Tensor], scalars: Tensor, beta1: float, beta2: float
) -> None:
    """One step in place on the gradient inputs^T slopes of (count, n, rows) and (count, n, columns), in bfloat16.

    `state` is weights in float32, first and second moments and the weights' copy in bfloat16, all (count, rows,
    columns); `scalars` are a, b and the dither: see `stacked.adam`.
    """
    count, n, rows = inputs.shape
    columns = slopes.shape[2]
    deep = max(16, 1 << (n - 1).bit_length())
    across = -(-columns // COLUMNS)
    tiles = -(-rows // ROWS) * across
    if not count:
        return
    with torch.cuda.device_of(inputs):
        kernel[(count * tiles,)](
            inputs.contiguous(),
            slopes.contiguous(),
            *state,
            scalars.float(),
            beta1,
            beta2,
            n,
            rows,
            columns,
            across,
            tiles,
            deep,
            ROWS,
            COLUMNS,
            GOLDEN,
            num_warps=WARPS,
        )


def fits(state: list[Tensor], images: int) -> bool:
    """Whether the kernel is made for such weights, moments and copy, and for so many images."""
    kinds = [tensor.dtype for tensor in state] == [torch.float32] + 3 * [torch.bfloat16]
    return kinds and images <= MOST and all(tensor.is_cuda and tensor.is_contiguous() for tensor in state)


@cache
def working(device: torch.device) -> Any:
    """The kernel, if this machine can compile it and a small trial on the device comes out right; else None."""
    from sfumato.engine.teachers.stacked import adam

    random = torch.Generator().manual_seed(0)
    inputs, slopes = (torch.randn(2, 5, n, generator=random).to(device, torch.bfloat16) for n in (40, 136))
    start = [torch.rand(2, 40, 136, generator=random).to(device) for _ in range(3)]
    states = [[w.clone() if i == 0 else w.bfloat16() for i, w in enumerate((*start, start[0]))] for _ in range(2)]
    scalars = torch.tensor([2.0, 0.5, 1234.0], device=device)
    try:
        kernel = _written()
        descend(kernel, inputs, slopes, states[0], scalars, 0.5, 0.9)
    except Exception:  # no Triton, no C compiler, no room on the disk for what it makes, ...
        return None
    weights, first, second, rounded = ({"dense": tensor} for tensor in states[1])
    gradient = {"dense": torch.bmm(inputs.mT.float(), slopes.float())}
    adam(gradient, weights, first, second, rounded, scalars, 0.5, 0.9)
    # A sum in another order may round a short number to its neighbour.
    near = [torch.allclose(x.float(), y.float(), rtol=1e-2, atol=1e-3) for x, y in zip(*states, strict=True)]
    return kernel if all(near) else None


@cache
def _written() -> Callable[..., Any]:
    """The kernel. Made here so that nobody else needs Triton, which finds `tl` among the names of the module."""
    global tl
    import triton
    from triton import language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def step(  # type: ignore[no-untyped-def]
        inputs,
        slopes,
        weights,
        first,
        second,
        copy,
        scalars,
        beta1,
        beta2,
        n,
        rows,
        columns: tl.constexpr,
        across: tl.constexpr,
        tiles: tl.constexpr,
        deep: tl.constexpr,
        some_rows: tl.constexpr,
        some_columns: tl.constexpr,
        golden: tl.constexpr,
    ):
        teacher = (tl.program_id(0) // tiles).to(tl.int64)
        tile = tl.program_id(0) % tiles
        row = tile // across * some_rows + tl.arange(0, some_rows)
        column = tile % across * some_columns + tl.arange(0, some_columns)
        image = tl.arange(0, deep)
        there = (row < rows)[:, None] & (column < columns)[None, :]
        shown = image < n
        x = tl.load(
            inputs + teacher * n * rows + image[:, None] * rows + row[None, :],
            mask=shown[:, None] & (row < rows)[None, :],
            other=0.0,
        )
        y = tl.load(
            slopes + teacher * n * columns + image[:, None] * columns + column[None, :],
            mask=shown[:, None] & (column < columns)[None, :],
            other=0.0,
        )
        g = tl.dot(tl.trans(x), y)
        place = row[:, None] * columns + column[None, :]
        at = teacher * rows * columns + place
        a = tl.load(scalars)
        b = tl.load(scalars + 1)
        offset = tl.load(scalars + 2).to(tl.int32)
        m = beta1 * tl.load(first + at, mask=there, other=0.0).to(tl.float32) + (1 - beta1) * g
        v = beta2 * tl.load(second + at, mask=there, other=0.0).to(tl.float32) + (1 - beta2) * g * g
        w = tl.load(weights + at, mask=there, other=0.0) - m / (a * tl.sqrt(v) + b)
        # As in `stacked.dithered`: rounded down after adding a threshold that is another one in every step.
        threshold = ((place * golden >> 3) + offset) & 0xFFFF
        dithered = ((v.to(tl.int32, bitcast=True) + threshold) & -65536).to(tl.float32, bitcast=True)
        tl.store(weights + at, w, mask=there)
        tl.store(first + at, m.to(tl.bfloat16), mask=there)
        tl.store(second + at, dithered.to(tl.bfloat16), mask=there)
        tl.store(copy + at, w.to(tl.bfloat16), mask=there)

    kernel: Callable[..., Any] = step
    return kernel
