"""InceptionV3 as FID uses it (Szegedy et al. 2015; Heusel et al. 2017), in plain torch, for a local weight file.

The layout is that of pt_inception-2015-12-05 of pytorch-fid: names as in torchvision, 1,008 classes, no auxiliary
classifier. Three things make numbers comparable and differ from torchvision: average pooling leaves the padding out of
its count, the last block pools by maximum, and images come in by plain bilinear resizing to 299 and 2x - 1.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.networks.pretrained.weights import fill, inception_file


class Unit(nn.Module):
    """Convolution, batch norm, ReLU."""

    def __init__(
        self,
        before: int,
        after: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(after, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)))


def average(x: Tensor) -> Tensor:
    """TensorFlow's average pool: the padding does not count."""
    return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)


class A(nn.Module):
    """Mixed_5*: 35 x 35."""

    def __init__(self, before: int, pooled: int) -> None:
        super().__init__()
        self.branch1x1 = Unit(before, 64, 1)
        self.branch5x5_1, self.branch5x5_2 = Unit(before, 48, 1), Unit(48, 64, 5, padding=2)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = Unit(before, 64, 1), Unit(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = Unit(96, 96, 3, padding=1)
        self.branch_pool = Unit(before, pooled, 1)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        five = self.branch5x5_2(self.branch5x5_1(x))
        return torch.cat([self.branch1x1(x), five, double, self.branch_pool(average(x))], 1)


class B(nn.Module):
    """Mixed_6a: 35 x 35 to 17 x 17."""

    def __init__(self, before: int) -> None:
        super().__init__()
        self.branch3x3 = Unit(before, 384, 3, stride=2)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = Unit(before, 64, 1), Unit(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = Unit(96, 96, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch3x3(x), double, F.max_pool2d(x, 3, 2)], 1)


class C(nn.Module):
    """Mixed_6b to Mixed_6e: 17 x 17, with long thin filters."""

    def __init__(self, before: int, c: int) -> None:
        super().__init__()
        across, down = dict(kernel=(1, 7), padding=(0, 3)), dict(kernel=(7, 1), padding=(3, 0))
        self.branch1x1 = Unit(before, 192, 1)
        self.branch7x7_1, self.branch7x7_2 = Unit(before, c, 1), Unit(c, c, **across)  # type: ignore[arg-type]
        self.branch7x7_3 = Unit(c, 192, **down)  # type: ignore[arg-type]
        self.branch7x7dbl_1, self.branch7x7dbl_2 = Unit(before, c, 1), Unit(c, c, **down)  # type: ignore[arg-type]
        self.branch7x7dbl_3, self.branch7x7dbl_4 = Unit(c, c, **across), Unit(c, c, **down)  # type: ignore[arg-type]
        self.branch7x7dbl_5 = Unit(c, 192, **across)  # type: ignore[arg-type]
        self.branch_pool = Unit(before, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        single = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        return torch.cat([self.branch1x1(x), single, double, self.branch_pool(average(x))], 1)


class D(nn.Module):
    """Mixed_7a: 17 x 17 to 8 x 8."""

    def __init__(self, before: int) -> None:
        super().__init__()
        self.branch3x3_1, self.branch3x3_2 = Unit(before, 192, 1), Unit(192, 320, 3, stride=2)
        self.branch7x7x3_1, self.branch7x7x3_2 = Unit(before, 192, 1), Unit(192, 192, (1, 7), padding=(0, 3))
        self.branch7x7x3_3, self.branch7x7x3_4 = Unit(192, 192, (7, 1), padding=(3, 0)), Unit(192, 192, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        thin = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return torch.cat([self.branch3x3_2(self.branch3x3_1(x)), thin, F.max_pool2d(x, 3, 2)], 1)


class E(nn.Module):
    """Mixed_7b and Mixed_7c: 8 x 8; in the second, FID's weights want a maximum where others average."""

    def __init__(self, before: int, maximum: bool) -> None:
        super().__init__()
        self.maximum = maximum
        self.branch1x1, self.branch3x3_1 = Unit(before, 320, 1), Unit(before, 384, 1)
        self.branch3x3_2a, self.branch3x3_2b = _cross()
        self.branch3x3dbl_1, self.branch3x3dbl_2 = Unit(before, 448, 1), Unit(448, 384, 3, padding=1)
        self.branch3x3dbl_3a, self.branch3x3dbl_3b = _cross()
        self.branch_pool = Unit(before, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        one, two = self.branch3x3_1(x), self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        pooled = self.branch_pool(F.max_pool2d(x, 3, 1, 1) if self.maximum else average(x))
        return torch.cat(
            [
                self.branch1x1(x),
                self.branch3x3_2a(one),
                self.branch3x3_2b(one),
                self.branch3x3dbl_3a(two),
                self.branch3x3dbl_3b(two),
                pooled,
            ],
            1,
        )


def _cross() -> tuple[Unit, Unit]:
    return Unit(384, 384, (1, 3), padding=(0, 1)), Unit(384, 384, (3, 1), padding=(1, 0))


class InceptionV3(nn.Module):
    """Images (n, 3, 299, 299) in [-1, 1] -> 2,048 pooled features, or scores of 1,008 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.Conv2d_1a_3x3, self.Conv2d_2a_3x3 = Unit(3, 32, 3, stride=2), Unit(32, 32, 3)
        self.Conv2d_2b_3x3 = Unit(32, 64, 3, padding=1)
        self.Conv2d_3b_1x1, self.Conv2d_4a_3x3 = Unit(64, 80, 1), Unit(80, 192, 3)
        self.Mixed_5b, self.Mixed_5c, self.Mixed_5d = A(192, 32), A(256, 64), A(288, 64)
        self.Mixed_6a = B(288)
        self.Mixed_6b, self.Mixed_6c, self.Mixed_6d, self.Mixed_6e = C(768, 128), C(768, 160), C(768, 160), C(768, 192)
        self.Mixed_7a, self.Mixed_7b, self.Mixed_7c = D(768), E(1280, maximum=False), E(2048, maximum=True)
        self.fc = nn.Linear(2048, 1008)

    def features(self, x: Tensor) -> Tensor:
        """The 2,048 numbers of "pool3"."""
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(F.max_pool2d(x, 3, 2)))
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(F.max_pool2d(x, 3, 2))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))))
        pooled: Tensor = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x))).mean((2, 3))
        return pooled

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(self.features(x))
        return scores


def load(path: str | Path | None = None) -> InceptionV3:
    """The network with the weights of a local file, frozen."""
    return fill(InceptionV3(), inception_file(path))


def prepare(images: Tensor, size: int = 299) -> Tensor:
    """uint8 (n, 3, h, w) -> [-1, 1] at `size` pixels: bilinear, pixel centres at halves, without antialiasing."""
    x = F.interpolate(images.float() / 255, (size, size), mode="bilinear", align_corners=False, antialias=False)
    return (2 * x - 1).contiguous(memory_format=torch.channels_last)
