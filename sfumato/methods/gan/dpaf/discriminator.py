"""A discriminator in parts, for aggregation in the forward phase (Lin et al.: DPAF). No layer mixes examples.

conv1    convolutions that halve the side, of the image alone          frozen
conv2*   more of them, of conv1's maps and those of the label          learns by DP-SGD
------   simplified instance normalisation and sums over a batch       `aggregation.py`
conv3*   more of them, and FC*, two linear layers to one score         learns from released sums alone
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.methods.gan.dpaf.aggregation import normalised
from sfumato.methods.gan.dpaf.layout import Layout
from sfumato.networks.critic import halving

SLOPE = 0.2
Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)


class Wave(nn.Module):
    """sqrt(2) sin(x + pi / 4): of random layers, random Fourier features of patches.

    Sums of units that are nearly linear tell little more than a mean image; sums of waves tell how patches are spread.

    >>> [round(y, 3) for y in Wave()(torch.tensor([0.0, torch.pi / 4])).tolist()]
    [1.0, 1.414]
    """

    def forward(self, x: Tensor) -> Tensor:
        return math.sqrt(2) * torch.sin(x + math.pi / 4)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "leaky": lambda: nn.LeakyReLU(SLOPE),
    "tanh": nn.Tanh,  # a tempered sigmoid
    "wave": Wave,
}


class Lower(nn.Module):
    """(images, labels) -> (B, m, h, w): the features that are aggregated; conv1 does not learn.

    With `mismatch` a record is `shown` under another label too, `shift` classes on: the same for all, and public.
    """

    patterns: Tensor
    shift: Tensor

    def __init__(
        self,
        shape: Sequence[int],
        classes: int,
        layout: Layout,
        width: int = 64,
        features: int = 256,
        activation: str = "leaky",
        embedding: bool = False,
        mismatch: bool = False,
    ) -> None:
        super().__init__()
        sides = layout.sides((int(shape[1]), int(shape[2])))
        maps = layout.maps(int(shape[0]), width, features)
        self.classes = classes
        self.mismatch = mismatch
        first = layout.conv1
        last = layout.conv1 + layout.conv2
        self.shape = layout.features((maps[0], *sides[0]), features)
        self.conv1 = _convolutions(maps[: first + 1], sides[:first], activation).requires_grad_(False)
        inner = [maps[first] + classes, *maps[first + 1 : last + 1]]
        self.conv2 = _convolutions(inner, sides[first:last], activation)
        patterns = torch.randn(classes, classes, *sides[first]) if embedding else torch.zeros(0)
        self.register_buffer("patterns", patterns, persistent=embedding)
        self.register_buffer("shift", torch.ones((), dtype=torch.long), persistent=mismatch)

    @property
    def summed(self) -> tuple[int, int, int]:
        """Shape of what a record adds to a sum."""
        m, h, w = self.shape
        return (2 * m if self.mismatch else m, h, w)

    def turn(self, t: int) -> None:
        """Other labels for step t: each of them in turn."""
        if self.mismatch:
            self.shift.fill_(1 + t % (self.classes - 1))

    def shown(self, images: Tensor, labels: Tensor) -> Tensor:
        """(B, m, h, w), or with `mismatch` (B, 2 m, h, w): under their own labels, then under others."""
        own: Tensor = self(images, labels)
        if not self.mismatch:
            return own
        return torch.cat([own, self(images, (labels + self.shift) % self.classes)], 1)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        maps = self.conv1(2 * images - 1)
        features: Tensor = self.conv2(torch.cat([maps, self._named(labels, maps)], 1))
        return features

    def _named(self, labels: Tensor, maps: Tensor) -> Tensor:
        """What tells conv2* the class: one plane for each, or patterns that are drawn for it and stay."""
        known = _known(labels, self.classes, maps)
        if not len(self.patterns):
            return known[:, :, None, None].expand(-1, -1, *maps.shape[2:])
        # SIN takes the mean of a map away, and with it most of what a plane of one value has added.
        return (known @ self.patterns.flatten(1).to(maps)).view(-1, *self.patterns.shape[1:])


class Upper(nn.Module):
    """(n, m, h, w) features or aggregates -> (n,) scores. If `told` it knows their classes, if `unit` no size."""

    def __init__(
        self,
        shape: Sequence[int],
        classes: int,
        layout: Layout,
        width: int = 64,
        features: int = 256,
        hidden: int = 128,
        activation: str = "leaky",
        told: bool = False,
        unit: bool = False,
    ) -> None:
        super().__init__()
        sides = layout.sides((int(shape[1]), int(shape[2])))
        maps = layout.maps(int(shape[0]), width, features)
        first = layout.conv1 + layout.conv2
        self.classes = classes if told else 0
        self.unit = unit
        self.conv3 = _convolutions(maps[first:], sides[first:-1], activation)
        flat = maps[-1] * math.prod(sides[-1])
        self.fc = nn.Sequential(linear(flat + self.classes, hidden), ACTIVATIONS[activation](), linear(hidden, 1))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        if self.unit:
            # How many records a Poisson sample has moves all of its sum at once, further than anything else does.
            features = F.normalize(features.flatten(1), dim=1).view_as(features) * math.sqrt(features[0].numel())
        flat = self.conv3(features).flatten(1)
        if self.classes:
            flat = torch.cat([flat, _known(labels, self.classes, flat)], 1)
        scores: Tensor = self.fc(flat)[:, 0]
        return scores


class Discriminator(nn.Module):
    """Both halves. Called, it judges each image by itself, or `together` as one sum.

    `shares` are those of the classes where each has an aggregate of its own, and (1.0,) where there is one for all.
    `sin` is false on public images alone, to see what the normalisation does: without it sums have no bound.
    """

    def __init__(
        self,
        lower: Lower,
        upper: Upper,
        shares: Sequence[float] = (1.0,),
        together: bool = False,
        sin: bool = True,
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.shares = tuple(shares)
        self.together = together
        self.sin = sin

    def features(self, images: Tensor, labels: Tensor, record: bool = False) -> Tensor:
        """(B, m, h, w): what is summed, of each image; a `record` may be shown under another label beside its own."""
        maps: Tensor = self.lower.shown(images, labels) if record else self.lower(images, labels)
        return normalised(maps) if self.sin else maps

    @property
    def by_class(self) -> bool:
        """Whether each class has an aggregate of its own."""
        return len(self.shares) > 1

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        if self.together:
            return self.judge(self.means(images, labels)[None]).flatten()[:, None]
        scores: Tensor = self.upper(self.features(images, labels), labels)
        return scores[:, None]

    def sizes(self, like: Tensor, count: int) -> Tensor:
        """(K, 1, 1, 1): how many of `count` images each aggregate should have; one at least, where a class is rare."""
        return like.new_tensor(self.shares).mul(count).clamp(min=1)[:, None, None, None]

    def means(
        self, images: Tensor, labels: Tensor, there: Tensor | None = None, count: int = 0, *, record: bool = False
    ) -> Tensor:
        """(K, m, h, w): aggregates of public images over their number, or of those that are `there` over `count`."""
        features = self.features(images, labels, record)
        if there is not None:
            features = features * there.to(features)[:, None, None, None]
        sums = features.new_zeros(len(self.shares), *features.shape[1:])
        place = labels if self.by_class else torch.zeros_like(labels)
        return sums.index_add(0, place, features) / self.sizes(sums, count or len(labels))

    def judge(self, aggregates: Tensor) -> Tensor:
        """(R, K, m, h, w) -> (R, K) scores."""
        rounds, count = aggregates.shape[:2]
        labels = torch.arange(count, device=aggregates.device).repeat(rounds)
        scores: Tensor = self.upper(aggregates.flatten(0, 1), labels)
        return scores.view(rounds, count)

    def loss(self, real: Tensor, fake: Tensor) -> Tensor:
        """log(1 + e^-s(A)) + log(1 + e^s(A')) of aggregates A of records and A' of fakes, summed over classes.

        Records under other labels, where there are any, are half of the fakes.
        """
        own, *others = real.split(self.lower.shape[0], 2)
        lies = torch.stack([F.softplus(self.judge(side)) for side in (fake, *others)]).mean(0)
        return (F.softplus(-self.judge(own)) + lies).mean(0).sum()


def _known(labels: Tensor, classes: int, like: Tensor) -> Tensor:
    return (labels[:, None] == torch.arange(classes, device=labels.device)).to(like)


def _convolutions(maps: Sequence[int], sides: Sequence[tuple[int, int]], activation: str) -> nn.Sequential:
    layers = nn.Sequential()
    for (inputs, outputs), side in zip(pairwise(maps), sides, strict=True):
        layers.append(_started(halving(inputs, outputs, side)))
        layers.append(ACTIVATIONS[activation]())
    return layers


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with first weights like those of the convolutions."""
    return _started(nn.Linear(inputs, outputs))


def _started(layer: Layer) -> Layer:
    """First weights that keep the size of signals, since nothing normalises them (He et al. 2015)."""
    nn.init.kaiming_normal_(layer.weight, a=SLOPE)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
