"""Gradients of single examples in the kernel of a convolution, without a copy of all its windows.

    row_i[o, (y, x), c] = sum over copies and positions t of g_t[o] a_{t + (y, x)}[c]

On CUDA, for factors in bfloat16: a program takes one example and one place (y, x) of the kernel, and reads the shifted
map where it lies. Products of bfloat16 are exact in float32, in which they are added.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, no_type_check

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# positions at once; channels at once, as matrix units like them
POSITIONS = 64
LEAST = 16
MOST = 64


def kernel_rows(layer: nn.Module, x: Tensor, g: Tensor, noise_multiplicity: int) -> Tensor | None:
    """(B, 1, O, places * C) in float32, of an input (B K, C, H, W) and gradients (B K, O, H', W'); None elsewhere."""
    if not (x.is_cuda and torch.bfloat16 in (x.dtype, g.dtype) and isinstance(layer, nn.Conv2d) and len(x)):
        return None
    plain = layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    if not plain or any(way[0] != way[1] for way in (layer.stride, layer.padding)) or set(layer.dilation) != {1}:
        return None
    kernel = working(x.device)
    return None if kernel is None else launched(kernel, layer, x, g, noise_multiplicity)


def launched(kernel: Any, layer: nn.Conv2d, x: Tensor, g: Tensor, noise_multiplicity: int) -> Tensor:
    """By the kernel."""
    x, g = (y.bfloat16().contiguous(memory_format=torch.channels_last) for y in (x, g))  # so rounded the layer saw them
    _, c, h, w = x.shape
    o, ho, wo = g.shape[1:]
    down, across = layer.kernel_size
    units = len(x) // noise_multiplicity
    rows = torch.empty(units, 1, o, down * across * c, dtype=torch.float32, device=x.device)
    some_o, some_c = (min(MOST, max(LEAST, 1 << (n - 1).bit_length())) for n in (o, c))
    grid = (units, down * across, -(-o // some_o) * -(-c // some_c))
    with torch.cuda.device_of(x):
        kernel[grid](
            x,
            g,
            rows,
            noise_multiplicity,
            c,
            h,
            w,
            o,
            ho,
            wo,
            across,
            down * across,
            int(layer.stride[0]),
            int(layer.padding[0]),
            some_o,
            some_c,
            POSITIONS,
        )
    return rows


@cache
def working(device: torch.device) -> Any:
    """The kernel, if this machine can compile it and a small trial on the device comes out right; else None."""
    random = torch.Generator().manual_seed(0)
    x, g = (torch.randn(6, c, side, side, generator=random).to(device).bfloat16() for c, side in ((20, 5), (3, 3)))
    layer = nn.Conv2d(20, 3, 3, stride=2, padding=1)
    try:
        found = launched(kernel := written(), layer, x, g, 2)
        return kernel if (found - shown(layer, x, g, 2)).abs().max() < 1e-3 else None
    except Exception:  # no Triton, no C compiler, no room on the disk for what it makes, ...
        return None


def shown(layer: nn.Conv2d, x: Tensor, g: Tensor, noise_multiplicity: int) -> Tensor:
    """The same by windows, for comparison."""
    windows = F.unfold(x.float(), layer.kernel_size, padding=layer.padding, stride=layer.stride)  # type: ignore[arg-type]
    rows: Tensor = (g.float().flatten(2) @ windows.mT).unflatten(0, (-1, noise_multiplicity)).sum(1)
    rows = rows.unflatten(2, (x.shape[1], -1)).mT.flatten(2)
    return rows[:, None]


@cache
def written() -> Callable[..., Any]:
    """The kernel. Made here so that nobody else needs Triton, which finds `tl` among the names of the module."""
    global tl
    import triton
    from triton import language as tl

    @triton.jit
    @no_type_check
    def gather(
        x,
        g,
        rows,
        noise_multiplicity: tl.constexpr,
        c: tl.constexpr,
        h: tl.constexpr,
        w: tl.constexpr,
        o: tl.constexpr,
        ho: tl.constexpr,
        wo: tl.constexpr,
        across: tl.constexpr,
        places: tl.constexpr,
        stride: tl.constexpr,
        pad: tl.constexpr,
        some_o: tl.constexpr,
        some_c: tl.constexpr,
        some_t: tl.constexpr,
    ):
        unit = tl.program_id(0).to(tl.int64)
        place = tl.program_id(1)
        tiles: tl.constexpr = (c + some_c - 1) // some_c
        out = tl.program_id(2) // tiles * some_o + tl.arange(0, some_o)
        into = tl.program_id(2) % tiles * some_c + tl.arange(0, some_c)
        total: tl.constexpr = noise_multiplicity * ho * wo
        x += unit * (noise_multiplicity * h * w * c)
        g += unit * (total * o)
        found = tl.zeros((some_o, some_c), dtype=tl.float32)
        for first in range(0, total, some_t):
            t = first + tl.arange(0, some_t)
            image = t // (ho * wo)
            at = t % (ho * wo)
            top = at // wo * stride + place // across - pad
            left = at % wo * stride + place % across - pad
            here = (t < total) & (top >= 0) & (top < h) & (left >= 0) & (left < w)
            seen = (image * h + top) * w + left
            a = tl.load(x + seen[:, None] * c + into[None, :], mask=here[:, None] & (into < c)[None, :], other=0.0)
            b = tl.load(g + t[None, :] * o + out[:, None], mask=here[None, :] & (out < o)[:, None], other=0.0)
            found = tl.dot(b, a, found)
        where = unit * (o * places * c) + out[:, None] * (places * c) + place * c + into[None, :]
        tl.store(rows + where, found, mask=(out < o)[:, None] & (into < c)[None, :])

    kernel: Callable[..., Any] = gather
    return kernel
