"""What happens between two convolutions of the U-Net: against torch's own layers, and the kernels against that."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from sfumato.networks.groupnorm_silu import GROUP, even, plain, soft, working
from sfumato.networks.unet import twice


def given(side, told, device="cpu"):
    torch.manual_seed(0)
    x = (3 * torch.randn(6, 24, side, side, device=device) + 1).requires_grad_()
    return [x, *([torch.randn(6, 24, device=device).requires_grad_() for _ in range(2)] if told else [])]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_even_is_a_group_norm_without_parameters(layout):
    x = given(5, False)[0].detach().contiguous(memory_format=layout)
    assert torch.allclose(even(x), F.group_norm(x, 24 // GROUP), atol=1e-5)


def test_soft_scales_and_shifts_before_it_bends():
    x, scale, shift = given(5, True)
    wanted = F.silu(even(x) * (1 + scale[:, :, None, None]) + shift[:, :, None, None])
    assert torch.equal(soft(x, scale, shift), wanted)
    assert torch.equal(soft(x), F.silu(even(x)))


def test_images_stay_apart():
    x = given(5, False)[0].detach()
    changed = x.clone()
    changed[0] += 1
    assert torch.equal(soft(x)[1:], soft(changed)[1:])


def test_half_precision_stays():
    assert soft(given(5, False)[0].bfloat16()).dtype == torch.bfloat16


def test_twice_as_large():
    x = torch.randn(2, 3, 4, 5)
    assert torch.equal(twice(x, torch.Size((8, 10))), F.interpolate(x, (8, 10)))
    assert twice(x, torch.Size((7, 10))).shape == (2, 3, 7, 10)


@pytest.mark.gpu
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("side", [1, 7, 14, 28])
def test_the_kernels(told, side):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    inputs = given(side, told, "cuda")
    assert working(inputs[0].device) is not None
    ways = soft(*inputs), plain(*inputs) if told else plain(inputs[0], None, None)
    slopes = [torch.autograd.grad(way, inputs, torch.ones_like(way)) for way in ways]
    assert torch.allclose(*ways, atol=1e-5)
    assert all(torch.allclose(a, b, atol=1e-3, rtol=1e-3) for a, b in zip(*slopes, strict=True))
