"""Public networks that see what images are made of: built in, read from a file, or brought by the user."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.errors import InputError
from sfumato.networks.pretrained import efficientnet, vgg16
from sfumato.networks.pretrained.resize import at_least
from sfumato.networks.pretrained.weights import read

_BROUGHT: dict[str, nn.Module] = {}


class RandomMaps(nn.Module):
    """A frozen random network: three strided convolutions. It needs no public data, and knows less."""

    def __init__(self, channels: int = 3, width: int = 32) -> None:
        super().__init__()
        sizes = (channels, width, 2 * width, 4 * width)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layers = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in zip(sizes[:-1], sizes[1:], strict=True))

    def forward(self, x: Tensor) -> list[Tensor]:
        x = 2 * x - 1
        maps = []
        for layer in self.layers:
            x = F.leaky_relu(2 * layer(x), 0.2)
            maps.append(x)
        return maps


class EfficientNetMaps(nn.Module):
    """Maps of EfficientNet-Lite0 before each change of size, and its last ones."""

    def __init__(self, net: efficientnet.EfficientNetLite0) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> list[Tensor]:
        net = self.net
        maps = []
        x = F.relu6(net._bn0(net._conv_stem(2 * at_least(x, 64) - 1)))
        for block in net._blocks:
            after = block(x)
            if after.shape[2] != x.shape[2]:
                maps.append(x)
            x = after
        return [*maps, F.relu6(net._bn1(net._conv_head(x)))]


def _efficientnet(path: str | Path | None = None) -> EfficientNetMaps:
    return EfficientNetMaps(efficientnet.load(path))


BUILT_IN: dict[str, Callable[..., nn.Module]] = {
    "efficientnet": _efficientnet,
    "vgg16": vgg16.load,
    "random": RandomMaps,
}


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
    chosen = _BROUGHT[name] if name in _BROUGHT else BUILT_IN[name]()
    return chosen.eval().requires_grad_(False)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
