"""Adam on a gradient that is never stored, against the same with the gradient stored."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor

from sfumato.engine.teachers import fused_adam
from sfumato.engine.teachers.stacked import adam

SHAPES = [(2, 5, 40, 136), (3, 30, 72, 256), (1, 31, 33, 24), (2, 64, 64, 128), (2, 1, 8, 8), (0, 4, 8, 8)]


def given(shape: tuple[int, int, int, int], device: str = "cpu") -> tuple[Tensor, Tensor, list[Tensor]]:
    """Two factors, and weights, moments and the weights' copy."""
    count, n, rows, columns = shape
    random = torch.Generator().manual_seed(0)
    x, y = (torch.randn(count, n, wide, generator=random).to(device, torch.bfloat16) for wide in (rows, columns))
    w, m, v = (torch.rand(count, rows, columns, generator=random).to(device) for _ in range(3))
    return x, y, [w, m.bfloat16(), v.bfloat16(), w.bfloat16()]


def test_it_is_for_short_moments_and_few_images_on_a_gpu():
    _, _, state = given(SHAPES[0])
    assert not fused_adam.fits(state, 30) and not fused_adam.fits(state[:3], 30)

    class There:
        """As if on a GPU."""

        is_cuda = True

        def __init__(self, tensor: Tensor) -> None:
            self.dtype, self.is_contiguous = tensor.dtype, tensor.is_contiguous

    there = [There(tensor) for tensor in state]
    assert fused_adam.fits(there, 64) and not fused_adam.fits(there, 65)
    assert not fused_adam.fits([there[0]] * 4, 30) and not fused_adam.fits([], 30)
    assert not fused_adam.fits([*there[:3], There(state[3].mT)], 30)


def test_without_triton_there_is_no_kernel(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    fused_adam._written.cache_clear()
    assert fused_adam.working.__wrapped__(torch.device("cpu")) is None


@pytest.mark.parametrize("broken", [False, True])
def test_a_kernel_that_fails_or_errs_is_done_without(broken, monkeypatch):
    class Kernel:
        def __getitem__(self, grid):
            def launch(*_, **options):
                if broken:
                    raise RuntimeError("no compiler")

            return launch

    monkeypatch.setattr(fused_adam, "_written", Kernel)
    assert fused_adam.working.__wrapped__(torch.device("cpu")) is None


def test_one_that_is_right_is_taken(monkeypatch):
    class Kernel:
        def __getitem__(self, grid):
            def launch(x, y, w, m, v, copy, scalars, beta1, beta2, *_, **options):
                named = [{"dense": tensor} for tensor in (w, m, v, copy)]
                adam({"dense": torch.bmm(x.mT.float(), y.float())}, *named, scalars, beta1, beta2)

            return launch

    monkeypatch.setattr(fused_adam, "_written", Kernel)
    assert isinstance(fused_adam.working.__wrapped__(torch.device("cpu")), Kernel)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_is_used_and_agrees(shape):
    x, y, state = given(shape, "cuda")
    ours, theirs = ([tensor.clone() for tensor in state] for _ in range(2))
    scalars = torch.tensor([2.0, 0.5, 54_321.0], dtype=torch.float64, device="cuda")
    fused_adam.descend(fused_adam.working(x.device), x, y, ours, scalars, 0.5, 0.999)
    adam({"dense": torch.bmm(x.mT.float(), y.float())}, *({"dense": t} for t in theirs), scalars, 0.5, 0.999)
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-2, atol=1e-4)
