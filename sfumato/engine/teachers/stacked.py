"""Thousands of critics as one model (the teachers of DataLens, architecture.md 4).

Every tensor has a leading axis of teachers, every operation is a batched matrix product or acts on single numbers, and
nothing is reduced over that axis: a teacher's numbers depend on its own images and on what is public. A NaN stays with
the teacher that brought it.

A convolution is a copy of windows (`im2col.py`) and a batched product. Its gradient with respect to its input is
again one: seen from the four parities of a pixel, a 5x5 convolution of stride 2 reaches back to 3x3 outputs. Real and
fake images go through the products together, so weights are read once, and through the normalisation apart. The
gradient is written out rather than left to autograd: directions need none for weights and updates none for images.

Adam's second moment changes by a thousandth a step, less than half of bfloat16's spacing (1/256), so rounding to
nearest would freeze it. In that format it is dithered: the threshold of rounding is a public Weyl sequence in the step
number that starts elsewhere for each weight, so it goes up as often as the rest of the number asks.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from sfumato.engine.teachers import fused_adam
from sfumato.engine.teachers.critics import TAPS, Critics
from sfumato.engine.teachers.fused_adam import GOLDEN
from sfumato.engine.teachers.im2col import filled, windows

SLOPE = 0.2
EPSILON = 1e-5
ADAM_EPSILON = 1e-8
Weights = dict[str, Tensor]
Labelled = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Tuning:
    """What a kind of device likes. No result depends on it but by rounding."""

    align: int  # rows of matrices are filled up to a multiple, as matrix units need
    tile: int  # bytes that teachers worked on at once may take; within a cache on a CPU
    compiled: bool  # whether to fuse what acts on single numbers (torch.compile)
    share: float = 0.8  # of the free memory, for a block


TUNING = {"cpu": Tuning(align=1, tile=2**26, compiled=False), "cuda": Tuning(align=8, tile=2**40, compiled=True)}
BACKEND = "inductor"  # of torch.compile
CPU_BOUND = 2**30  # bytes of working memory of a block


class Measured(Protocol):
    """Critics that know their size."""

    def held(self, count: int) -> int:
        """Bytes of the state of `count` critics."""

    def bytes(self, count: int) -> int:
        """Bytes that an update of `count` critics takes beside."""


class Trained(Protocol):
    """A block of critics with the state of their optimiser."""

    weights: Weights
    first: Weights
    second: Weights
    step: int


def chunk_for(critics: Measured, device: str, parts: int) -> int:
    """How many of `parts` teachers make a block: what is free after the state of all, in even blocks.

    Where the state of all does not fit, a block takes its own state along. Data have no say.
    """
    kind = torch.device(device).type
    free = int(torch.cuda.mem_get_info(device)[0] * TUNING["cuda"].share) if kind == "cuda" else CPU_BOUND
    left = free - critics.held(parts) if kind == "cuda" else free
    each = critics.bytes(1) if left >= critics.bytes(1) else critics.bytes(1) + critics.held(1)
    most = max(1, (left if left >= critics.bytes(1) else free) // each)
    return math.ceil(parts / math.ceil(parts / most)) if parts else 1


class Stacked:
    """A block of teachers that are trained and asked together. Made by `Critics.make`."""

    def __init__(self, critics: Critics, weights: Weights) -> None:
        self.critics = critics
        self.weights = weights
        self.step = 0
        self.count = len(weights["last"])
        device = weights["last"].device
        kind = torch.bfloat16 if critics.moments == "bfloat16" else weights["last"].dtype
        self.first = {name: torch.zeros_like(w, dtype=kind) for name, w in weights.items()}
        self.second = {name: torch.zeros_like(w, dtype=kind) for name, w in weights.items()}
        self.rounded = self._rounded()
        self.inside = critics.inside(0).to(device), critics.inside(1).to(device)
        self.tuning = TUNING[device.type]

    def update(self, images: Tensor, labels: Tensor, fakes: Tensor, fake_labels: Tensor | None = None) -> None:
        """One step of Adam of every teacher on mean softplus(-D(real)) + mean softplus(D(fake)).

        `images` (count, draws, c, h, w) and `labels` (count, draws) are each teacher's own. `fakes` (m, c, h, w) and
        their labels (m) are shared by all; without labels, `fakes` (m, classes, c, h, w) are of every class for each
        latent, and a teacher takes those of its own labels. A label outside the classes means none.
        """
        self.step += 1
        b1 = self.critics.beta1
        b2 = self.critics.beta2
        learning_rate = self.critics.learning_rate / (1 - b1**self.step)
        numbers = [
            (1 - b2**self.step) ** -0.5 / learning_rate,
            ADAM_EPSILON / learning_rate,
            self.step * GOLDEN % 65536,
        ]
        scalars = torch.tensor(numbers, dtype=torch.float64)  # numbers would be compiled in
        if images.is_cuda:
            scalars = scalars.pin_memory()  # else the copy waits for all work so far, and what follows comes late
        scalars = scalars.to(images.device, non_blocking=True)
        with precision(self.critics.precision, images.device):
            for part in self._tiles():
                made = of_own_labels(fakes, labels[part]) if fake_labels is None else (fakes[None], fake_labels[None])
                sets = [(images[part], labels[part]), made, *self._mismatched(images[part], labels[part])]
                state = [_part(kind, part) for kind in (self.weights, self.first, self.second, self.rounded)]
                linear = [kind["dense"] for kind in state if "dense" in kind]
                seen = sum(shown.shape[1] for shown, _ in sets)
                kernel = fused_adam.working(images.device) if fused_adam.fits(linear, seen) else None
                way = self.critics, self.tuning.align, self.inside, self._seen(part)
                grads, (inputs, slopes) = self._call(_gradients, *way, sets, kernel is None)
                self._call(adam, grads, *state, scalars, b1, b2)
                if kernel is not None:
                    fused_adam.descend(kernel, inputs, slopes, linear, scalars, b1, b2)

    def _mismatched(self, images: Tensor, labels: Tensor) -> list[Labelled]:
        """A teacher's own images under other labels, by a public shift that is another one in each step."""
        if not self.critics.mismatch or self.critics.classes < 2:
            return []
        return [(images, (labels + 1 + self.step % (self.critics.classes - 1)) % self.critics.classes)]

    def directions(self, fakes: Tensor, labels: Tensor) -> Tensor:
        """Minus the gradient of each teacher's mean softplus(-D(fake)) in the fakes: (count, m, c h w)."""
        found = [fakes.new_empty(0, len(fakes), fakes[0].numel())]
        with precision(self.critics.precision, fakes.device):
            for part in self._tiles():
                given = (fakes[None], labels[None])
                way = self.critics, self.tuning.align, self.inside, self._seen(part)
                found.append(self._call(_directions, *way, given))
        return torch.cat(found) if len(found) > 2 else found[-1]

    def some(self, which: Tensor) -> Stacked:
        """Some of the teachers, to be asked and not to be taught."""
        few = copy.copy(self)
        few.weights, few.rounded = (
            {name: w[which.to(w.device)] for name, w in kind.items()} for kind in (self.weights, self.rounded)
        )
        few.count = len(which)
        few.first = {}
        few.second = {}
        return few

    def scores(self, images: Tensor, labels: Tensor) -> Tensor:
        """D of (count, n, c, h, w), each row one batch of its teacher, or of (1, n, c, h, w), shared: (count, n)."""
        with precision(self.critics.precision, images.device):
            return Pass(self.critics, 1, self.inside, self._seen(slice(None)), [(images, labels)]).scores

    def state_dict(self) -> dict[str, Tensor]:
        """All that changes: weights, moments and the number of steps. Private."""
        return state_of(self)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state_dict` of as many critics of the same kind."""
        restore(self, state)
        self.rounded = self._rounded()

    def _rounded(self) -> Weights:
        """The linear layer's weights as products of bfloat16 read them: six times a generator step, with two updates.

        Adam, which has them at hand, rounds them again.
        """
        return {"dense": self.weights["dense"].bfloat16()} if self.critics.precision == "bfloat16" else {}

    def _seen(self, part: slice) -> Weights:
        """Weights of some teachers, rounded where products read them so."""
        return _part(self.weights | self.rounded, part)

    def _tiles(self) -> Iterator[slice]:
        size = max(1, self.tuning.tile // self.critics.bytes(1))
        return (slice(start, start + size) for start in range(0, self.count, size))

    def _call(self, work: Callable[..., Any], *given: Any) -> Any:
        """Fused where that works. A graph is whole or not made at all, so a failure has changed nothing."""
        if self.tuning.compiled:
            from torch._dynamo.exc import TorchDynamoException

            try:
                return _fused(work)(*given)
            except TorchDynamoException:
                self.tuning = replace(self.tuning, compiled=False)
        return work(*given)


def state_of(block: Trained) -> dict[str, Tensor]:
    """Weights, moments and the number of steps of a block of critics, by name. Private."""
    groups = {"weights": block.weights, "first": block.first, "second": block.second}
    flat = {f"{group}.{name}": tensor for group, tensors in groups.items() for name, tensor in tensors.items()}
    return flat | {"step": torch.tensor(block.step)}


def restore(block: Trained, state: Mapping[str, Tensor]) -> None:
    """Set a block of critics to `state_of` one of the same kind and size."""
    own = state_of(block)
    if state.keys() != own.keys() or any(state[name].shape != own[name].shape for name in own):
        raise ValueError(f"Expected the state of {len(next(iter(own.values())))} critics of one kind, found another.")
    block.step = int(state["step"])
    for name in own.keys() - {"step"}:
        own[name].copy_(state[name])


def of_own_labels(fakes: Tensor, labels: Tensor) -> Labelled:
    """Of fakes (m, classes, c, h, w) those that bear each teacher's own labels (count, draws): (count, m, c, h, w).

    A teacher with fewer draws than there are latents goes round its labels.

    >>> of_own_labels(torch.arange(4.0).view(2, 2, 1, 1, 1), torch.tensor([[1, 0], [1, 1]]))[0].flatten(1).tolist()
    [[1.0, 2.0], [1.0, 3.0]]
    """
    latents = torch.arange(len(fakes), device=labels.device)
    own = labels[:, latents % labels.shape[1]].clamp(0, fakes.shape[1] - 1).long()
    return fakes[latents, own], own


@cache
def _fused(work: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(work, dynamic=False, fullgraph=True, backend=BACKEND)


@contextmanager
def precision(kind: str, device: torch.device) -> Iterator[None]:
    """No gradients, and matrix products of float32 as asked, for as long as the block lasts."""
    with torch.no_grad(), products(kind, device):
        yield


@contextmanager
def products(kind: str, device: torch.device) -> Iterator[None]:
    """Matrix products of float32 in full, or rounded as matrix units like them, for as long as the block lasts."""
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda":
        torch.set_float32_matmul_precision("highest" if kind == "float32" else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _part(tensors: Weights, part: slice) -> Weights:
    return {name: tensor[part] for name, tensor in tensors.items()}


class Pass:
    """One way through the critics, forth at once and back on demand. Sets of images are normalised apart."""

    def __init__(
        self,
        critics: Critics,
        align: int,
        inside: tuple[Tensor, Tensor],
        weights: Weights,
        sets: Sequence[Labelled],
    ) -> None:
        self.critics = critics
        self.align = align
        self.inside = inside
        self.weights = weights
        self.count = len(weights["last"])
        self.sizes = [images.shape[1] for images, _ in sets]
        self.exact = weights["last"].dtype
        self.kind = torch.bfloat16 if critics.precision == "bfloat16" else self.exact
        self.labels = torch.cat([self._known(labels) for _, labels in sets], 1)
        classes = torch.arange(critics.classes + 1, device=self.labels.device)
        hot = (self.labels[..., None] == classes) | (classes == critics.classes)
        self.condition = hot.to(self.exact)  # a one-hot label and a one, which bears the bias
        self.scores = self._forward([images for images, _ in sets])

    def _known(self, labels: Tensor) -> Tensor:
        """For every teacher and image, with any label outside the classes as one more class."""
        none = self.critics.classes
        return torch.where(labels < 0, none, labels).clamp(0, none).long().expand(self.count, -1)

    def _forward(self, sets: list[Tensor]) -> Tensor:
        (_, half, _), (a, b) = self.critics.sides, self.critics.maps
        self.pixels = [windows(x.movedim(2, 4).to(self.kind), 5, 2, 2, self.align) for x in sets]
        first = self._matrix("first")
        table = self._table(0)
        low = []
        for x, labels in zip(self.pixels, self.labels.split(self.sizes, 1), strict=True):
            z = self._labelled(torch.bmm(x.expand(self.count, -1, -1), first), table, labels)
            low.append(functional.leaky_relu(z[..., :a].unflatten(2, half), SLOPE))
        self.low = torch.cat(low, 1)
        self.windows = windows(self.low, 5, 2, 2, self.align)
        z = self._labelled(torch.bmm(self.windows, self._matrix("second")), self._table(1), self.labels)
        middle, self.middle_norm = self._norm(z[..., :b].to(self.exact), "second")
        self.middle = middle.to(self.kind)
        dense = self.weights["dense"]
        label = self.condition
        spare = dense.shape[1] - self.middle[0, 0].numel() - label.shape[2]
        self.flat = torch.cat([self.middle.flatten(2), functional.pad(label, (0, spare)).to(self.kind)], 2)
        high, self.high_norm = self._norm(torch.bmm(self.flat, dense)[:, :, None].to(self.exact), "dense")
        self.high = torch.cat([high[:, :, 0], label], 2)
        constant = torch.bmm(label, self.weights["last"][:, self.critics.hidden :, None])[..., 0]
        return constant + (high[:, :, 0] * self._head()).sum(2)

    def _head(self) -> Tensor:
        """Weights of the last layer but for the label's constants (count, 1, hidden)."""
        return self.weights["last"][:, None, : self.critics.hidden]

    def _matrix(self, name: str) -> Tensor:
        """Weights of a convolution, rounded and filled up as its product takes them."""
        return filled(self.weights[name].to(self.kind), self.align, rows=True)

    def _table(self, layer: int) -> Tensor:
        """What label planes and bias bring: (count, classes and none, positions, maps)."""
        name = ("first", "second")[layer]
        taps = functional.pad(self.weights[f"{name}_label"].to(self.kind), (0, 0, 0, 1, 0, 1))
        taps[:, :, TAPS] = self.weights[f"{name}_bias"][:, None]
        return self._inside(layer) @ filled(taps, self.align, rows=True)

    def _labelled(self, z: Tensor, table: Tensor, labels: Tensor) -> Tensor:
        """Add to (count, n x positions, maps) the table's part for each image: (count, n, positions, maps)."""
        rows = torch.arange(self.count, device=z.device)[:, None] * table.shape[1] + labels
        own = table.flatten(0, 1).flatten(1).index_select(0, rows.flatten())
        return z.add_(own.view_as(z)).view(*labels.shape, *table.shape[2:])

    def _inside(self, layer: int) -> Tensor:
        """Which taps fall inside at each position, and the bias, which always does."""
        return filled(functional.pad(self.inside[layer], (0, 1), value=1.0).to(self.kind), self.align)

    def _means(self, z: Tensor) -> Tensor:
        """Of (count, n, positions, maps) over each set and its positions, for each image: (count, n, 1, maps)."""
        parts = z.split(self.sizes, 1)
        return torch.cat([p.mean((1, 2), keepdim=True).expand(-1, p.shape[1], -1, -1) for p in parts], 1)

    def _norm(self, z: Tensor, name: str) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """Leaky ReLU of the normalised (count, n, positions, maps), and what the way back needs."""
        if not self.critics.norm:
            return functional.leaky_relu(z, SLOPE), None
        unit = z - self._means(z)
        steep = (self._means(unit.square()) + EPSILON).rsqrt()
        unit = unit.mul_(steep)
        scale, shift = (self.weights[f"{name}_{kind}"][:, None, None] for kind in ("scale", "shift"))
        out = functional.leaky_relu_(torch.addcmul(shift, unit, scale), SLOPE)
        return out, (unit.to(self.kind), steep * scale)

    def _norm_back(self, grad: Tensor, out: Tensor, saved: tuple[Tensor, Tensor] | None, name: str) -> Tensor:
        """Through leaky ReLU and normalisation; leaves the gradients of scale and shift."""
        grad = _leak(grad, out)
        if saved is None:
            return grad
        unit = saved[0].to(grad.dtype)
        steep = saved[1]
        mean = self._means(grad)
        along = self._means(grad * unit)
        self.grads[f"{name}_scale"], self.grads[f"{name}_shift"] = (
            x.sum((1, 2)) * grad.shape[2] for x in (along, mean)
        )
        return (grad - mean).addcmul_(unit, along, value=-1).mul_(steep)

    def back(self, slope: Tensor, learn: bool) -> Tensor:
        """From the loss's slope in the scores (count, n) to that in the first maps; weights' gradients in `grads`."""
        self.grads: Weights = {}
        hidden, (_, half, rest), b = self.critics.hidden, self.critics.sides, self.critics.maps[1]
        n = sum(self.sizes)
        dense = self.weights["dense"]
        if learn:
            self.grads["last"] = torch.bmm(slope[:, None], self.high)[:, 0]
        grad = (slope[..., None] * self._head())[:, :, None]
        grad = self._norm_back(grad, self.high[:, :, None, :hidden], self.high_norm, "dense")[:, :, 0]
        if learn:
            self.factors = self.flat, grad.to(self.kind)  # of the gradient of `dense`
        below = torch.bmm(grad.to(self.kind), dense.mT)[..., : self.middle[0, 0].numel()].to(self.exact)
        below = below.unflatten(2, self.middle.shape[2:])
        grad = self._norm_back(below, self.middle, self.middle_norm, "second").to(self.kind)
        if learn:
            self._learn(grad, 1, [self.windows])
        grad = _to_input(grad.view(self.count, n, *rest, b), self._turned("second"), half, self.align)
        return _leak(grad, self.low).flatten(2, 3)

    def _learn(self, grad: Tensor, layer: int, inputs: list[Tensor]) -> None:
        """Gradients of a convolution's weights from that of its maps (count, n, positions, maps)."""
        name = ("first", "second")[layer]
        shape = self.weights[name].shape
        maps = grad.shape[3]
        y = self.critics.classes
        grad = filled(grad, self.align)
        rows = [part.flatten(1, 2) for part in grad.split(self.sizes if len(inputs) > 1 else grad.shape[1], 1)]
        products = [torch.bmm(g.mT, x.expand(self.count, -1, -1)).mT for x, g in zip(inputs, rows, strict=True)]
        hot = filled(self.condition.to(self.kind), self.align)
        by_label = torch.bmm(hot.mT, grad.flatten(2)).unflatten(2, grad.shape[2:])  # row y is of all labels
        taps = (self._inside(layer).mT @ by_label)[..., :maps]
        first, *more = [p[:, : shape[1], : shape[2]].to(self.exact) for p in products]
        self.grads[name] = sum(more, start=first)
        self.grads[f"{name}_label"] = taps[:, :y, :TAPS]
        self.grads[f"{name}_bias"] = taps[:, y, TAPS]

    def learn_first(self, grad: Tensor) -> None:
        """Gradients of the first convolution from that of its maps."""
        self._learn(grad, 0, self.pixels)

    def to_images(self, grad: Tensor) -> Tensor:
        """From the slope in the first maps to that in the images (count, n, c h w)."""
        whole, half, _ = self.critics.sides
        grad = grad.unflatten(2, half)
        images = _to_input(grad, self._turned("first"), whole, self.align).to(self.exact)
        return images.movedim(4, 2).flatten(2)

    def _turned(self, name: str) -> Tensor:
        """Weights (taps x in, out) as (3 x 3 x out, 2 x 2 x in): from outputs around a pixel to its four parities."""
        weights = self.weights[name].to(self.kind).unflatten(1, (5, 5, -1))
        six = functional.pad(weights, (0, 0, 0, 0, 0, 1, 0, 1)).unflatten(2, (3, 2)).unflatten(1, (3, 2))
        turned: Tensor = six.flip(1, 3).permute(0, 1, 3, 6, 2, 4, 5)
        return turned.reshape(self.count, 9 * weights.shape[4], -1)


def _leak(grad: Tensor, out: Tensor) -> Tensor:
    through: Tensor = torch.ops.aten.leaky_relu_backward(grad, out.to(grad.dtype), SLOPE, True)
    return through


def _to_input(grad: Tensor, turned: Tensor, side: tuple[int, int], align: int) -> Tensor:
    """Gradient of a convolution's input (count, n, *side, channels) from that of its maps (count, n, h, w, maps)."""
    count, n, h, w, _ = grad.shape
    columns = windows(grad, 3, 1, 1, align)
    found = torch.bmm(columns, filled(turned, align, rows=True))[..., : turned.shape[2]]
    pixels: Tensor = found.unflatten(2, (2, 2, -1)).unflatten(1, (n, h, w)).permute(0, 1, 2, 4, 3, 5, 6)
    return pixels.reshape(count, n, 2 * h, 2 * w, -1)[:, :, : side[0], : side[1]]


def _gradients(
    critics: Critics,
    align: int,
    inside: tuple[Tensor, Tensor],
    weights: Weights,
    sets: Sequence[Labelled],
    whole: bool,
) -> tuple[Weights, tuple[Tensor, Tensor]]:
    """Of mean softplus(-D(real)) + mean softplus(D(fake)): for every weight, or in factors for the linear layer.

    Where there are several sets of fakes, their means count alike.
    """
    way = Pass(critics, align, inside, weights, sets)
    real, *fakes = way.scores.split(way.sizes, 1)
    of_fakes = [torch.sigmoid(fake) / (len(fakes) * fake.shape[1]) for fake in fakes]
    slope = torch.cat([-torch.sigmoid(-real) / real.shape[1], *of_fakes], 1)
    way.learn_first(way.back(slope, learn=True))
    x, y = way.factors
    return way.grads | ({"dense": torch.bmm(x.mT, y)} if whole else {}), (x, y)


def _directions(
    critics: Critics, align: int, inside: tuple[Tensor, Tensor], weights: Weights, fakes: Labelled
) -> Tensor:
    way = Pass(critics, align, inside, weights, [fakes])
    return way.to_images(way.back(torch.sigmoid(-way.scores) / way.sizes[0], learn=False))


def adam(
    grads: Weights,
    weights: Weights,
    first: Weights,
    second: Weights,
    rounded: Weights,
    scalars: Tensor,
    beta1: float,
    beta2: float,
) -> None:
    """One step in place (Kingma and Ba 2015): w -= m / (a sqrt(v) + b), `scalars` being a, b and the dither."""
    a, b = scalars[:2].to(next(iter(weights.values())).dtype)
    for name, grad in grads.items():
        w = weights[name]
        m = first[name]
        v = second[name]
        g = grad.to(w.dtype)
        if m.dtype == torch.bfloat16:
            new_m = beta1 * m.float() + (1 - beta1) * g
            new_v = beta2 * v.float() + (1 - beta2) * g * g
            m.copy_(new_m)
            v.copy_(dithered(new_v, scalars[2]))
        else:
            new_m = m.lerp_(g, 1 - beta1)
            new_v = v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        w.addcdiv_(new_m, new_v.sqrt().mul_(a).add_(b), value=-1)
        if name in rounded:
            rounded[name].copy_(w)


def dithered(x: Tensor, offset: Tensor) -> Tensor:
    """Rounded to bfloat16, up as often as the rest of the number asks when `offset` runs over its sequence."""
    place = torch.arange(math.prod(x.shape[1:]), device=x.device, dtype=torch.int32).view(x.shape[1:])
    threshold = ((place * GOLDEN >> 3) + offset.to(torch.int32)) & 0xFFFF
    return ((x.contiguous().view(torch.int32) + threshold) & -65536).view(torch.float32).to(torch.bfloat16)
