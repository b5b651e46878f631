"""The classifiers that are trained: fixed features, which no data went into, and a head, whose weights are released.

cnn         pixels by fixed constants; the small CNN of DataLens' table 8, that of Opacus' MNIST example,
            with 26,010 parameters for 28x28 grey images of 10 classes
scattering  the scattering transform, normalised in each image over groups of maps (Tramer and Boneh 2021);
            a linear head of 39,700 parameters
features    a frozen public network; a linear head
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.classify.features import Public, public_features
from sfumato.errors import InputError
from sfumato.evaluate.features import fingerprint
from sfumato.networks.scattering import LEAST, MAPS, Scattering, outputs

NETWORKS = ("cnn", "scattering", "features", "linear")
SMALLEST = {"cnn": 14, "scattering": LEAST, "features": 1, "linear": 1}


@dataclass(frozen=True)
class Architecture:
    """All that a network is built from, but its weights."""

    network: str
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    groups: int = 27  # of the maps of a channel that are normalised together
    centre: float = 0.1  # pixels of the CNN and the linear network: (x - centre) / spread
    spread: float = 0.3
    features: str = ""
    fingerprint: str = ""  # of the public network's weights

    def to_json(self) -> dict[str, Any]:
        """For config.json."""
        return asdict(self) | {"shape": list(self.shape), "classes": list(self.classes)}


class Network(nn.Module):
    """Images in [0, 1] -> logits."""

    def __init__(self, architecture: Architecture, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.architecture = architecture
        self.body = body.requires_grad_(False)
        self.head = head

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(images))
        return scores


class Scaled(nn.Module):
    """Pixels by fixed constants."""

    def __init__(self, centre: float, spread: float) -> None:
        super().__init__()
        self.centre = centre
        self.spread = spread

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.centre) / self.spread


def build(architecture: Architecture, *, weights: str | None = None, random: torch.Generator | None = None) -> Network:
    """The network on the CPU; a CNN starts from `random`, a linear head from zero.

    >>> net = build(Architecture("scattering", (1, 28, 28), tuple("0123456789")))
    >>> net(torch.rand(2, 1, 28, 28)).shape, sum(p.numel() for p in net.head.parameters())
    (torch.Size([2, 10]), 39700)
    """
    least = SMALLEST[architecture.network]
    if min(architecture.shape[1:]) < least:
        raise InputError(
            f"Expected images of at least {least}x{least} pixels for network={architecture.network}, "
            f"found {architecture.shape[2]}x{architecture.shape[1]}."
        )
    if architecture.network == "cnn":
        seed = int(torch.randint(2**31, (1,), generator=random)) if random else 0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Network(
                architecture,
                Scaled(architecture.centre, architecture.spread),
                _cnn(architecture.shape, len(architecture.classes)),
            ).eval()
    body, width = _fixed(architecture, weights)
    head = nn.Linear(width, len(architecture.classes))
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return Network(architecture, body, head).eval()


def _cnn(shape: tuple[int, int, int], classes: int) -> nn.Module:
    left = [(((side - 2) // 2 - 4) // 2) for side in shape[1:]]
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(32 * left[0] * left[1], 32),
        nn.ReLU(),
        nn.Linear(32, classes),
    )


def _fixed(architecture: Architecture, weights: str | None) -> tuple[nn.Module, int]:
    """The features of a linear head, and how many they are."""
    if architecture.network == "scattering":
        return _scattering(architecture)
    if architecture.network == "features":
        return _public(architecture, weights)
    return nn.Sequential(Scaled(architecture.centre, architecture.spread), nn.Flatten()), math.prod(architecture.shape)


def _scattering(architecture: Architecture) -> tuple[nn.Module, int]:
    channels, height, width = architecture.shape
    normed = nn.GroupNorm(architecture.groups * channels, MAPS * channels, affine=False)
    body = nn.Sequential(Scattering(architecture.shape), normed, nn.Flatten())
    return body, MAPS * channels * outputs(height) * outputs(width)


def _public(architecture: Architecture, weights: str | None) -> tuple[Public, int]:
    body = public_features(architecture.features, weights)
    if architecture.fingerprint not in ("", fingerprint(body)):
        raise InputError(
            f"This classifier was trained on other weights of {architecture.features} than those that are here; "
            "name the right file with weights=FILE."
        )
    return body, body.width
