"""Windows of maps as rows of a matrix, with which a convolution is a matrix product.

Maps keep channels last, so the pixels of one row of a window lie side by side in memory: a window is `size` runs of
size x channels numbers. A compiler that is given the same as a padded copy seen through strides works out every
number's place by itself and is bound by that arithmetic rather than by memory. Here, on CUDA, a kernel works out the
place of a row and of a column once each for a whole tile, and copies words as wide as the channels allow, whatever
they stand for. To torch.compile it is one opaque operation. Elsewhere, and where Triton is absent or fails a small
trial, strides it is. Numbers are copied, so both ways agree in every bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from triton import language as tl

WORDS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}
# of a tile, at most: 64 words for each of 128 threads
ROWS = 128
COLUMNS = 64
MOST = 2**31 - 1  # of rows, columns, numbers of one image and tiles, which the kernel counts in 32 bits


def windows(x: Tensor, size: int, stride: int, pad: int, align: int = 1) -> Tensor:
    """Windows of (count, n, h, w, channels), zeros around: (count, n x positions, taps x channels).

    Columns are filled with zeros up to a multiple of `align`, as matrix units need. On CUDA no gradient goes back.

    >>> windows(torch.arange(1.0, 5.0).view(1, 1, 2, 2, 1), size=2, stride=2, pad=1, align=3)[0]
    tensor([[0., 0., 0., 1., 0., 0.],
            [0., 0., 2., 0., 0., 0.],
            [0., 3., 0., 0., 0., 0.],
            [4., 0., 0., 0., 0., 0.]])
    """
    return _copied(x.contiguous(), size, stride, pad, align) if x.is_cuda else _strided(x, size, stride, pad, align)


def filled(x: Tensor, align: int, rows: bool = False) -> Tensor:
    """With zeros up to a multiple of columns, and of rows if asked."""
    spare = (0, -x.shape[-1] % align, 0, -x.shape[-2] % align if rows else 0)
    return functional.pad(x, spare) if any(spare) else x


def _strided(x: Tensor, size: int, stride: int, pad: int, align: int) -> Tensor:
    found = functional.pad(x, (0, 0, pad, pad, pad, pad)).unfold(2, size, stride).unfold(3, size, stride)
    return filled(found.permute(0, 1, 2, 3, 5, 6, 4).flatten(1, 3).flatten(2), align)


def _empty(x: Tensor, size: int, stride: int, pad: int, align: int) -> Tensor:
    """Room for the windows."""
    count, n, h, w, channels = x.shape
    positions = ((h + 2 * pad - size) // stride + 1) * ((w + 2 * pad - size) // stride + 1)
    return x.new_empty(count, n * positions, -(-size * size * channels // align) * align)


@torch.library.custom_op(
    "sfumato::windows", mutates_args=(), schema="(Tensor x, int size, int stride, int pad, int align) -> Tensor"
)
def _copied(x: Tensor, size: int, stride: int, pad: int, align: int) -> Tensor:
    """Opaque to the compiler: what it finds on the device is decided when it runs."""
    kernel = _working(x.device) if x.is_cuda else None
    found = None if kernel is None else _launched(kernel, x, size, stride, pad, align)
    return _strided(x, size, stride, pad, align).contiguous() if found is None else found


_copied.register_fake(_empty)


def _launched(kernel: Any, x: Tensor, size: int, stride: int, pad: int, align: int) -> Tensor | None:
    """By the kernel; None if it cannot count that far."""
    x, out = x.contiguous(), _empty(x, size, stride, pad, align)
    (_, _, h, w, channels), (rows, columns) = x.shape, (out.shape[0] * out.shape[1], out.shape[2])
    if not out.numel():
        return out
    bytes_of = channels * x.element_size(), columns * x.element_size(), x.storage_offset() * x.element_size()
    width = next(width for width in WORDS if not any(number % width for number in bytes_of))
    channels = bytes_of[0] // width
    columns = bytes_of[1] // width
    tile = min(COLUMNS, 1 << (columns - 1).bit_length())
    tiles = -(-rows // ROWS) * -(-columns // tile)
    if max(rows + ROWS, columns + tile, h * w * channels, tiles) > MOST:
        return None
    across = (w + 2 * pad - size) // stride + 1
    given, taken = (tensor.view(-1).view(WORDS[width]) for tensor in (x, out))
    with torch.cuda.device_of(x):
        kernel[(tiles,)](
            given,
            taken,
            rows,
            columns,
            h,
            w,
            channels,
            across,
            out.shape[1] // x.shape[1],
            size,
            stride,
            pad,
            ROWS,
            tile,
        )
    return out


@cache
def _working(device: torch.device) -> Any:
    """The kernel, if this machine can compile it and a small trial on the device comes out right; else None."""
    x = torch.arange(1, 1 + 2 * 5 * 4 * 3, device=device, dtype=torch.float32).view(1, 2, 5, 4, 3)
    try:
        kernel = _written()
        found = _launched(kernel, x, 3, 2, 1, 4)
        return kernel if found is not None and torch.equal(found, _strided(x, 3, 2, 1, 4)) else None
    except Exception:  # no Triton, no C compiler, no room on the disk for what it makes, ...
        return None


@cache
def _written() -> Callable[..., Any]:
    """The kernel. Made here so that nobody else needs Triton, which finds `tl` among the names of the module."""
    global tl
    import triton
    from triton import language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def copy(  # type: ignore[no-untyped-def]
        x,
        out,
        rows,
        columns: tl.constexpr,
        h: tl.constexpr,
        w: tl.constexpr,
        channels: tl.constexpr,
        across: tl.constexpr,
        positions: tl.constexpr,
        size: tl.constexpr,
        stride: tl.constexpr,
        pad: tl.constexpr,
        some_rows: tl.constexpr,
        some_columns: tl.constexpr,
    ):
        tiles: tl.constexpr = (columns + some_columns - 1) // some_columns
        row = tl.program_id(0) // tiles * some_rows + tl.arange(0, some_rows)
        column = tl.program_id(0) % tiles * some_columns + tl.arange(0, some_columns)
        image = row // positions
        place = row % positions
        top = place // across * stride - pad
        left = place % across * stride - pad
        down = column // (size * channels)
        run = column % (size * channels)
        start = image.to(tl.int64) * (h * w * channels) + (top * w + left) * channels
        step = down * (w * channels) + run
        # A row or column beyond the last is sent outside the map, which spares a mask for every number.
        y = tl.where(row < rows, top, -h - size)[:, None] + down[None, :]
        right = tl.where(down < size, run // channels, w + pad)
        inside = (y >= 0) & (y < h) & (left[:, None] + right[None, :] >= 0) & (left[:, None] + right[None, :] < w)
        word = tl.load(x + start[:, None] + step[None, :], mask=inside, other=0)
        to = row.to(tl.int64)[:, None] * columns + column[None, :]
        tl.store(out + to, word, mask=(row < rows)[:, None] & (column < columns)[None, :])

    kernel: Callable[..., Any] = copy
    return kernel
