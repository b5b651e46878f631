"""What happens between two convolutions: groups of channels are made even, scaled and shifted by what is known, SiLU.

It has no parameters: those would get noise. On CUDA one program reads a group of channels of one image, does it all and
writes it once; the backward pass likewise. Elsewhere, and for large images, ordinary operations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from triton import language as tl

GROUP = 8  # channels that are made even together
TINY = 1e-5
MOST = 1024  # positions of an image that one program holds
SIZE = 4096  # numbers that it holds, where these are fewer


def soft(x: Tensor, scale: Tensor | None = None, shift: Tensor | None = None) -> Tensor:
    """silu(even(x) (1 + scale) + shift) of x (n, c, h, w), with scale and shift (n, c) or none.

    >>> soft(torch.arange(8.0).view(1, 8, 1, 1)).flatten()[-1]
    tensor(1.2551)
    """
    kernels = working(x.device) if x.is_cuda and x.shape[2] * x.shape[3] <= MOST else None
    if kernels is None:
        return plain(x, scale, shift)
    return by_kernels(kernels, x, scale, shift)


def even(x: Tensor) -> Tensor:
    """Groups of channels of each image brought to mean 0 and deviation 1."""
    n, c, h, w = x.shape
    groups = x.permute(0, 2, 3, 1).reshape(n, h * w, c // GROUP, GROUP).float()
    spread, middle = torch.var_mean(groups, (1, 3), keepdim=True, correction=0)
    found = (groups - middle) * (spread + TINY).rsqrt()
    return found.to(x.dtype).view(n, h, w, c).permute(0, 3, 1, 2)


def plain(x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    """By ordinary operations."""
    x = even(x)
    return F.silu(x if scale is None or shift is None else x * (1 + scale[:, :, None, None]) + shift[:, :, None, None])


class Soft(torch.autograd.Function):
    """By the kernels."""

    @staticmethod
    def forward(ctx: Any, kernels: Any, x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        known = None if scale is None or shift is None else torch.cat([scale, shift], 1).contiguous()
        out = torch.empty_like(x)
        launched(kernels[0], x, known, out)
        ctx.kernel = kernels[1]
        ctx.save_for_backward(x, known)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, known = ctx.saved_tensors
        slope = torch.empty_like(x)
        into = None if known is None else torch.empty_like(known)
        launched(ctx.kernel, x, known, g.contiguous(memory_format=torch.channels_last), slope, into)
        return None, slope, *((None, None) if into is None else into.chunk(2, 1))


by_kernels: Callable[..., Tensor] = Soft.apply


def launched(kernel: Any, x: Tensor, known: Tensor | None, *more: Tensor | None) -> None:
    """Over all images, some groups at a time."""
    n, c, h, w = x.shape
    if n:
        block = 1 << (h * w - 1).bit_length()
        groups = c // GROUP
        some = max(1, min(groups & -groups, SIZE // (block * GROUP)))  # a power of two
        with torch.cuda.device_of(x):
            kernel[(n, groups // some)](
                x,
                known,
                *more,
                c,
                h * w,
                TINY,
                known is not None,
                block,
                some,
                GROUP,
                num_warps=max(1, min(8, block * some // 64)),
            )


@cache
def working(device: torch.device) -> Any:
    """The kernels, if this machine can compile them and a small trial on the device comes out right; else None."""
    random = torch.Generator().manual_seed(0)
    x, scale, shift, g = (
        torch.randn(*size, generator=random).to(device) for size in ((3, 16, 5, 3), (3, 16), (3, 16), (3, 16, 5, 3))
    )
    given = [t.requires_grad_() for t in (x, scale, shift)]
    try:
        kernels = written()
        with torch.enable_grad():
            ways = [by_kernels(kernels, *given), plain(*given)]
            slopes = [torch.autograd.grad(way, given, g) for way in ways]
        pairs = zip([ways[0], *slopes[0]], [ways[1], *slopes[1]], strict=True)
        return kernels if all((a - b).abs().max() < 1e-3 for a, b in pairs) else None
    except Exception:  # no Triton, no C compiler, no room on the disk for what it makes, ...
        return None


@cache
def written() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The kernels. Made here so that nobody else needs Triton, which finds `tl` among the names of the module."""
    global tl
    import triton
    from triton import language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def ahead(  # type: ignore[no-untyped-def]
        x,
        known,
        out,
        c: tl.constexpr,
        size: tl.constexpr,
        tiny: tl.constexpr,
        told: tl.constexpr,
        block: tl.constexpr,
        some: tl.constexpr,
        group: tl.constexpr,
    ):
        n = tl.program_id(0).to(tl.int64)
        row = tl.arange(0, block)
        channel = (tl.program_id(1) * some + tl.arange(0, some))[:, None] * group + tl.arange(0, group)[None, :]
        at = n * (size * c) + row[:, None, None] * c + channel[None]
        here = (row < size)[:, None, None]
        y = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
        y = tl.where(here, y - (tl.sum(tl.sum(y, 2), 0) / (size * group))[None, :, None], 0.0)
        y = y * tl.rsqrt(tl.sum(tl.sum(y * y, 2), 0) / (size * group) + tiny)[None, :, None]
        if told:
            scale = tl.load(known + n * (2 * c) + channel).to(tl.float32)
            shift = tl.load(known + n * (2 * c) + c + channel).to(tl.float32)
            y = y * (1 + scale[None]) + shift[None]
        tl.store(out + at, y * tl.sigmoid(y), mask=here)

    @triton.jit  # type: ignore[untyped-decorator]
    def back(  # type: ignore[no-untyped-def]
        x,
        known,
        g,
        slope,
        into,
        c: tl.constexpr,
        size: tl.constexpr,
        tiny: tl.constexpr,
        told: tl.constexpr,
        block: tl.constexpr,
        some: tl.constexpr,
        group: tl.constexpr,
    ):
        n = tl.program_id(0).to(tl.int64)
        row = tl.arange(0, block)
        channel = (tl.program_id(1) * some + tl.arange(0, some))[:, None] * group + tl.arange(0, group)[None, :]
        at = n * (size * c) + row[:, None, None] * c + channel[None]
        here = (row < size)[:, None, None]
        y = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
        y = tl.where(here, y - (tl.sum(tl.sum(y, 2), 0) / (size * group))[None, :, None], 0.0)
        by = tl.rsqrt(tl.sum(tl.sum(y * y, 2), 0) / (size * group) + tiny)[None, :, None]
        y = y * by
        u = y
        if told:
            scale = tl.load(known + n * (2 * c) + channel).to(tl.float32)
            shift = tl.load(known + n * (2 * c) + c + channel).to(tl.float32)
            u = y * (1 + scale[None]) + shift[None]
        s = tl.sigmoid(u)
        d = tl.load(g + at, mask=here, other=0.0).to(tl.float32) * s * (1 + u * (1 - s))
        if told:
            tl.store(into + n * (2 * c) + channel, tl.sum(d * y, 0))
            tl.store(into + n * (2 * c) + c + channel, tl.sum(d, 0))
            d = d * (1 + scale[None])
        middle = (tl.sum(tl.sum(d, 2), 0) / (size * group))[None, :, None]
        along = (tl.sum(tl.sum(d * y, 2), 0) / (size * group))[None, :, None]
        tl.store(slope + at, (d - middle - y * along) * by, mask=here)

    return ahead, back
