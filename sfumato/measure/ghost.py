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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from sfumato.errors import InputError

CACHE = 2**19  # numbers of columns formed at once on a CPU
ROOM = 2**28  # numbers of one layer's rows that may be kept; above, they are formed in pieces and not kept
# Float32 products of a and b round by a part of sum_t |a_t||b_t|, which may exceed the norm where positions cancel.
ROUNDING = 2.0**-22

Lay = Callable[[Tensor], Tensor]  # (..., groups, outputs, inputs) -> (..., n) in the order of the parameter


class Uncovered(InputError):
    """The ghost way does not fit this network or loss; the words say why."""


class Term(ABC):
    """The gradients of B examples for one parameter of n numbers."""

    @abstractmethod
    def squared(self) -> Tensor:
        """(B,) squared norms, float64, rounded up rather than down."""

    @abstractmethod
    def weighted(self, weights: Tensor) -> Tensor:
        """(n,): the sum over examples, each times its weight."""

    @abstractmethod
    def rows(self) -> Tensor:
        """(B, n)."""

    @abstractmethod
    def only(self, fine: Tensor) -> None:
        """Zero the examples that are not fine, so that weight zero removes what is no number."""


class Rows(Term):
    """Formed gradients, (B, ...)."""

    def __init__(self, values: Tensor, lay: Lay = lambda rows: rows) -> None:
        self.values, self.lay = _full(values), lay

    def squared(self) -> Tensor:
        # Short sums in float32, then float64: a long one may drift.
        return torch.linalg.vector_norm(self.values, dim=-1).double().square().view(len(self.values), -1).sum(1)

    def weighted(self, weights: Tensor) -> Tensor:
        total = weights.to(self.values) @ self.values.flatten(1)
        return self.lay(total.view(self.values.shape[1:]))

    def rows(self) -> Tensor:
        return self.lay(self.values)

    def only(self, fine: Tensor) -> None:
        self.values = self.values.where(fine.view(-1, *[1] * (self.values.dim() - 1)), 0)


class Pairs(Term):
    """Gradients as pairs of inputs a (B, G, T, D) and output gradients b (B, G, T, O)."""

    def __init__(self, a: Tensor, b: Tensor, lay: Lay) -> None:
        self.a, self.b, self.lay = _full(a), _full(b), lay

    @property
    def size(self) -> int:
        """Numbers in one example's gradient."""
        return self.a.shape[1] * self.a.shape[3] * self.b.shape[3]

    @property
    def gram(self) -> bool:
        """Whether the Gram form, in float64, costs less than the rows."""
        _, _, positions, inputs = self.a.shape
        outputs = self.b.shape[3]
        return 2 * positions * (inputs + outputs) <= inputs * outputs or positions == 1

    def squared(self) -> Tensor:
        length, reach = (self._gram if self.gram else self._pieces)()
        return (length.clamp(min=0).sqrt() + ROUNDING * reach.sqrt()).square()

    def _gram(self) -> tuple[Tensor, Tensor]:
        # In float64 neither cancelling positions nor very small or large factors spoil the norm.
        a, b = self.a.double(), self.b.double()
        aa, bb = a @ a.mT, b @ b.mT
        return (aa * bb).sum((1, 2, 3)), (_trace(aa) * _trace(bb)).sum(1)

    def _pieces(self) -> tuple[Tensor, Tensor]:
        step = max(1, ROOM // self.size)
        found = [Rows(b.mT @ a).squared() for a, b in zip(self.a.split(step), self.b.split(step), strict=True)]
        return torch.cat(found), self.a.double().square().sum((1, 2, 3)) * self.b.double().square().sum((1, 2, 3))

    def weighted(self, weights: Tensor) -> Tensor:
        b = (self.b * weights.to(self.b)[:, None, None, None]).transpose(0, 1).flatten(1, 2)
        return self.lay(b.mT @ self.a.transpose(0, 1).flatten(1, 2))

    def rows(self) -> Tensor:
        return self.lay(self.b.mT @ self.a)

    def only(self, fine: Tensor) -> None:
        self.a = self.a.where(fine[:, None, None, None], 0)
        self.b = self.b.where(fine[:, None, None, None], 0)


class Lookups(Term):
    """Gradients of a table: rows `index` (B, T) of it receive b (B, T, E)."""

    def __init__(self, index: Tensor, b: Tensor, entries: int) -> None:
        self.index, self.b, self.entries = index, _full(b), entries

    def squared(self) -> Tensor:
        b = self.b.double()
        bb = b @ b.mT
        same = self.index[:, :, None] == self.index[:, None]
        reach = self.b.shape[1] * _trace(bb)
        return ((bb * same).sum((1, 2)).clamp(min=0).sqrt() + ROUNDING * reach.sqrt()).square()

    def weighted(self, weights: Tensor) -> Tensor:
        b = self.b * weights.to(self.b)[:, None, None]
        table = b.new_zeros(self.entries, b.shape[2])
        return table.index_add_(0, self.index.flatten(), b.flatten(0, 1)).flatten()

    def rows(self) -> Tensor:
        units, _, width = self.b.shape
        table = self.b.new_zeros(units, self.entries, width)
        return table.scatter_add_(1, self.index[:, :, None].expand_as(self.b), self.b).flatten(1)

    def only(self, fine: Tensor) -> None:
        self.b = self.b.where(fine[:, None, None], 0)


def _full(y: Tensor) -> Tensor:
    """At least float32: norms and sums are never formed in half precision."""
    return y.float() if y.dtype in (torch.bfloat16, torch.float16) else y


def _trace(matrices: Tensor) -> Tensor:
    return matrices.diagonal(dim1=-2, dim2=-1).sum(-1)


def outer(pairs: Callable[[Tensor, Tensor], Pairs], x: Tensor, g: Tensor, copies: int, lay: Lay) -> Term:
    """Sums of outer products over positions, in the cheaper form; `pairs` makes them for some of the examples."""
    one, units = pairs(x[:copies], g[:copies]), len(x) // copies
    if one.gram or units * one.size > ROOM:
        return pairs(x, g)
    # Columns of few examples stay in a processor's cache and are not all in memory; a GPU prefers large products.
    step = max(1, CACHE // one.a.numel()) if x.device.type == "cpu" else units
    rows = one.b.new_empty(units, one.b.shape[1], one.b.shape[3], one.a.shape[3])
    for into, *part in zip(rows.split(step), x.split(copies * step), g.split(copies * step), strict=True):
        some = pairs(*part)
        torch.matmul(some.b.mT, some.a, out=into)
    return Rows(rows, lay)


# Layers. Each rule gives the terms of weight and bias from the input x and the output's gradient g, rows first.

Rule = Callable[[Any, Tensor, Tensor, int], dict[str, Term]]


def _linear(layer: nn.Linear, x: Tensor, g: Tensor, copies: int) -> dict[str, Term]:
    def pairs(x: Tensor, g: Tensor) -> Pairs:
        units = len(x) // copies
        return Pairs(x.reshape(units, 1, -1, x.shape[-1]), g.reshape(units, 1, -1, g.shape[-1]), flat)

    flat: Lay = lambda w: w.flatten(-3)  # noqa: E731
    bias = _full(g).reshape(len(g) // copies, -1, g.shape[-1]).sum(1)
    return {"weight": outer(pairs, x, g, copies, flat), "bias": Rows(bias)}


def _conv(layer: nn.Conv1d | nn.Conv2d, x: Tensor, g: Tensor, copies: int) -> dict[str, Term]:
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    pads = layer._reversed_padding_repeated_twice

    def pairs(x: Tensor, g: Tensor) -> Pairs:
        a = patches(F.pad(x, pads, mode) if any(pads) else x, layer, g.shape[2:])
        return Pairs(_fold(a, copies), _fold(_split(g, layer.groups), copies), lay)

    lay = _kernel(layer)
    return {"weight": outer(pairs, x, g, copies, lay), "bias": Rows(_over_positions(g, copies))}


def _transposed(layer: nn.ConvTranspose1d | nn.ConvTranspose2d, x: Tensor, g: Tensor, copies: int) -> dict[str, Term]:
    # A transposed convolution is the backward pass of a convolution: input and output change places.
    pads = [p for side in reversed(layer.padding) for p in (int(side), int(side))]

    def pairs(x: Tensor, g: Tensor) -> Pairs:
        a = patches(F.pad(g, pads) if any(pads) else g, layer, x.shape[2:])
        return Pairs(_fold(a, copies), _fold(_split(x, layer.groups), copies), lay)

    lay = _kernel(layer)
    return {"weight": outer(pairs, x, g, copies, lay), "bias": Rows(_over_positions(g, copies))}


def patches(x: Tensor, layer: nn.Module, out: torch.Size) -> Tensor:
    """(N, C, ...) -> (N, G, T, D): what each of `out` positions of a convolution sees, channels innermost."""
    if len(out) == 1:
        x, out, sizes = x[:, :, None], torch.Size((1, *out)), [(1, 1, 1)]
    else:
        sizes = []
    sizes += list(zip(layer.kernel_size, layer.stride, layer.dilation, strict=True))  # type: ignore[arg-type]
    x = x.contiguous(memory_format=torch.channels_last)
    for axis, (kernel, stride, dilation) in enumerate(sizes, 2):
        x = x.unfold(axis, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
    x = x[:, :, : out[0], : out[1]].unflatten(1, (int(layer.groups), -1))  # type: ignore[arg-type]
    return x.permute(0, 1, 3, 4, 5, 6, 2).reshape(len(x), x.shape[1], math.prod(out), -1)


def _split(y: Tensor, groups: int) -> Tensor:
    """(N, C, ...) -> (N, G, T, C / G)."""
    return y.flatten(2).unflatten(1, (groups, -1)).transpose(2, 3)


def _fold(y: Tensor, copies: int) -> Tensor:
    """(B K, G, T, D) -> (B, G, K T, D): copies of an example become positions."""
    return y if copies == 1 else y.unflatten(0, (-1, copies)).transpose(1, 2).flatten(2, 3)


def _kernel(layer: nn.Module) -> Lay:
    sides = tuple(layer.kernel_size)  # type: ignore[arg-type]
    return lambda w: w.unflatten(-1, (*sides, -1)).movedim(-1, -1 - len(sides)).flatten(-3 - len(sides))


def _over_positions(g: Tensor, copies: int) -> Tensor:
    return _full(g).reshape(len(g), g.shape[1], -1).sum(2).view(-1, copies, g.shape[1]).sum(1)


def _by_channel(layer: nn.Module, x: Tensor, g: Tensor, copies: int) -> dict[str, Term]:
    groups = layer.num_groups if isinstance(layer, nn.GroupNorm) else x.shape[1]
    even = F.group_norm(_full(x), int(groups), eps=float(layer.eps))  # type: ignore[arg-type]
    return {"weight": Rows(_over_positions(_full(g) * even, copies)), "bias": Rows(_over_positions(g, copies))}


def _by_entry(layer: nn.LayerNorm | nn.RMSNorm, x: Tensor, g: Tensor, copies: int) -> dict[str, Term]:
    normalise = F.layer_norm if isinstance(layer, nn.LayerNorm) else F.rms_norm
    even = normalise(_full(x), layer.normalized_shape, eps=layer.eps)
    flat = (len(x) // copies, -1, math.prod(layer.normalized_shape))
    return {"weight": Rows((_full(g) * even).reshape(flat).sum(1)), "bias": Rows(_full(g).reshape(flat).sum(1))}


def _embedding(layer: nn.Embedding, x: Tensor, g: Tensor, copies: int) -> dict[str, Term]:
    if layer.max_norm is not None or layer.scale_grad_by_freq:
        raise Uncovered("an embedding with max_norm or scale_grad_by_freq")
    units = len(x) // copies
    index, b = x.reshape(units, -1), g.reshape(units, -1, layer.embedding_dim)
    if layer.padding_idx is not None:
        b = b.masked_fill((index == layer.padding_idx)[:, :, None], 0)
    return {"weight": Lookups(index, b, layer.num_embeddings)}


# The exact type: a subclass may compute something else.
RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: _linear, nn.Conv1d: _conv, nn.Conv2d: _conv, nn.ConvTranspose1d: _transposed,
    nn.ConvTranspose2d: _transposed, nn.GroupNorm: _by_channel, nn.InstanceNorm1d: _by_channel,
    nn.InstanceNorm2d: _by_channel, nn.LayerNorm: _by_entry, nn.RMSNorm: _by_entry, nn.Embedding: _embedding,
}  # fmt: skip


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
    twice = {r.name for r in seen if sum(s.layer is r.layer for s in seen) > 1}
    if twice:
        raise Uncovered(f"layer '{min(twice)}' is used twice")
    if seen and loss.requires_grad:
        edges = [r.edge for r in seen]
        for found, g in zip(seen, torch.autograd.grad(loss.sum(), edges, allow_unused=True, retain_graph=keep),
                            strict=True):  # fmt: skip
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


def terms(records: list[Record], units: int, copies: int) -> dict[str, Term]:
    """The term of each trainable parameter that was reached, by its name."""
    found: dict[str, Term] = {}
    for r in records:
        if r.g is None:
            continue
        if len(r.x) != units * copies or len(r.g) != units * copies:
            raise Uncovered(f"layer '{r.name}' sees {len(r.x)} rows for {units * copies} images")
        if r.x._version != r.version:
            raise Uncovered(f"the input of layer '{r.name}' is overwritten in place")
        made = RULES[type(r.layer)](r.layer, r.x, r.g, copies)
        found |= {f"{r.name}.{key}" if r.name else key: made[key] for key in _own(r.layer)}
    return found
