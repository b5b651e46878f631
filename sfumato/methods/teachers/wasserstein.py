"""Wasserstein critics, one for each part, as one model (WGAN-GP: Gulrajani et al. 2017; used by GS-WGAN).

    s(x, y)   convolution 4x4 of stride 2, twice, a linear layer, each with a constant for each label and leaky ReLU;
              then a linear score for each label
    loss      mean_j [ s(x'_j, y_j) - s(x_j, y_j) + lambda (||grad s(b_j, y_j)|| - 1)^2 ]

x_j are a part's own records, x'_j a fake image of the same label for each, b_j = u_j x_j + (1 - u_j) x'_j with u_j by
chance. A record that finds no fake of its label has no weight.

Leaky ReLU makes s linear by pieces: grad s(b) = A1' D1 A2' D2 A3' D3 w, with layers A and the slopes D that b meets. So
the penalty's gradient needs no second pass of automatic differentiation. With v its derivative in grad s(b), it is the
usual product of inputs and errors in each layer: errors those of s at b, inputs v, D1 A1 v, D2 A2 D1 A1 v, ...

Every tensor has a leading axis of critics and nothing is reduced over it. A convolution 4x4 of stride 2 is one of 2x2
on blocks of 2x2 pixels: four shifted copies make its columns, four shifted sums lead back.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.engine.teachers.stacked import chunk_for, precision, restore, state_of

SLOPE = 0.2
TINY = 1e-12
ADAM_EPSILON = 1e-8
LAYERS = ("first", "second", "dense")
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
TILE = {"cpu": 2**26, "cuda": 2**34}  # bytes that critics worked on at once may take; within a cache on a CPU
PRECISIONS = ("tf32", "float32")
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class SteepCritics:
    """What a critic is, public: a network whose slope is held near 1.

    >>> SteepCritics((1, 28, 28), 10).parameters
    212192
    """

    shape: tuple[int, int, int]
    classes: int
    width: int = 32  # maps of the second convolution; the first has half as many
    hidden: int = 128
    penalty: float = 10.0  # lambda
    teacher_batch: int = 16  # real images that each critic brings to an update
    learning_rate: float = 1e-3
    beta1: float = 0.5
    beta2: float = 0.9
    precision: str = "tf32"  # of matrix products on CUDA

    def __post_init__(self) -> None:
        if min(*self.shape, self.classes, self.width, self.hidden, self.teacher_batch) < 1:
            raise ValueError(f"Expected shape, classes, width, hidden and teacher_batch from 1, found {self}.")
        if not (0 <= self.penalty < 1e6 and 0 < self.learning_rate < 10 and self.precision in PRECISIONS):
            raise ValueError(
                f"Expected penalty from 0, learning_rate in (0, 10) and precision={' or '.join(PRECISIONS)}, found "
                f"penalty={self.penalty}, learning_rate={self.learning_rate}, precision={self.precision}."
            )

    @property
    def maps(self) -> tuple[int, int]:
        """Channels after each convolution."""
        return math.ceil(self.width / 2), self.width

    @property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """Height and width of the image and after each convolution."""
        found = [(self.shape[1], self.shape[2])]
        for _ in range(2):
            found.append((math.ceil(found[-1][0] / 2), math.ceil(found[-1][1] / 2)))
        return tuple(found)

    def layout(self) -> dict[str, tuple[int, ...]]:
        """The weights of one critic by name."""
        (a, b), y, h = self.maps, self.classes, self.hidden
        inputs = {"first": (16 * self.shape[0], a), "second": (16 * a, b), "dense": (math.prod(self.sides[2]) * b, h)}
        return {**inputs, **{f"{name}_label": (y, out) for name, (_, out) in inputs.items()}, "heads": (y, h)}

    @property
    def parameters(self) -> int:
        """How many numbers one critic learns."""
        return sum(map(math.prod, self.layout().values()))

    def make(self, count: int, random: torch.Generator, device: str = "cpu") -> Steep:
        """A block of `count` critics with weights drawn from `random`, of a size that keeps that of the maps."""
        own = torch.Generator(device).manual_seed(int(torch.randint(2**62, (), generator=random)))
        made = {name: torch.zeros(count, *shape, device=device) for name, shape in self.layout().items()}
        for name in LAYERS:
            made[name].normal_(0.0, math.sqrt(2 / made[name].shape[1]), generator=own)
        made["heads"].normal_(0.0, math.sqrt(1 / self.hidden), generator=own)
        return Steep(self, made)

    def block(self, parts: int, device: str) -> int:
        """How many of `parts` critics make a block."""
        return chunk_for(self, device, parts)

    def held(self, count: int) -> int:
        """Bytes of the weights and the optimiser's state of `count` critics."""
        return 12 * count * self.parameters

    def bytes(self, count: int) -> int:
        """Bytes that an update of `count` critics at once takes beside what is held, about."""
        return count * (4 * self.teacher_batch * self.each + 4 * self.parameters)

    @property
    def each(self) -> int:
        """Bytes that one image takes on its way through one critic and back, about."""
        (a, b), (_, first, second) = self.maps, (math.prod(side) for side in self.sides)
        return 4 * (first * (32 * self.shape[0] + 4 * a) + second * (32 * a + 6 * b) + 4 * self.hidden)


class Steep:
    """A block of critics that are trained and asked together. Made by `SteepCritics.make`."""

    def __init__(self, critics: SteepCritics, weights: Weights) -> None:
        self.critics = critics
        self.weights = weights
        self.step = 0
        self.first, self.second = ({name: torch.zeros_like(w) for name, w in weights.items()} for _ in range(2))

    @property
    def count(self) -> int:
        """How many critics there are."""
        return len(self.weights["heads"])

    def update(self, images: Tensor, labels: Tensor, fakes: Tensor, fake_labels: Tensor) -> None:
        """One step of Adam of every critic on the loss above.

        `images` (count, draws, c, h, w) and `labels` (count, draws) are each critic's own, `fakes` (m, c, h, w) and
        their labels (m) are shared by all.
        """
        self.step += 1
        at, weight, share = _partners(labels, fake_labels, self.step)
        with precision(self.critics.precision, images.device):
            for part in self._tiles(4 * images.shape[1]):
                weights = {name: w[part] for name, w in self.weights.items()}
                given = images[part], fakes[at[part]], labels[part], weight[part], share
                self._adam(part, weights, _gradients(self.critics, weights, *given))

    def directions(self, fakes: Tensor, labels: Tensor) -> Tensor:
        """The gradient of each critic's mean score in the fakes: (count, m, c h w)."""
        with precision(self.critics.precision, fakes.device):
            found = [fakes.new_empty(0, len(fakes), fakes[0].numel())]
            for part in self._tiles(len(fakes)):
                way = Way(self.critics, {n: w[part] for n, w in self.weights.items()}, fakes[None], labels[None])
                found.append(way.to_images(way.back(way.scores.new_full(way.scores.shape, 1 / len(fakes)))[0]))
        return torch.cat(found)

    def scores(self, images: Tensor, labels: Tensor) -> Tensor:
        """s of (count, n, c, h, w), or of (1, n, c, h, w), shared: (count, n)."""
        found = [images.new_empty(0, images.shape[1])]
        with precision(self.critics.precision, images.device):
            for part in self._tiles(images.shape[1]):
                weights = {n: w[part] for n, w in self.weights.items()}
                own = slice(None) if len(images) == 1 else part
                found.append(Way(self.critics, weights, images[own], labels[own]).scores)
        return torch.cat(found)

    def some(self, which: Tensor) -> Steep:
        """Some of the critics, to be asked and not to be taught."""
        few = copy.copy(self)
        few.weights = {name: w[which.to(w.device)] for name, w in self.weights.items()}
        few.first = {}
        few.second = {}
        return few

    def state_dict(self) -> dict[str, Tensor]:
        """All that changes. Private."""
        return state_of(self)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state_dict` of as many critics of the same kind."""
        restore(self, state)

    def _tiles(self, images: int) -> Iterator[slice]:
        """Critics to work on at once, each with so many images on their way."""
        size = max(1, TILE[self.weights["heads"].device.type] // (images * self.critics.each))
        return (slice(start, start + size) for start in range(0, self.count, size))

    def _adam(self, part: slice, weights: Weights, grads: Weights) -> None:
        """One step in place (Kingma and Ba 2015)."""
        b1 = self.critics.beta1
        b2 = self.critics.beta2
        learning_rate = self.critics.learning_rate / (1 - b1**self.step)
        root = math.sqrt(1 - b2**self.step)
        for name, w in weights.items():
            m = self.first[name][part].lerp_(grads[name], 1 - b1)
            v = self.second[name][part].mul_(b2).addcmul_(grads[name], grads[name], value=1 - b2)
            w.addcdiv_(m, v.sqrt().div_(root).add_(ADAM_EPSILON), value=-learning_rate)


class Way:
    """One way through the critics: forth at once, back on demand, and forth again with the slopes that were met."""

    def __init__(self, critics: SteepCritics, weights: Weights, images: Tensor, labels: Tensor) -> None:
        self.critics = critics
        self.weights = weights
        self.inputs: list[Tensor] = []
        self.slopes: list[Tensor] = []
        self.count = len(weights["heads"])
        self.images = images.shape[1]
        hot = F.one_hot(labels.clamp(0, critics.classes - 1), critics.classes).to(weights["heads"].dtype)
        self.hot = hot.expand(self.count, -1, -1)
        x = images.movedim(2, 4)
        for layer, name in enumerate(LAYERS):
            z = self._through(layer, x) + self._spread(torch.bmm(self.hot, weights[f"{name}_label"]), layer)
            self.slopes.append(torch.where(z > 0, z.new_ones(()), z.new_full((), SLOPE)))
            x = z * self.slopes[-1]
        self.top = x
        self.scores = (x * torch.bmm(self.hot, weights["heads"])).sum(2)

    def _through(self, layer: int, x: Tensor) -> Tensor:
        """A layer's product without its constant; leaves its inputs, as rows, in `inputs`."""
        rows = (_columns(x).flatten(1, 3) if layer < 2 else x.flatten(2)).expand(self.count, -1, -1)
        self.inputs.append(rows)
        out = torch.bmm(rows, self.weights[LAYERS[layer]])
        return out.unflatten(1, (x.shape[1], *self.critics.sides[layer + 1])) if layer < 2 else out

    def _spread(self, constant: Tensor, layer: int) -> Tensor:
        return constant[:, :, None, None] if layer < 2 else constant

    def back(self, slope: Tensor) -> list[Tensor]:
        """Errors before each leaky ReLU, as the loss's slope in the scores (count, n) makes them."""
        errors: list[Tensor] = []
        error = slope[..., None] * torch.bmm(self.hot, self.weights["heads"])
        for layer in (2, 1, 0):
            errors.insert(0, error * self.slopes[layer])
            if layer:
                rows = errors[0].flatten(1, -2) if layer == 1 else errors[0]
                below = torch.bmm(rows, self.weights[LAYERS[layer]].mT)
                error = self._below(below, layer)
        return errors

    def _below(self, rows: Tensor, layer: int) -> Tensor:
        """From a layer's input rows to the maps that they were made of."""
        if layer == 2:
            maps: Tensor = rows.unflatten(2, (*self.critics.sides[2], -1))
            return maps
        return _uncolumned(rows.unflatten(1, (-1, *self.critics.sides[layer + 1])), self.critics.sides[layer])

    def to_images(self, error: Tensor) -> Tensor:
        """From errors of the first layer to the slope in the images (count, n, c h w)."""
        rows = torch.bmm(error.flatten(1, 3), self.weights["first"].mT)
        return self._below(rows, 0).movedim(4, 2).flatten(2)

    def send(self, images: Tensor, last: int) -> Tensor:
        """Images (count, last, c, h, w) in place of the last ones, with the slopes of those and without constants."""
        kept = self.inputs
        self.inputs = []
        x = images.movedim(2, 4)
        for layer in range(3):
            x = self._through(layer, x) * self.slopes[layer][:, -last:]
        rows = [k[:, : -new.shape[1]] for k, new in zip(kept, self.inputs, strict=True)]
        self.inputs = [torch.cat(pair, 1) for pair in zip(rows, self.inputs, strict=True)]
        return torch.cat([self.top[:, :-last], x], 1)


def _gradients(
    critics: SteepCritics,
    weights: Weights,
    images: Tensor,
    partners: Tensor,
    labels: Tensor,
    weight: Tensor,
    share: Tensor,
) -> Weights:
    """Of the loss, for every weight; `weight` (count, n) leaves records out, `share` (n) are the u_j."""
    n = images.shape[1]
    between = torch.lerp(partners, images, share[:, None, None, None])
    way = Way(critics, weights, torch.cat([images, partners, between], 1), labels.repeat(1, 3))
    slope = torch.cat([-weight / n, weight / n, torch.ones_like(weight)], 1)
    errors = way.back(slope)
    steep = way.to_images(errors[0][:, -n:])
    norm = torch.linalg.vector_norm(steep, dim=2, keepdim=True).clamp(min=TINY)
    v = (2 * critics.penalty / n) * weight[..., None] * (1 - 1 / norm) * steep
    top = way.send(v.view_as(images), n)
    found = {"heads": torch.bmm((way.hot * slope[..., None]).mT, top)}
    for name, rows, error in zip(LAYERS, way.inputs, errors, strict=True):
        found[name] = torch.bmm(rows.mT, error.flatten(1, 3) if error.dim() > 3 else error)
        constant = error.sum((2, 3)) if error.dim() > 3 else error
        found[f"{name}_label"] = torch.bmm(way.hot[:, :-n].mT, constant[:, :-n])  # the penalty knows no constants
    return found


def _partners(labels: Tensor, fake_labels: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
    """For each record a fake of its label by chance, whether there is one, and the place between the two."""
    random = torch.Generator().manual_seed(step)
    share = torch.rand(labels.shape[1], generator=random).to(labels.device)
    chance = torch.rand(labels.shape[1], len(fake_labels), generator=random).to(labels.device)
    like = labels[..., None] == fake_labels
    return (like + chance).argmax(2), like.any(2).float(), share


def _columns(x: Tensor) -> Tensor:
    """Windows 4x4 of stride 2 of (count, n, h, w, channels) with zeros around: (count, n, H, W, 16 channels)."""
    h, w = x.shape[2:4]
    x = F.pad(x, (0, 0, 1, 1 + w % 2, 1, 1 + h % 2))
    blocks = x.unflatten(3, (-1, 2)).unflatten(2, (-1, 2)).transpose(3, 4).flatten(4)
    high = blocks.shape[2] - 1
    wide = blocks.shape[3] - 1
    return torch.cat([blocks[:, :, i : i + high, j : j + wide] for i, j in CORNERS], 4)


def _uncolumned(columns: Tensor, side: tuple[int, int]) -> Tensor:
    """The transpose of `_columns`: what windows (count, n, H, W, 16 channels) bring to each pixel of maps of `side`."""
    count, n, high, wide, taps = columns.shape
    blocks = columns.new_zeros(count, n, high + 1, wide + 1, taps // 4)
    for (i, j), piece in zip(CORNERS, columns.chunk(4, 4), strict=True):
        blocks[:, :, i : i + high, j : j + wide] += piece
    pixels: Tensor = blocks.unflatten(4, (2, 2, -1)).transpose(3, 4).flatten(4, 5).flatten(2, 3)
    return pixels[:, :, 1 : side[0] + 1, 1 : side[1] + 1]
