"""Gradients of single examples from what one forward and one backward pass of a batch leave behind.

The gradient of example i in a layer y = W a is sum_t b_t a_t', over its positions t: a is the layer's input, b the
loss' gradient at its output. Its norm needs no such matrix (the Gram form),

    ||sum_t b_t a_t'||^2 = sum_{t,u} (a_t'a_u) (b_t'b_u),

and the clipped sum over all examples is one product of a and the weighted b. Where positions are many and the layer
is small it is cheaper to form the rows and to keep them (T D O against 2 T^2 (D + O) operations).

The sum is formed from the same a and b, or the same rows, as the norms, never by a second backward pass: what is added
is what was measured. Copies of an example count as further positions, so that their average is clipped as one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from sfumato.engine.gradients.conv_sample_grads import kernel_rows
from sfumato.errors import InputError

CACHE = 2**19  # numbers of columns formed at once on a CPU
SHORT = 1024  # numbers of a gradient that is its own lengths
ROOM = 2**28  # numbers of one layer's rows that may be kept; above, they are formed in pieces and not kept
LARGE = 2**30  # the same on a GPU, which forms those of a convolution without more room
# Float32 products of a and b round by a part of sum_t |a_t||b_t|, which may exceed the norm where positions cancel.
ROUNDING = 2.0**-22

Lay = Callable[[Tensor], Tensor]  # (..., groups, outputs, inputs) -> (..., n) in the order of the parameter
Sizes = tuple[int, int, int, int]  # groups, positions, inputs and outputs of one example


class Uncovered(InputError):
    """The ghost way does not fit this network or loss; the words say why."""


class Term(ABC):
    """The gradients of B examples for one parameter of n numbers."""

    short: bool = False  # whether `lengths` are the gradients themselves

    @abstractmethod
    def lengths(self) -> Tensor:
        """(B, k) numbers whose squares add up to the squared norms, rounded up rather than down."""

    @abstractmethod
    def weighted(self, weights: Tensor) -> Tensor:
        """(n,): the sum over examples, each times its weight."""

    @abstractmethod
    def rows(self) -> Tensor:
        """(B, n)."""

    @abstractmethod
    def clean(self) -> None:
        """Put zeros for what is no finite number, after lengths were taken, so that weight zero removes it."""


class Rows(Term):
    """Formed gradients, (B, ...)."""

    def __init__(self, values: Tensor, lay: Lay = lambda rows: rows) -> None:
        self.values = _full(values)
        self.lay = lay
        self.short = values.dim() == 2 and values.shape[1] <= SHORT

    def lengths(self) -> Tensor:
        if self.short:
            return self.values
        # Short sums in float32, the rest in float64: a long one may drift.
        norms: Tensor = torch.linalg.vector_norm(self.values, dim=-1)
        return norms.view(self.values.shape[0], -1)

    def weighted(self, weights: Tensor) -> Tensor:
        total = weights.to(self.values) @ self.values.flatten(1)
        return self.lay(total.view(self.values.shape[1:]))

    def rows(self) -> Tensor:
        return self.lay(self.values)

    def clean(self) -> None:
        ours = self.values if self.values.dim() > 2 else None  # others may be a view of a gradient
        self.values = torch.nan_to_num(self.values, 0, 0, 0, out=ours)


class Pairs(Term):
    """Gradients as pairs of inputs a (B, G, T, D) and output gradients b (B, G, T, O)."""

    def __init__(self, a: Tensor, b: Tensor, lay: Lay) -> None:
        self.a = a
        self.b = b
        self.lay = lay

    @property
    def sizes(self) -> Sizes:
        return self.a.shape[1], self.a.shape[2], self.a.shape[3], self.b.shape[3]

    def lengths(self) -> Tensor:
        if self.a.shape[2] == 1:
            return self._reach().mul_(1 + ROUNDING).flatten(1)
        return (self._gram if gram(self.sizes) else self._pieces)()

    def _reach(self) -> Tensor:
        """(B, G, T): |a_t||b_t| in float64."""
        a: Tensor = torch.linalg.vector_norm(self.a, dim=-1, dtype=torch.float64)
        b: Tensor = torch.linalg.vector_norm(self.b, dim=-1, dtype=torch.float64)
        return a.mul_(b)

    def _gram(self) -> Tensor:
        # In float64 neither cancelling positions nor very small or large factors spoil the norm.
        a = self.a.double()
        b = self.b.double()
        products = (a @ a.mT).mul_(b @ b.mT)
        reach = products.diagonal(dim1=-2, dim2=-1).sqrt().sum(-1)
        return products.sum((2, 3)).clamp_(min=0).sqrt_().add_(reach, alpha=ROUNDING)

    def _pieces(self) -> Tensor:
        step = max(1, ROOM // _numel(self.sizes))
        pieces = [
            Rows(_full(b).mT @ _full(a)).lengths() for a, b in zip(self.a.split(step), self.b.split(step), strict=True)
        ]
        by_group = torch.cat(pieces).double().unflatten(1, (self.a.shape[1], -1))
        norms: Tensor = torch.linalg.vector_norm(by_group, dim=2)
        return norms.add_(self._reach().sum(2), alpha=ROUNDING)

    def weighted(self, weights: Tensor) -> Tensor:
        a = _full(self.a)
        b = _full(self.b)
        b = b * weights.to(b).view(-1, 1, 1, 1)
        if a.shape[1] == 1:
            return self.lay((b.flatten(0, 2).t() @ a.flatten(0, 2))[None])
        return self.lay(b.transpose(0, 1).flatten(1, 2).mT @ a.transpose(0, 1).flatten(1, 2))

    def rows(self) -> Tensor:
        return self.lay(joined(self.b, self.a))

    def clean(self) -> None:
        # Both: zero times infinity is no number. Not in place: a may be a view of the caller's images.
        self.a = torch.nan_to_num(self.a, 0, 0, 0)
        self.b = torch.nan_to_num(self.b, 0, 0, 0)


class Lookups(Term):
    """Gradients of a table: rows `index` (B, T) of it receive b (B, T, E)."""

    def __init__(self, index: Tensor, b: Tensor, entries: int) -> None:
        self.index = index
        self.b = _full(b)
        self.entries = entries

    def lengths(self) -> Tensor:
        b = self.b.double()
        bb = b @ b.mT
        same = self.index[:, :, None] == self.index[:, None]
        reach = bb.diagonal(dim1=-2, dim2=-1).sqrt().sum(-1)
        return ((bb * same).sum((1, 2)).clamp_(min=0).sqrt_() + ROUNDING * reach)[:, None]

    def weighted(self, weights: Tensor) -> Tensor:
        b = self.b * weights.to(self.b)[:, None, None]
        table = b.new_zeros(self.entries, b.shape[2])
        return table.index_add_(0, self.index.flatten(), b.flatten(0, 1)).flatten()

    def rows(self) -> Tensor:
        units, _, width = self.b.shape
        table = self.b.new_zeros(units, self.entries, width)
        return table.scatter_add_(1, self.index[:, :, None].expand_as(self.b), self.b).flatten(1)

    def clean(self) -> None:
        self.b = torch.nan_to_num(self.b, 0, 0, 0)


def _full(y: Tensor) -> Tensor:
    """At least float32: norms and sums are never formed in half precision."""
    return y.float() if y.dtype in (torch.bfloat16, torch.float16) else y


def joined(b: Tensor, a: Tensor) -> Tensor:
    """sum_t b_t a_t', (B, G, T, O) and (B, G, T, D) -> (B, G, O, D), added in float32 at least.

    Matrix units of a GPU multiply half precision as it is: its products are exact in float32.
    """
    if not a.is_cuda or torch.bfloat16 not in (a.dtype, b.dtype):
        return _full(b).mT @ _full(a)
    a = a.bfloat16()  # so rounded the layer saw them
    b = b.bfloat16()
    rows: Tensor = torch.bmm(b.flatten(0, 1).mT, a.flatten(0, 1), out_dtype=torch.float32).unflatten(0, a.shape[:2])
    return rows


def _numel(sizes: Sizes) -> int:
    """Numbers in one example's gradient."""
    groups, _, inputs, outputs = sizes
    return groups * inputs * outputs


def gram(sizes: Sizes) -> bool:
    """Whether the Gram form, in float64, costs less than the rows."""
    _, positions, inputs, outputs = sizes
    return 2 * positions * (inputs + outputs) <= inputs * outputs or positions == 1


def outer(
    pairs: Callable[[Tensor, Tensor], Pairs], x: Tensor, g: Tensor, noise_multiplicity: int, sizes: Sizes
) -> Term:
    """Sums of outer products over positions, in the cheaper form; `pairs` makes them for some of the examples."""
    units = x.shape[0] // noise_multiplicity
    groups, positions, inputs, outputs = sizes
    if gram(sizes) or units * _numel(sizes) > ROOM:
        return pairs(x, g)
    # Columns of few examples stay in a processor's cache and are not all in memory; a GPU prefers large products.
    step = max(1, CACHE // (groups * positions * inputs)) if x.device.type == "cpu" else units
    if step >= units:
        whole = pairs(x, g)
        return Rows(joined(whole.b, whole.a), whole.lay)
    rows = torch.empty(units, groups, outputs, inputs, dtype=_full(x[:0]).dtype, device=x.device)
    for into, *part in zip(
        rows.split(step), x.split(noise_multiplicity * step), g.split(noise_multiplicity * step), strict=True
    ):
        some = pairs(*part)
        torch.matmul(_full(some.b).mT, _full(some.a), out=into)
    return Rows(rows, some.lay)


# Layers. Each rule says how the terms of weight and bias come from the input x and the output's gradient g, rows first.

Terms = dict[str, Callable[[], Term]]
Rule = Callable[[Any, Tensor, Tensor, int], Terms]
Convolution = nn.Conv1d | nn.Conv2d | nn.ConvTranspose1d | nn.ConvTranspose2d


def _linear(layer: nn.Linear, x: Tensor, g: Tensor, noise_multiplicity: int) -> Terms:
    inputs = x.shape[-1]
    outputs = g.shape[-1]
    units = len(x) // noise_multiplicity
    positions = noise_multiplicity * math.prod(x.shape[1:-1])

    def pairs(x: Tensor, g: Tensor) -> Pairs:
        return Pairs(x.reshape(-1, 1, positions, inputs), g.reshape(-1, 1, positions, outputs), _flat)

    return {
        "weight": lambda: outer(pairs, x, g, noise_multiplicity, (1, positions, inputs, outputs)),
        "bias": lambda: Rows(g if positions == 1 else _full(g).reshape(units, positions, outputs).sum(1)),
    }


def _conv(layer: nn.Conv1d | nn.Conv2d, x: Tensor, g: Tensor, noise_multiplicity: int) -> Terms:
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    pads = layer._reversed_padding_repeated_twice

    def pairs(x: Tensor, g: Tensor) -> Pairs:
        a = patches(F.pad(x, pads, mode) if any(pads) else x, layer, g.shape[2:])
        return Pairs(_fold(a, noise_multiplicity), _fold(_split(g, layer.groups), noise_multiplicity), lay)

    def weight() -> Term:
        sizes = _sizes(layer, x, g, noise_multiplicity)
        units = len(x) // noise_multiplicity
        fits = not gram(sizes) and units * _numel(sizes) <= LARGE
        rows = kernel_rows(layer, x, g, noise_multiplicity) if fits else None
        return outer(pairs, x, g, noise_multiplicity, sizes) if rows is None else Rows(rows, lay)

    lay = _kernel(layer)
    return {"weight": weight, "bias": lambda: Rows(_over_positions(g, noise_multiplicity))}


def _transposed(layer: nn.ConvTranspose1d | nn.ConvTranspose2d, x: Tensor, g: Tensor, noise_multiplicity: int) -> Terms:
    # A transposed convolution is the backward pass of a convolution: input and output change places.
    assert not isinstance(layer.padding, str)  # only a convolution has padding by name
    pads = [p for side in reversed(layer.padding) for p in (side, side)]

    def pairs(x: Tensor, g: Tensor) -> Pairs:
        a = patches(F.pad(g, pads) if any(pads) else g, layer, x.shape[2:])
        return Pairs(_fold(a, noise_multiplicity), _fold(_split(x, layer.groups), noise_multiplicity), lay)

    lay = _kernel(layer)
    return {
        "weight": lambda: outer(pairs, x, g, noise_multiplicity, _sizes(layer, g, x, noise_multiplicity)),
        "bias": lambda: Rows(_over_positions(g, noise_multiplicity)),
    }


def _sizes(layer: Convolution, seen: Tensor, at: Tensor, noise_multiplicity: int) -> Sizes:
    """Of a convolution that sees patches of one map, one for each position of the other."""
    groups = layer.groups
    window = math.prod(layer.kernel_size)
    return groups, noise_multiplicity * math.prod(at.shape[2:]), seen.shape[1] // groups * window, at.shape[1] // groups


def patches(x: Tensor, layer: Convolution, out: torch.Size) -> Tensor:
    """(N, C, ...) -> (N, G, T, D): what each of `out` positions of a convolution sees, channels innermost."""
    steps = list(zip(layer.kernel_size, layer.stride, layer.dilation, strict=True))
    if len(out) == 1:
        x = x[:, :, None]
        out = torch.Size((1, *out))
        steps = [(1, 1, 1), *steps]
    x = x.contiguous(memory_format=torch.channels_last)
    n, c, h, w = x.stride()
    groups = layer.groups
    (kh, sh, dh), (kw, sw, dw) = steps
    if (out[0] - 1) * sh + (kh - 1) * dh >= x.shape[2] or (out[1] - 1) * sw + (kw - 1) * dw >= x.shape[3]:
        raise Uncovered(f"a convolution of {tuple(x.shape[2:])} pixels gives {tuple(out)}")  # others' pixels lie beyond
    size = (x.shape[0], groups, *out, kh, kw, x.shape[1] // groups)
    seen = x.as_strided(size, (n, c * size[-1], sh * h, sw * w, dh * h, dw * w, c))
    return seen.reshape(x.shape[0], groups, out[0] * out[1], -1)


def _split(y: Tensor, groups: int) -> Tensor:
    """(N, C, ...) -> (N, G, T, C / G)."""
    return y.reshape(y.shape[0], groups, y.shape[1] // groups, -1).mT


def _fold(y: Tensor, noise_multiplicity: int) -> Tensor:
    """(B K, G, T, D) -> (B, G, K T, D): copies of an example become positions."""
    return y if noise_multiplicity == 1 else y.unflatten(0, (-1, noise_multiplicity)).transpose(1, 2).flatten(2, 3)


def _flat(w: Tensor) -> Tensor:
    return w.flatten(-3)


def _kernel(layer: Convolution) -> Lay:
    places = math.prod(layer.kernel_size)
    return lambda w: w.view(*w.shape[:-1], places, -1).mT.flatten(-4)


def _over_positions(g: Tensor, noise_multiplicity: int) -> Tensor:
    kind = torch.promote_types(g.dtype, torch.float32)
    summed = g.sum(tuple(range(2, g.dim())), dtype=kind) if g.dim() > 2 else _full(g)
    return summed if noise_multiplicity == 1 else summed.view(-1, noise_multiplicity, g.shape[1]).sum(1)


def _by_channel(
    layer: nn.GroupNorm | nn.InstanceNorm1d | nn.InstanceNorm2d, x: Tensor, g: Tensor, noise_multiplicity: int
) -> Terms:
    def even() -> Tensor:
        groups = layer.num_groups if isinstance(layer, nn.GroupNorm) else x.shape[1]
        return F.group_norm(_full(x), groups, eps=layer.eps)

    return {
        "weight": lambda: Rows(_over_positions(_full(g) * even(), noise_multiplicity)),
        "bias": lambda: Rows(_over_positions(g, noise_multiplicity)),
    }


def _by_entry(layer: nn.LayerNorm | nn.RMSNorm, x: Tensor, g: Tensor, noise_multiplicity: int) -> Terms:
    flat = (len(x) // noise_multiplicity, -1, math.prod(layer.normalized_shape))

    def even() -> Tensor:
        if isinstance(layer, nn.LayerNorm):
            return F.layer_norm(_full(x), layer.normalized_shape, eps=layer.eps)
        return F.rms_norm(_full(x), layer.normalized_shape, eps=layer.eps)

    return {
        "weight": lambda: Rows((_full(g) * even()).reshape(flat).sum(1)),
        "bias": lambda: Rows(_full(g).reshape(flat).sum(1)),
    }


def _embedding(layer: nn.Embedding, x: Tensor, g: Tensor, noise_multiplicity: int) -> Terms:
    if layer.max_norm is not None or layer.scale_grad_by_freq:
        raise Uncovered("an embedding with max_norm or scale_grad_by_freq")
    units = len(x) // noise_multiplicity
    index = x.reshape(units, -1)
    b = g.reshape(units, -1, layer.embedding_dim)
    if layer.padding_idx is not None:
        b = b.masked_fill((index == layer.padding_idx)[:, :, None], 0)
    return {"weight": lambda: Lookups(index, b, layer.num_embeddings)}


# The exact type: a subclass may compute something else.
RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: _linear,
    nn.Conv1d: _conv,
    nn.Conv2d: _conv,
    nn.ConvTranspose1d: _transposed,
    nn.ConvTranspose2d: _transposed,
    nn.GroupNorm: _by_channel,
    nn.InstanceNorm1d: _by_channel,
    nn.InstanceNorm2d: _by_channel,
    nn.LayerNorm: _by_entry,
    nn.RMSNorm: _by_entry,
    nn.Embedding: _embedding,
}


@dataclass
class Record:
    """What passed one layer: its input, where its output's gradient arrives, and that gradient."""

    name: str
    layer: nn.Module
    x: Tensor
    version: int
    edge: GradientEdge
    g: Tensor | None = None


def record(net: nn.Module, losses: Callable[[], Tensor], *, keep: bool = False) -> tuple[list[Record], Tensor]:
    """Run `losses` (N,) and its backward pass through the outputs of all trainable layers; weights get no gradient."""
    seen: list[Record] = []
    hooks = [layer.register_forward_hook(_noting(seen, name)) for name, layer in trainable_layers(net)]
    try:
        loss = losses()
    finally:
        for hook in hooks:
            hook.remove()
    times = Counter(r.name for r in seen)
    if len(times) < len(seen):
        raise Uncovered(f"layer '{min(name for name, used in times.items() if used > 1)}' is used twice")
    if seen and loss.requires_grad:
        edges = [r.edge for r in seen]
        for found, g in zip(
            seen, torch.autograd.grad(loss.sum(), edges, allow_unused=True, retain_graph=keep), strict=True
        ):
            found.g = g
    return seen, loss


def _noting(seen: list[Record], name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
    def hook(layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if len(args) != 1 or not isinstance(output, Tensor) or not output.requires_grad:
            raise Uncovered(f"layer '{name}' is not called with one tensor under gradients")
        x = args[0].detach()
        # The edge stays that of this layer when an activation overwrites the output in place.
        seen.append(Record(name, layer, x, x._version, get_gradient_edge(output)))

    return hook


def trainable_layers(net: nn.Module) -> list[tuple[str, nn.Module]]:
    """Layers that hold trainable parameters themselves; every one has a rule, and no parameter has two layers."""
    found = [(name, layer) for name, layer in net.named_modules() if _own(layer)]
    for name, layer in found:
        if type(layer) not in RULES or set(layer._parameters) - {"weight", "bias"}:
            raise Uncovered(f"layer '{name}' is a {type(layer).__name__} with parameters of its own")
    owned = [id(p) for _, layer in found for p in _own(layer).values()]
    if len(owned) != len(set(owned)):
        raise Uncovered("a parameter is shared by two layers")
    return found


def _own(layer: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in layer._parameters.items() if p is not None and p.requires_grad}


def terms(records: list[Record], units: int, noise_multiplicity: int) -> dict[str, Term]:
    """The term of each trainable parameter that was reached, by its name."""
    found: dict[str, Term] = {}
    for r in records:
        if r.g is None:
            continue
        if not r.x.shape[0] == r.g.shape[0] == units * noise_multiplicity:
            raise Uncovered(f"layer '{r.name}' sees {r.x.shape[0]} rows for {units * noise_multiplicity} images")
        if r.x._version != r.version:
            raise Uncovered(f"the input of layer '{r.name}' is overwritten in place")
        made = RULES[type(r.layer)](r.layer, r.x, r.g, noise_multiplicity)
        found |= {f"{r.name}.{key}" if r.name else key: made[key]() for key in _own(r.layer)}
    return found
