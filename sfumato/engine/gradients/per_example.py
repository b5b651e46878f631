"""The sum of clipped gradients of single examples: the question that DP-SGD puts to private data.

A loss is a function of the network and a batch that gives one number for each image, none of which may depend on
another image:

    def loss(net, images, labels, *public):
        return cross_entropy(net(images), labels, reduction="none")

    query = per_example(net, loss, clip=1.0)
    total = barrier.release("gradient", query)              # (P,): noisy sum
    assign(net, total / expected_batch); optimiser.step()   # any torch optimiser

Randomness of an example (noise levels, augmentation, the partner of a gradient penalty) comes from `draw(n)`: tensors
of n rows that the loss is handed after the labels. With `noise_multiplicity=K` each image comes K times, with K draws;
the average gradient of the copies is what is clipped.

Ways to the same numbers: "ghost" (see ghost.py) for ordinary layers; "vmap" for any loss that torch.func can transform,
such as a gradient penalty written with torch.func.grad; "loop", one example after the other, for the rest, such as one
written with torch.autograd.grad. "auto" tries them in this order on made-up images and weights, where it compares the
first with autograd and looks whether examples stay apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sfumato.engine.gradients import ghost
from sfumato.engine.gradients.clipping import Clip, Flat
from sfumato.engine.gradients.validate import FixedNetwork, remembers_examples, unfit_for_ghost, validate
from sfumato.errors import InputError
from sfumato.privacy.bounds import Bound
from sfumato.remembered import carried, split

Loss = Callable[..., Tensor]
Draw = Callable[[int], tuple[Tensor, ...]]
Weights = dict[str, Tensor]
WAYS = ("ghost", "vmap", "loop")
ROOM = 2**26  # numbers of materialised rows held at once
BLOCK = 32  # batches are filled up to multiples of this
AT_ONCE = ("cpu",)  # devices whose answers are read without waiting for what they have to do
HUGE = 1e50  # squared norms from which a float32 weight would lose its digits; such an example counts as zero
TRIED = 3  # made-up examples
SETTLED_BY = ("net", "loss", "way", "noise_multiplicity", "draw", "bfloat16")  # what the choice of a way depends on


def per_example(
    net: nn.Module,
    loss: Loss,
    clip: Clip | float,
    *,
    batch: int = 0,
    way: str = "auto",
    noise_multiplicity: int = 1,
    draw: Draw | None = None,
    bfloat16: bool = False,
) -> ClippedGradient:
    """The query whose answer is the sum of clipped gradients of `loss` in the trainable parameters of `net`.

    `batch`, the expected number of examples, sets the slack of its bound; a barrier asks for one.

    >>> net = nn.Linear(4, 1)
    >>> query = per_example(net, lambda net, images, labels: net(images.flatten(1))[:, 0], clip=1.0)
    >>> query.total(torch.ones(3, 1, 2, 2), torch.zeros(3, dtype=torch.long)).tolist()
    [1.341640..., 1.341640..., 1.341640..., 1.341640..., 1.341640...]
    """
    if way not in ("auto", *WAYS) or noise_multiplicity < 1:
        raise ValueError(
            f"Expected way in {('auto', *WAYS)} and noise_multiplicity of at least 1, "
            f"found {way!r}, {noise_multiplicity}."
        )
    validate(net)
    if not any(p.requires_grad for p in net.parameters()):
        raise InputError("Expected a network with trainable parameters, found none.")
    return ClippedGradient(
        net, loss, Flat(clip) if isinstance(clip, int | float) else clip, way, noise_multiplicity, draw, bfloat16, batch
    )


def assign(net: nn.Module, gradient: Tensor) -> None:
    """Hand a released gradient (P,), already divided by the public batch size, to the parameters."""
    parameters = [p for p in net.parameters() if p.requires_grad]
    gradient = gradient.to(parameters[0])  # all at once; pieces of another type or place are converted below
    for p, piece in zip(parameters, gradient.split([p.numel() for p in parameters]), strict=True):
        p.grad = piece.view_as(p).to(p)


def slack(batch: int) -> float:
    """How far one example can move the sum over a batch beyond the bound, by rounding, as a part of the bound.

    A float32 sum rounds by a part of its own length, which is `batch` bounds where all gradients agree. Measured there:
    2.6e-7 for each example; this is near four times as much (`tests/test_measure_gradients.py`).
    """
    return (1 + batch) * 2.0**-20


def bound_for(clip: Clip | float, batch: int) -> Bound:
    """The bound of a sum of about `batch` clipped gradients, with the slack for rounding; for the plan.

    A Poisson batch is larger than twice its expectation and a hundred less often than once in e^35. Rounding the sum
    of up to 2^28 parameters to the grid adds less than 2^-10.
    """
    bound = (Flat(clip) if isinstance(clip, int | float) else clip).bound
    most = 2 * batch + 100
    return replace(bound, slack=slack(most) + 2.0**-10, most=most) if batch else bound


@dataclass(frozen=True, eq=False)
class ClippedGradient:
    """A bounded sum of gradients. Everything it returns is private: only the barrier may call `total` and `rows`."""

    net: nn.Module
    loss: Loss
    clip: Clip
    way: str = "auto"
    noise_multiplicity: int = 1
    draw: Draw | None = None
    bfloat16: bool = False  # forward and backward in bfloat16, norms and sums in float32
    batch: int = 0
    _chosen: dict[Any, str] = field(default_factory=dict, repr=False, metadata={"memo": SETTLED_BY})

    by_class: ClassVar[bool] = False

    @property
    def bound(self) -> Bound:
        return bound_for(self.clip, self.batch)

    @property
    def sees(self) -> Any:
        """The fixed map of single images that the network looks through, if it says so; see `remembered`."""
        return getattr(self.net, "sees", None)

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """Trainable parameters in the order of the answer."""
        return {name: p for name, p in self.net.named_parameters() if p.requires_grad}

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers that hold them, in the order that `PerLayer` splits a norm over."""
        return tuple(dict.fromkeys(_layer(name) for name in self.parameters))

    @property
    def shape(self) -> tuple[int]:
        return (sum(p.numel() for p in self.parameters.values()),)

    def answer_shape(self, classes: int) -> tuple[int, ...]:
        """Shape of the released value; public."""
        return self.shape

    def total(self, images: Tensor, labels: Tensor, *public: Any, there: Tensor | None = None) -> Tensor:
        """(P,) in float64: the sum of clipped gradients; of an empty batch, zeros.

        A gradient that is no finite number counts as zero, and so does a place where `there` is false. By the ghost
        way sums are formed in float32, see `slack`.
        """
        if len(images) and not self.clip.whole_rows and self._settle(images, public) == "ghost":
            return self._ghost_total(images, labels, public, there)
        total = torch.zeros(self.shape, dtype=torch.float64, device=images.device)
        done = 0
        for rows in self._pieces(images, labels, public):
            clipped = self._clipped(rows)
            done = done + len(rows)
            if there is not None:
                clipped = clipped.masked_fill_(~there[done - len(rows) : done, None], 0)
            total += clipped.sum(0)
        return total

    def rows(self, images: Tensor, labels: Tensor, *public: Any) -> Tensor:
        """(B, P) in float64: the clipped gradients, each by itself."""
        pieces = [self._clipped(rows) for rows in self._pieces(images, labels, public)]
        return torch.cat([torch.zeros(0, *self.shape, dtype=torch.float64, device=images.device), *pieces])

    def norms(self, images: Tensor, labels: Tensor, *public: Any) -> Tensor:
        """(B,) norms before clipping, private: what a `QuantileClip` votes on."""
        if len(images) and self._settle(images, public) == "ghost":
            terms = self._terms(images, labels, public)
            _, _, table = _table({name: term.lengths() for name, term in terms.items()})
            norms: Tensor = torch.linalg.vector_norm(table[: len(images)], dim=1)
            return norms
        squares = [rows.square().sum(1) for rows in self._pieces(images, labels, public)]
        return torch.cat([torch.zeros(0, dtype=torch.float64, device=images.device), *squares]).sqrt()

    # The ghost way

    def _ghost_total(self, images: Tensor, labels: Tensor, public: tuple[Any, ...], there: Tensor | None) -> Tensor:
        # A GPU is faster than the calls that keep it busy: few of them, and none that waits for an answer.
        terms = self._terms(images, labels, public)
        parts = self._parts
        names, widths, table = _table({name: term.lengths() for name, term in terms.items()})
        at = self._columns(names)
        squared = self._by_layer(table.square(), at, widths)
        fine = (squared.sum(1, keepdim=True) if self.clip.by_layer else squared) < HUGE
        counted = fine.clone()
        if there is not None:
            counted[: len(images)] &= there[:, None]
        if len(fine) > len(images):
            counted[len(images) :] = False
        weights = self.clip.weights(squared).where(counted, 0)
        if fine.device.type not in AT_ONCE or not bool(fine.all()):
            # Examples that are fine have finite factors throughout, so this touches none of them.
            table.nan_to_num_(0, 0, 0)
            for term in terms.values():
                if not term.short:
                    term.clean()
        full = torch.promote_types(parts[0][1].dtype, torch.float32)
        columns = weights.to(full).unbind(1)
        short = (weights.mT @ table).to(full).split(widths, 1)
        sums = {
            name: piece[layer] if terms[name].short else terms[name].weighted(columns[layer])
            for name, layer, piece in zip(names, at, short, strict=True)
        }
        return torch.cat([sums[name] if name in sums else p.new_zeros(p.numel()) for name, p in parts]).double()

    def _terms(
        self, images: Tensor, labels: Tensor, public: tuple[Any, ...], block: int = BLOCK
    ) -> dict[str, ghost.Term]:
        """Of all examples, and of those that fill the block up."""
        validate(self.net)
        batch = self._filled(images, labels, block)
        with torch.enable_grad(), self._precision(images):
            records, _ = ghost.record(self.net, lambda: self._losses(self.net, batch, public))
        return ghost.terms(records, len(batch[0]) // self.noise_multiplicity, self.noise_multiplicity)

    # Materialised rows

    def _pieces(self, images: Tensor, labels: Tensor, public: tuple[Any, ...]) -> Iterator[Tensor]:
        """Gradients in float64, a piece of the batch at a time."""
        if not len(images):
            return
        way = self._settle(images, public)
        step = max(1, ROOM // self.shape[0])
        for some in zip(split(images, step), labels.split(step), strict=True):
            yield self._raw(way, *some, public, min(step, BLOCK)).double()

    def _raw(self, way: str, images: Tensor, labels: Tensor, public: tuple[Any, ...], block: int) -> Tensor:
        if way == "ghost":
            terms = self._terms(images, labels, public, block)
            count = -(-len(images) // block) * block
            rows = [terms[n].rows() if n in terms else p.new_zeros(count, p.numel()) for n, p in self._parts]
            return torch.cat(rows, 1)[: len(images)]
        validate(self.net)
        weights = {f"net.{name}": p.detach() for name, p in self._parts}
        one_by_one, block = (_vmap, block) if way == "vmap" else (_loop, 1)
        batch = tuple(t.unflatten(0, (-1, self.noise_multiplicity)) for t in self._filled(images, labels, block))
        with torch.enable_grad(), self._precision(images):
            return one_by_one(self._held(public), weights, batch)[: len(images)]

    def _clipped(self, rows: Tensor) -> Tensor:
        """Rows made finite, sparsified where the clip says so, and shortened, in float64."""
        rows = self.clip.keep(rows.where(rows.isfinite().all(1, keepdim=True), 0))
        parts = self._parts
        at = self._columns(name for name, _ in parts)
        sizes = [p.numel() for _, p in parts]
        weights = self.clip.weights(self._by_layer(rows.square(), at, sizes))
        if not self.clip.by_layer:
            return rows * weights
        return rows * torch.cat([weights[:, [i]].expand(-1, size) for i, size in zip(at, sizes, strict=True)], 1)

    # Layers that are clipped apart

    def _columns(self, names: Iterable[str]) -> list[int]:
        """Of (B, layers), the column of each parameter: the first where all layers are clipped as one."""
        order = {layer: i for i, layer in enumerate(self.layers)} if self.clip.by_layer else {}
        return [order.get(_layer(name), 0) for name in names]

    def _by_layer(self, squares: Tensor, at: list[int], widths: list[int]) -> Tensor:
        """(B, k), `widths` of them for each parameter, -> (B, layers): the squared norms."""
        if not self.clip.by_layer:
            return squares.sum(1, keepdim=True)
        found = squares.new_zeros(len(squares), len(self.layers))
        for i, piece in zip(at, squares.split(widths, 1), strict=True):
            found[:, i] += piece.sum(1)
        return found

    # What all ways share

    @property
    def _parts(self) -> list[tuple[str, nn.Parameter]]:
        return list(self.parameters.items())

    def _batch(self, images: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """Every image `noise_multiplicity` times, copies of one image together, with their draws."""
        like = next(p for p in self.net.parameters() if p.requires_grad)
        images = carried(images, like)
        labels = labels.to(like.device)
        if self.noise_multiplicity > 1:
            images, labels = (t.repeat_interleave(self.noise_multiplicity, 0) for t in (images, labels))
        drawn = self.draw(len(images)) if self.draw else ()
        return (images, labels, *(t.to(like.device) for t in drawn))

    def _filled(self, images: Tensor, labels: Tensor, block: int) -> tuple[Tensor, ...]:
        """The batch with its first examples again up to a multiple of `block`; their gradients are not used.

        Small batches of other sizes may be computed by other kernels, whose rounding can switch a ReLU of another
        example: without a record the gradients of the others would not stay the same.
        """
        batch = self._batch(images, labels)
        count = len(images)
        if count % block == 0:
            return batch
        places = torch.arange(-(-count // block) * block, device=batch[0].device) % count
        return tuple(t.unflatten(0, (count, self.noise_multiplicity))[places].flatten(0, 1) for t in batch)

    def _losses(self, net: nn.Module, batch: tuple[Tensor, ...], public: tuple[Any, ...]) -> Tensor:
        losses = self.loss(net, *batch, *public)
        if losses.shape != batch[1].shape[:1]:
            raise InputError(f"Expected one loss for each of {len(batch[1])} images, found {tuple(losses.shape)}.")
        losses = losses.float() if losses.dtype != torch.float64 else losses
        return losses / self.noise_multiplicity if self.noise_multiplicity > 1 else losses

    def _held(self, public: tuple[Any, ...]) -> FixedNetwork:
        return FixedNetwork(self.net, lambda net, *batch: self._losses(net, batch, public))

    def _precision(self, images: Tensor) -> AbstractContextManager[Any]:
        return torch.autocast(images.device.type, torch.bfloat16) if self.bfloat16 else nullcontext()

    # The choice of a way: by shapes alone, never by private data

    def _settle(self, images: Tensor, public: tuple[Any, ...]) -> str:
        place = (images.shape[1:], images.device)
        if place not in self._chosen:
            self._chosen[place] = self._choose(images, public)
        return self._chosen[place]

    def _choose(self, images: Tensor, public: tuple[Any, ...]) -> str:
        batch = self._batch(*_made_up(images))
        changed = (
            torch.cat([1 - batch[0][: self.noise_multiplicity], batch[0][self.noise_multiplicity :]]),
            *batch[1:],
        )
        held = self._held(public)
        with torch.enable_grad():
            if remembers_examples(held, batch, changed):
                raise InputError("Expected a network without memory of its examples, found buffers that they change.")
            against = {}
            for way in WAYS if self.way == "auto" else (self.way,):
                if way == "ghost":
                    found = unfit_for_ghost(held, batch, changed, TRIED)
                else:
                    found = self._fails(way, images, public)
                if found is None:
                    return way
                against[way] = found
        raise InputError(f"Expected a loss with gradients by example, found {against}.")

    def _fails(self, way: str, images: Tensor, public: tuple[Any, ...]) -> str | None:
        try:
            self._raw(way, *_made_up(images), public, 1)
        except RuntimeError as error:
            return str(error).splitlines()[0]
        return None


def _layer(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _table(lengths: dict[str, Tensor]) -> tuple[list[str], list[int], Tensor]:
    """Lengths side by side in float64, with the names and widths of the pieces."""
    names = sorted(lengths, key=lambda name: lengths[name].element_size())
    # A GPU joins tensors of one type by one call, mixed ones by a call for each.
    by_type = [[lengths[n] for n in names if lengths[n].dtype == kind] for kind in (torch.float32, torch.float64)]
    table = torch.cat([torch.cat(pieces, 1).double() for pieces in by_type if pieces], 1)
    return names, [lengths[name].shape[1] for name in names], table


def _made_up(images: Tensor) -> tuple[Tensor, Tensor]:
    """Images and labels of the right shape that have nothing to do with the data."""
    random = torch.Generator().manual_seed(0)
    made = torch.rand(TRIED, *images.shape[1:], generator=random)
    return made.to(images), torch.zeros(TRIED, dtype=torch.long, device=images.device)


def _vmap(held: FixedNetwork, weights: Weights, batch: tuple[Tensor, ...]) -> Tensor:
    """(B, P): torch.func's gradients by example; an example is a batch of its copies."""

    def one(weights: Weights, *example: Tensor) -> Tensor:
        losses: Tensor = torch.func.functional_call(held, weights, example)
        return losses.sum()

    by_example = torch.func.vmap(torch.func.grad(one), in_dims=(None, *[0] * len(batch)), randomness="different")
    return torch.cat([g.flatten(1) for g in by_example(weights, *batch).values()], 1)


def _loop(held: FixedNetwork, weights: Weights, batch: tuple[Tensor, ...]) -> Tensor:
    """(B, P): one example after the other."""
    leaves = {name: w.requires_grad_() for name, w in weights.items()}
    rows = []
    for example in zip(*batch, strict=True):
        loss = torch.func.functional_call(held, leaves, example).sum()
        slopes = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
        rows.append(torch.cat([s.flatten() for s in slopes]))
    return torch.stack(rows)
