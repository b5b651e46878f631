"""Public networks that see what images are made of: built in, read from a file, or brought by the user."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.errors import InputError
from sfumato.networks.pretrained.efficientnet import EfficientNetLite0
from sfumato.networks.pretrained.weights import efficientnet_file, fill, read

VGG16 = "SFUMATO_VGG16"
# of ImageNet, under which VGG16 was trained
MEAN = (0.485, 0.456, 0.406)
SPREAD = (0.229, 0.224, 0.225)

_BROUGHT: dict[str, nn.Module] = {}


class Random(nn.Module):
    """A frozen random network: three strided convolutions. It needs no public data, and knows less."""

    def __init__(self, channels: int = 3, width: int = 32) -> None:
        super().__init__()
        sizes = (channels, width, 2 * width, 4 * width)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layers = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in zip(sizes[:-1], sizes[1:], strict=True))

    def forward(self, x: Tensor) -> list[Tensor]:
        x = 2 * x - 1
        found = []
        for layer in self.layers:
            x = F.leaky_relu(2 * layer(x), 0.2)
            found.append(x)
        return found


class Vgg16(nn.Module):
    """The convolutions of VGG16 (Simonyan and Zisserman 2015), under torchvision's names; maps of all five stages."""

    STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for stage in self.STAGES:
            for after in stage:
                layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
                before = after
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> list[Tensor]:
        mean, spread = (torch.tensor(v).to(x)[:, None, None] for v in (MEAN, SPREAD))
        x = (_at_least(x, 32) - mean) / spread
        found = []
        for layer in self.features:
            if isinstance(layer, nn.MaxPool2d):
                found.append(x)
            x = layer(x)
        return found


class Efficient(nn.Module):
    """Maps of EfficientNet-Lite0 before each change of size, and its last ones."""

    def __init__(self) -> None:
        super().__init__()
        self.net = EfficientNetLite0()

    def forward(self, x: Tensor) -> list[Tensor]:
        net = self.net
        found = []
        x = F.relu6(net._bn0(net._conv_stem(2 * _at_least(x, 64) - 1)))
        for block in net._blocks:
            made = block(x)
            if made.shape[2] != x.shape[2]:
                found.append(x)
            x = made
        return [*found, F.relu6(net._bn1(net._conv_head(x)))]


def _at_least(x: Tensor, size: int) -> Tensor:
    if min(x.shape[2:]) >= size:
        return x
    return F.interpolate(x, (size, size), mode="bilinear", align_corners=False)


def _vgg16(path: str | Path | None = None) -> nn.Module:
    given = path or os.environ.get(VGG16)
    if not given or not Path(given).is_file():
        raise InputError(f"The weights of vgg16 are not here: name a file with torchvision's names with {VGG16}.")
    net = Vgg16()
    tensors = read(Path(given))
    found = {name: tensors[name].float() for name in net.state_dict() if name in tensors}
    if len(found) != len(net.state_dict()):
        raise InputError(f"{given} holds another network than VGG16; see the documentation of dp-mepf.")
    net.load_state_dict(found)
    return net


def _efficientnet(path: str | Path | None = None) -> nn.Module:
    made = Efficient()
    fill(made.net, efficientnet_file(path))
    return made


BUILT_IN: dict[str, Callable[..., nn.Module]] = {"efficientnet": _efficientnet, "vgg16": _vgg16, "random": Random}


def bring(network: Any) -> str:
    """The name that a network goes by: a built-in one, or a module or file of weights that is kept under its hash."""
    if isinstance(network, str) and (network in BUILT_IN or network in _BROUGHT):
        return network
    if isinstance(network, nn.Module):
        name = f"module-{_hash(b''.join(v.detach().cpu().numpy().tobytes() for v in network.state_dict().values()))}"
        _BROUGHT[name] = network
        return name
    if isinstance(network, str | Path) and Path(network).is_file():
        kind = "vgg16" if any(key.startswith("features.") for key in read(Path(network))) else "efficientnet"
        name = f"{kind}-{_hash(Path(network).read_bytes())}"
        _BROUGHT[name] = BUILT_IN[kind](network)
        return name
    raise InputError(f"Expected network={', '.join(BUILT_IN)}, a file of weights or a module, found {network!r}.")


def network(name: str) -> nn.Module:
    """The network of this name, frozen: nothing in it looks at other images or changes."""
    made = _BROUGHT[name] if name in _BROUGHT else BUILT_IN[name]()
    return made.eval().requires_grad_(False)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
