"""Networks that mix examples are refused: with them a clipped gradient bounds nothing.

By kind: layers that are known to read or to keep statistics of a batch. By behaviour: on made-up images, one example
is changed and all that belongs to the others must stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from sfumato.engine.gradients import ghost
from sfumato.errors import InputError

Batch = tuple[Tensor, ...]

KNOWN = (_BatchNorm, _InstanceNorm)
# Layers of others, by the name of their class.
NAMED = {
    r"mini_?batch_?(std|stat|disc)|batch_?(std|stddev|stat)": "leave it out: it compares the examples of a batch",
    r"batch_?(re)?norm": "use GroupNorm",
    r"act_?norm": "initialise it from constants or public images and give it another name, or use GroupNorm",
}


def validate(net: nn.Module) -> None:
    """Refuse a network with a layer that mixes examples, naming it and the remedy.

    >>> validate(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    Traceback (most recent call last):
    sfumato.errors.InputError: Expected layers that keep examples apart, found '1' (BatchNorm1d): use GroupNorm, ...
    """
    for name, layer in net.named_modules():
        remedy = _remedy(layer)
        if remedy:
            raise InputError(
                f"Expected layers that keep examples apart, found '{name}' ({type(layer).__name__}): {remedy}."
            )


def _remedy(layer: nn.Module) -> str | None:
    if isinstance(layer, KNOWN):
        batch = isinstance(layer, _BatchNorm)
        # With stored statistics and in evaluation mode it is a fixed affine map, as in a frozen public network.
        stored = layer.track_running_stats and layer.running_mean is not None
        if not (stored and not layer.training if batch else not (stored and layer.training)):
            use = "use GroupNorm" if batch else "set track_running_stats=False"
            return f"{use}, or freeze it in evaluation mode with statistics of public images"
        return None
    return _remedy_by_name(type(layer).__name__.lower())


@cache  # asked before every batch
def _remedy_by_name(kind: str) -> str | None:
    return next((remedy for pattern, remedy in NAMED.items() if re.search(pattern, kind)), None)


def mixes_examples(net: Callable[[Tensor], Tensor], example: Tensor) -> bool:
    """Whether an output row depends on another example, tried with `example` (B, ...), B at least 2, public.

    An output of the others may neither have a gradient towards the first example nor change with it by a single bit.

    >>> mixes_examples(nn.Linear(3, 2), torch.rand(4, 3))
    False
    >>> mixes_examples(lambda x: x - x.mean(0), torch.rand(4, 3))
    True
    """
    if len(example) < 2:
        raise ValueError(f"Expected at least 2 examples, found {len(example)}.")
    with torch.enable_grad():
        images = example.detach().clone().requires_grad_()
        output = _seeded(net, images)
        if len(output) != len(images):
            return True
        if output.requires_grad:
            (slope,) = torch.autograd.grad(output[1:].sum(), images, allow_unused=True)
            if slope is not None and bool((slope[0] != 0).any()):
                return True
    with torch.no_grad():
        changed = example.clone()
        changed[0] = changed[0].flip(-1) * 0.5 + 0.25
        return not torch.equal(_seeded(net, changed)[1:], _seeded(net, example)[1:])


def _seeded(net: Callable[..., Tensor], *batch: Tensor) -> Tensor:
    # Dropout must draw the same, and the caller's randomness must not notice.
    with torch.random.fork_rng([t.device for t in batch[:1] if t.is_cuda]):
        torch.manual_seed(0)
        return net(*batch)


class FixedNetwork(nn.Module):
    """A network together with losses(net, *batch), so that torch.func can exchange its weights."""

    def __init__(self, net: nn.Module, losses: Callable[..., Tensor]) -> None:
        super().__init__()
        self.net = net
        self.losses = losses

    def forward(self, *batch: Tensor) -> Tensor:
        return self.losses(self.net, *batch)


def remembers_examples(held: FixedNetwork, batch: Batch, changed: Batch) -> bool:
    """Whether buffers of the network end up different after a batch with another first example."""
    first, second = (_buffers_after(held, seen) for seen in (batch, changed))
    return any(_differ(a, b) for a, b in zip(first, second, strict=True))


def _buffers_after(held: FixedNetwork, batch: Batch) -> list[Tensor]:
    """What a pass leaves in the buffers, which are put back as they were."""
    places = [(layer, key, b, b.clone()) for layer in held.modules() for key, b in layer.named_buffers(recurse=False)]
    _seeded(held, *batch)
    with torch.no_grad():
        after = [getattr(layer, key).clone() for layer, key, _, _ in places]
        for layer, key, buffer, before in places:
            setattr(layer, key, buffer.copy_(before))
    return after


def unfit_for_ghost(held: FixedNetwork, batch: Batch, changed: Batch, units: int) -> str | None:
    """Why gradients from records of layers would be wrong or would mix examples; None where they are right.

    Tried with made-up weights, as zeros of an initialisation would hide a part. `changed` differs from `batch` in the
    first of `units` examples.
    """
    if torch.get_float32_matmul_precision() != "highest":
        return "products are rounded below float32: call torch.set_float32_matmul_precision('highest')"
    try:
        weights = made_up_weights(held)
        records, loss = ghost.record(held, lambda: _seeded(_with(held, weights), *batch), keep=True)
        found = ghost.terms(records, units, len(batch[0]) // units)
        others, _ = ghost.record(held, lambda: _seeded(_with(held, weights), *changed))
        slopes = torch.autograd.grad(loss.sum(), list(weights.values()), allow_unused=True)
    except (ghost.Uncovered, RuntimeError) as error:
        return str(error).splitlines()[0]
    if not found:
        return "the loss reaches no trainable layer"
    if _mixed(records, others, len(batch[0]) // units):
        return "an example changes what belongs to another"
    return _wrong(found, dict(zip(weights, slopes, strict=True)), loss.new_ones(units))


def _mixed(first: list[ghost.Record], second: list[ghost.Record], noise_multiplicity: int) -> bool:
    pairs = [(a.x, b.x) for a, b in zip(first, second, strict=True)]
    pairs += [(a.g, b.g) for a, b in zip(first, second, strict=True) if a.g is not None and b.g is not None]
    return any(_differ(a[noise_multiplicity:], b[noise_multiplicity:]) for a, b in pairs)


def _wrong(found: dict[str, ghost.Term], slopes: dict[str, Tensor | None], ones: Tensor) -> str | None:
    whole = sum(float(slope.square().sum()) for slope in slopes.values() if slope is not None) ** 0.5
    for name, slope in slopes.items():
        exact = ones.new_zeros(1) if slope is None else slope.flatten()
        away = float((exact - (found[name].weighted(ones) if name in found else 0)).norm())
        if not away <= 1e-3 * float(exact.norm()) + 1e-6 * whole:
            return f"'{name.removeprefix('net.')}' has gradients that do not come through the output of its layer"
    return None


def made_up_weights(net: nn.Module) -> dict[str, Tensor]:
    """The trainable parameters moved at random, by about the size of an ordinary initialisation."""
    random = torch.Generator().manual_seed(0)
    moved = {}
    for name, p in net.named_parameters():
        if p.requires_grad:
            size = p[0].numel() ** -0.5 if p.dim() > 1 else 0.1
            moved[name] = (p.detach() + size * torch.randn(p.shape, generator=random).to(p)).requires_grad_()
    return moved


def _with(held: FixedNetwork, weights: dict[str, Tensor]) -> Callable[..., Tensor]:
    buffers = {name: b.clone() for name, b in held.named_buffers()}
    return lambda *batch: torch.func.functional_call(held, weights | buffers, batch)


def _differ(a: Tensor, b: Tensor) -> bool:
    """Beyond what the order of parallel sums may change."""
    if a.shape != b.shape or not a.is_floating_point() or not a.numel():
        return not torch.equal(a, b)
    return bool(((a - b).abs() > 1e-4 * torch.maximum(a.abs(), b.abs()) + 1e-6 * a.abs().max()).any())
