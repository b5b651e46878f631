"""What methods share that optimise a fixed synthetic set: their plan, their loop, and the distances they descend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.accounting.budget import Budget
from sfumato.accounting.claims import dp_sgd
from sfumato.engine import label_histogram
from sfumato.engine.generator_dpsgd import BudgetShare
from sfumato.networks.image_set import FixedSet
from sfumato.privacy.bounds import AnyBound
from sfumato.privacy.plan import Plan, crossing, within
from sfumato.privacy.samplers import FullBatch, Poisson
from sfumato.run.preview import Preview

if TYPE_CHECKING:
    from sfumato.methods.base import Method
    from sfumato.methods.sets.convnets import ConvNet
    from sfumato.run.run import Run
    from sfumato.types import DataSpec


def plan(
    method: Method,
    name: str,
    bound: AnyBound,
    spec: DataSpec,
    budget: Budget,
    *,
    batch: int,
    steps: int,
    deviations: tuple[str, ...],
    reason: str,
    unit: float = 1.0,
    **facts: Any,
) -> Plan:
    """`steps` releases of Poisson samples of about `batch` records, with the least noise that is within the budget.

    The paper's multiplier is sigma over `unit` norms. A label histogram gets its fraction of the squared mu first.
    """
    rate = batch / spec.records
    fixed = {}
    if method.labels.kind == "private":
        assert method.labels.fraction is not None
        fixed[label_histogram.CROSSING] = BudgetShare(label_histogram.VOTE, method.labels.fraction).crossing(budget)

    def at(noise: float) -> Plan:
        sampled = crossing(bound, noise * unit, Poisson(rate) if rate < 1 else FullBatch(), steps)
        return Plan(
            method.name,
            method.settings(),
            spec,
            budget,
            {**fixed, name: sampled},
            labels=label_histogram.describe(method.labels),
            deviations=deviations,
        )

    made = within(budget, at)
    noise = made.crossings[name].mechanism.multiplier / unit
    claim = dp_sgd(min(1.0, rate), noise, steps, budget.delta, reason=reason)
    told = {"steps": steps, "batch": min(batch, spec.records), "noise": noise, **facts}
    return replace(made, paper=claim, facts=told, warnings=(*made.warnings, *_warnings(rate, batch, spec)))


def _warnings(rate: float, batch: int, spec: DataSpec) -> tuple[str, ...]:
    if rate < 1:
        return ()
    return (f"batch={batch} reaches the number of units, {spec.records}: all take part, without amplification.",)


def fresh(spec: DataSpec, each: int, weights: Sequence[float] | None, run: Run) -> FixedSet:
    """A set of grey noise, `each` images of every class."""
    points = FixedSet(spec.shape, spec.classes, each, weights)
    points.start(run.generator("points"))
    return points.to(run.device)


def refine(
    points: FixedSet,
    loss: Callable[[int], Tensor],
    run: Run,
    spec: DataSpec,
    *,
    steps: int,
    learning_rate: float,
    **state: Any,
) -> FixedSet:
    """Descend `loss(step)` in the pixels, which stay in [0, 1]; `state` is what the loss changes on its way."""
    optimiser = torch.optim.Adam([points.images], lr=learning_rate, betas=(0.5, 0.99))
    preview = Preview(run, points, spec)
    for step in run.steps(steps, points=points, optimiser=optimiser, preview=preview, **state):
        optimiser.param_groups[0]["lr"] = learning_rate * (1 - step / steps)
        gap = loss(step)
        optimiser.zero_grad(set_to_none=True)
        gap.backward()
        optimiser.step()
        points.restrain()
        preview.snapshot(step, steps, points)
    return points.eval()


def set_loss(net: ConvNet, points: FixedSet) -> Tensor:
    """Cross-entropy of a classifier on the whole set, classes weighted by their public shares."""
    images, labels = points.everything()
    shares = torch.tensor(points.label_weights, device=images.device, dtype=images.dtype)
    losses = F.cross_entropy(net(images), labels, reduction="none")
    return (losses.view(len(shares), -1).mean(1) * shares).sum() / shares.sum()


def gradient_gap(mine: Sequence[Tensor], theirs: Tensor) -> Tensor:
    """Sum over layers, and over the rows of their matrices, of one minus a cosine; biases are left out.

    `mine` are gradients by parameter and `theirs` is all of another in one vector.

    >>> one = [torch.tensor([[3.0, 0.0], [0.0, 1.0]]), torch.ones(5)]
    >>> gradient_gap(one, torch.tensor([1.0, 0.0, 1.0, 0.0, *[9.0] * 5]))  # one row agrees, one is orthogonal
    tensor(1.)
    """
    pairs = zip(mine, theirs.split([g.numel() for g in mine]), strict=True)
    rows = [(g.flatten(1), t.view_as(g).flatten(1)) for g, t in pairs if g.dim() > 1]
    return torch.stack([(1 - F.cosine_similarity(g, t.to(g), dim=1, eps=1e-6)).sum() for g, t in rows]).sum()


def study(net: ConvNet, points: FixedSet, *, steps: int, learning_rate: float) -> None:
    """Plain gradient descent of a classifier on the set."""
    for _ in range(steps):
        slopes = torch.autograd.grad(set_loss(net, points), list(net.parameters()))
        with torch.no_grad():
            for p, slope in zip(net.parameters(), slopes, strict=True):
                p.sub_(slope, alpha=learning_rate)


def shortened(rows: Tensor, norm: float) -> Tensor:
    """Rows above a norm brought down to it, as the barrier does with those of private images."""
    return rows * (norm / torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp(min=norm))
