"""EfficientNet-Lite0 (Tan and Le 2019; the Lite variant has no squeeze-and-excitation and ReLU6), in plain torch.

Names are those of the public weights, and padding is TensorFlow's SAME, under which they were trained.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.networks.pretrained.weights import efficientnet_file, fill

# repeats, kernel, stride of the first, expansion, channels out
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class Same(nn.Conv2d):
    """A convolution without bias whose output has ceil(size / stride) pixels; the odd pixel of padding goes last."""

    def __init__(self, before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(before, after, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        pads: list[int] = []
        for size, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(F.pad(x, pads) if any(pads) else x)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class Block(nn.Module):
    """Inverted residual: widen, convolve each channel alone, narrow."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = before * expansion
        self.skips = stride == 1 and before == after
        self.expands = expansion != 1
        if self.expands:
            self._expand_conv = Same(before, wide, 1)
            self._bn0 = _norm(wide)
        self._depthwise_conv = Same(wide, wide, kernel, stride, groups=wide)
        self._bn1 = _norm(wide)
        self._project_conv = Same(wide, after, 1)
        self._bn2 = _norm(after)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        y = F.relu6(self._bn1(self._depthwise_conv(y)))
        z: Tensor = self._bn2(self._project_conv(y))
        return x + z if self.skips else z


class EfficientNetLite0(nn.Module):
    """Images (n, 3, h, w) in [-1, 1] -> 1,280 pooled features, or scores of the 1,000 ImageNet classes."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = Same(3, 32, 3, 2)
        self._bn0 = _norm(32)
        blocks = []
        before = 32
        for repeats, kernel, stride, expansion, after in STAGES:
            for i in range(repeats):
                blocks.append(Block(before, after, kernel, stride if i == 0 else 1, expansion))
                before = after
        self._blocks = nn.Sequential(*blocks)
        self._conv_head = Same(before, 1280, 1)
        self._bn1 = _norm(1280)
        self._fc = nn.Linear(1280, 1000)

    def features(self, x: Tensor) -> Tensor:
        """The 1,280 numbers before the last layer."""
        x = self._blocks(F.relu6(self._bn0(self._conv_stem(x))))
        return F.relu6(self._bn1(self._conv_head(x))).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self._fc(self.features(x))
        return scores


def load(path: str | Path | None = None) -> EfficientNetLite0:
    """The network with its public weights, frozen."""
    return fill(EfficientNetLite0(), efficientnet_file(path))


def prepare(images: Tensor, size: int = 128) -> Tensor:
    """uint8 (n, 3, h, w) -> [-1, 1] at `size` pixels."""
    x = images.float() / 255
    if tuple(x.shape[2:]) != (size, size):
        shrinks = min(x.shape[2:]) > size
        x = F.interpolate(x, (size, size), mode="bilinear", align_corners=False, antialias=shrinks)
    return ((x - 0.5) / 0.5).contiguous(memory_format=torch.channels_last)
