"""Rows of a convolution's kernel: what the GPU's kernel is held against, and the kernel itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sfumato.engine.gradients.conv_sample_grads import kernel_rows, shown

LAYERS = [(32, 32, 14, 3, 1), (80, 70, 7, 3, 1), (4, 32, 14, 3, 1), (32, 3, 9, 3, 2), (16, 8, 5, 1, 1)]


def factors(inputs, outputs, side, size, stride, device="cpu", noise_multiplicity=4):
    torch.manual_seed(0)
    layer = nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2)
    x = torch.randn(3 * noise_multiplicity, inputs, side, side)
    return layer, x.to(device), torch.randn_like(layer(x)).to(device)


@pytest.mark.parametrize("sizes", LAYERS[2:])
def test_windows_show_the_gradients_of_single_examples(sizes):
    layer, x, g = factors(*sizes)
    rows = shown(layer, x, g, 4)
    for row, own, slope in zip(rows, x.split(4), g.split(4), strict=True):
        (wanted,) = torch.autograd.grad(layer(own), [layer.weight], slope)
        laid = row[0].view(len(wanted), -1, wanted.shape[1]).mT.reshape(wanted.shape)  # channels are innermost in rows
        assert torch.allclose(laid, wanted, atol=1e-4)


def test_a_cpu_has_no_such_kernel():
    assert kernel_rows(*factors(*LAYERS[0]), 4) is None


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", LAYERS)
def test_the_kernel(sizes):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    layer, x, g = factors(*sizes, device="cuda")
    found, wanted = kernel_rows(layer, x.bfloat16(), g.bfloat16(), 4), shown(layer, x.bfloat16(), g.bfloat16(), 4)
    assert found is not None and found.shape == wanted.shape
    assert (found - wanted).abs().max() < 1e-4 * wanted.abs().max()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(8, 8, 3, groups=2),
        nn.Conv2d(8, 8, 3, dilation=2),
        nn.Conv2d(8, 8, 3, padding=1, padding_mode="circular"),
        nn.Conv2d(8, 8, 3, stride=(1, 2)),
    ],
)
def test_what_the_kernel_does_not_do(layer):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    x = torch.randn(4, 8, 9, 9)
    assert kernel_rows(layer, x.cuda().bfloat16(), torch.randn_like(layer(x)).cuda().bfloat16(), 1) is None
