"""Frozen public networks as fixed features: trained on public images, never touched by private ones.

    efficientnet-lite0   1,280 features; the optional package of weights, or a file
    resnet18             512 features, as in the CIFAR-10 protocol of DataLens; a file in the layout of torchvision
    inception            2,048 features; a file in the layout of pytorch-fid

The weights are a local file that the user names or has; nothing is fetched. Grey images are repeated to three channels.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.errors import InputError
from sfumato.networks.pretrained import efficientnet, inception
from sfumato.networks.pretrained.weights import efficientnet_file, fill, inception_file

SIDE = 128  # pixels that ResNet-18 is shown
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
NAMES = ("efficientnet-lite0", "resnet18", "inception")


class Basic(nn.Module):
    """Two 3x3 convolutions beside the identity, or beside a 1x1 convolution where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        else:
            self.downsample = nn.Sequential()

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


class ResNet18(nn.Module):
    """He et al. 2016, under the names of torchvision's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        widths = (64, 64, 128, 256, 512)
        for at, (before, after) in enumerate(zip(widths, widths[1:], strict=False), 1):
            pair = nn.Sequential(Basic(before, after, 1 if at == 1 else 2), Basic(after, after, 1))
            setattr(self, f"layer{at}", pair)
        self.fc = nn.Linear(512, 1000)

    def features(self, x: Tensor) -> Tensor:
        """The 512 numbers before the last layer."""
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for at in range(1, 5):
            x = getattr(self, f"layer{at}")(x)
        return x.mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(self.features(x))
        return scores


def _prepare_resnet(images: Tensor) -> Tensor:
    """Values 0 to 255 -> scaled by ImageNet's constants, at 128 pixels."""
    x = F.interpolate(images / 255, (SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True)
    mean, spread = (x.new_tensor(values).view(1, 3, 1, 1) for values in IMAGENET)
    return (x - mean) / spread


class Public(nn.Module):
    """Images in [0, 1] -> rows of a frozen network, each scaled by its own mean and spread."""

    def __init__(self, network: nn.Module, prepare: Callable[[Tensor], Tensor], width: int) -> None:
        super().__init__()
        self.network = network.eval().requires_grad_(False)
        self.width = width
        self._prepare = prepare

    def train(self, mode: bool = True) -> Public:
        """Stays in evaluation mode: statistics of public images are part of the features."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        colour = images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images
        rows = self.network.features(self._prepare(colour * 255))  # type: ignore[operator]
        return F.layer_norm(rows.flatten(1), (self.width,))


def public_features(name: str, weights: str | Path | None = None) -> Public:
    """The named network, filled from its file."""
    if name == "inception":
        return Public(fill(inception.InceptionV3(), inception_file(weights)), inception.prepare, 2048)
    if name == "resnet18":
        if not weights or not Path(weights).is_file():
            raise InputError("The weights of resnet18 are not here: name a file with --set weights=FILE.")
        return Public(fill(ResNet18(), Path(weights)), _prepare_resnet, 512)
    return Public(fill(efficientnet.EfficientNetLite0(), efficientnet_file(weights)), efficientnet.prepare, 1280)
