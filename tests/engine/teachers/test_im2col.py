"""Windows against torch's own unfolding, and the kernel against strides."""

from __future__ import annotations

import sys
import warnings

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from sfumato.engine.teachers import im2col as module
from sfumato.engine.teachers.im2col import filled, windows

KINDS = [(5, 2, 2), (3, 1, 1), (1, 1, 0), (2, 2, 1)]
SHAPES = [(2, 3, 7, 7, 11), (1, 2, 14, 14, 42), (3, 1, 5, 8, 1), (2, 2, 6, 5, 3), (1, 1, 1, 3, 4)]


def maps(shape: tuple[int, ...], dtype: torch.dtype = torch.float32, device: str = "cpu") -> Tensor:
    """Random, with a NaN and a minus zero in a corner."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    x[0, 0, 0, 0, 0], x[0, 0, 0, -1, -1] = torch.nan, -0.0
    return x.to(device, dtype)


def bits(x: Tensor) -> Tensor:
    return x.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


@pytest.mark.parametrize("size, stride, pad", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("align", [1, 8])
def test_equal_to_unfold(size, stride, pad, shape, align):
    x = maps(shape)
    count, n, _, _, channels = shape
    planes = x.flatten(0, 1).movedim(3, 1)
    expected = functional.unfold(planes, size, padding=pad, stride=stride)  # channels x taps, positions
    expected = expected.unflatten(1, (channels, -1)).permute(0, 3, 2, 1).flatten(2)
    found = windows(x, size, stride, pad, align)
    width = size * size * channels
    assert found.shape == (count, n * expected.shape[1], -(-width // align) * align)
    assert torch.equal(bits(found[..., :width].unflatten(1, (n, -1)).flatten(0, 1)), bits(expected))
    assert not found[..., width:].any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_numbers_of_any_width_and_shared_maps(dtype):
    x = maps((1, 2, 6, 6, 3), dtype).expand(4, -1, -1, -1, -1)
    found = windows(x, 5, 2, 2, 8)
    assert found.dtype == dtype and found.shape == (4, 18, 80)
    assert torch.equal(bits(found), bits(windows(x.contiguous().float(), 5, 2, 2, 8).to(dtype)))


def test_what_is_filled_is_zero():
    x = torch.ones(2, 3, 5)
    assert filled(x, 1) is x and filled(x, 4).shape == (2, 3, 8) and filled(x, 4, rows=True).shape == (2, 4, 8)
    assert filled(x, 4, rows=True).sum() == x.sum()


@pytest.mark.parametrize("shape", SHAPES)
def test_the_operation_is_as_it_is_declared(shape):
    checks = ("test_schema", "test_faketensor")
    found = torch.library.opcheck(module._copied, (maps(shape), 5, 2, 2, 8), test_utils=checks)
    assert set(found.values()) == {"SUCCESS"}
    assert torch.equal(bits(module._copied(maps(shape), 5, 2, 2, 8)), bits(windows(maps(shape), 5, 2, 2, 8)))


def test_without_triton_there_are_strides(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    module._written.cache_clear()
    assert module._working.__wrapped__(torch.device("cpu")) is None


@pytest.mark.parametrize("broken", [RuntimeError, OSError, None])
def test_a_kernel_that_fails_or_errs_is_done_without(broken, monkeypatch):
    class Kernel:
        def __getitem__(self, grid):
            def launch(x, out, *_):
                out.fill_(0)
                if broken:
                    raise broken("no compiler")

            return launch

    monkeypatch.setattr(module, "_written", Kernel)
    assert module._working.__wrapped__(torch.device("cpu")) is None


def test_what_a_kernel_cannot_count_is_left_to_strides(monkeypatch):
    monkeypatch.setattr(module, "MOST", 100)
    assert module._launched(None, maps((2, 3, 7, 7, 11)), 5, 2, 2, 8) is None


@pytest.mark.parametrize(
    "shape, dtype, word",
    [
        ((1, 1, 4, 4, 11), torch.bfloat16, torch.int16),
        ((1, 1, 4, 4, 42), torch.bfloat16, torch.int32),
        ((1, 1, 4, 4, 12), torch.bfloat16, torch.int64),
        ((1, 1, 4, 4, 11), torch.float32, torch.int32),
        ((1, 1, 4, 4, 42), torch.float32, torch.int64),
        ((1, 1, 4, 4, 1), torch.float64, torch.int64),
    ],
)
def test_words_are_as_wide_as_the_channels_allow(shape, dtype, word):
    class Kernel:
        def __getitem__(self, grid):
            return lambda x, out, *_: seen.extend([x, out])

    seen: list[Tensor] = []
    x = maps(shape, dtype)
    found = module._launched(Kernel(), x, 3, 1, 1, 8)
    assert [t.dtype for t in seen] == [word, word] and seen[0].data_ptr() == x.data_ptr()
    assert seen[1].data_ptr() == found.data_ptr() and seen[1].nbytes == found.nbytes


@pytest.mark.slow
def test_the_operation_is_part_of_a_whole_graph():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the compiler's own imports
        work = torch.compile(lambda x: 2 * module._copied(x + 1, 5, 2, 2, 8), fullgraph=True, backend="aot_eager")
        found = work(maps((2, 3, 7, 7, 11)))
    assert torch.equal(bits(found), bits(2 * windows(maps((2, 3, 7, 7, 11)) + 1, 5, 2, 2, 8)))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("size, stride, pad", KINDS)
def test_the_kernel_is_used_and_equals_strides(dtype, size, stride, pad):
    device = maps(SHAPES[0], device="cuda").device
    assert module._working(device) is not None
    for shape in [*SHAPES, (40, 30, 7, 7, 42), (40, 30, 14, 14, 11), (40, 15, 28, 28, 1), (0, 3, 7, 7, 2)]:
        for align in (1, 8):
            x = maps(shape, dtype, "cuda") if shape[0] else torch.empty(shape, dtype=dtype, device="cuda")
            expected = module._strided(x, size, stride, pad, align)
            assert torch.equal(
                bits(module._launched(module._working(device), x, size, stride, pad, align)), bits(expected)
            )
            assert torch.equal(bits(windows(x, size, stride, pad, align)), bits(expected))


@pytest.mark.gpu
def test_the_kernel_reads_shared_turned_and_shifted_maps():
    x = maps((1, 3, 2, 9, 9), torch.bfloat16, "cuda")
    for given in (x.expand(5, -1, -1, -1, -1).movedim(2, 4), x.movedim(2, 4), x.flatten()[1:485].view(1, 1, 11, 11, 4)):
        assert torch.equal(bits(windows(given, 5, 2, 2, 8)), bits(module._strided(given, 5, 2, 2, 8)))


@pytest.mark.gpu
def test_the_kernel_counts_beyond_32_bits():
    x = torch.randint(-(2**15), 2**15, (4000, 30, 14, 14, 11), dtype=torch.int16, device="cuda").view(torch.bfloat16)
    found = windows(x, 3, 1, 1, 8)
    assert found.numel() > 2**31
    for part in (slice(0, 1), slice(2000, 2001), slice(3999, 4000)):
        assert torch.equal(bits(found[part]), bits(module._strided(x[part], 3, 1, 1, 8)))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_kernel_is_part_of_a_whole_graph(dtype):
    def work(x: Tensor) -> Tensor:
        return windows(functional.leaky_relu(x[..., :11], 0.2), 5, 2, 2, 8) + 1

    x = maps((4, 3, 14, 14, 16), dtype, "cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the compiler's own imports
        found = torch.compile(work, fullgraph=True, dynamic=False)(x)
    low = functional.leaky_relu(x[..., :11], 0.2)
    torch.testing.assert_close(found, module._strided(low, 5, 2, 2, 8) + 1, equal_nan=True)
