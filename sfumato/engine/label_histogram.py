"""How many units each class has: the one question about labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from sfumato.data.labels import LabelPrior
from sfumato.privacy.bounds import BoundedSum, IntegerBound
from sfumato.privacy.plan import BudgetShare

if TYPE_CHECKING:
    from sfumato.privacy.barrier import Barrier
    from sfumato.run.run import Run

VOTE = IntegerBound(1, low=0)
CROSSING = "labels"


def fraction(prior: LabelPrior) -> float | None:
    """The share of the budget, in squared mu, that a private histogram takes."""
    return prior.fraction if prior.kind == "private" else None


def share(prior: LabelPrior) -> dict[str, BudgetShare]:
    """The crossing of the histogram, where labels are private."""
    part = fraction(prior)
    return {} if part is None else {CROSSING: BudgetShare(VOTE, part)}


def describe(prior: LabelPrior) -> Mapping[str, Any]:
    """For the plan: how labels are chosen. Measured weights are not known yet."""
    return {"kind": prior.kind, "weights": None if prior.weights is None else list(prior.weights)}


def class_sizes(prior: LabelPrior, barrier: Barrier, run: Run) -> Tensor:
    """Units in each class: by the declared size and weights, or by the noisy histogram, cut at zero."""
    spec = barrier.spec
    if prior.kind == "private":
        query = BoundedSum(lambda images, labels: one_hot(labels, len(spec.classes)), VOTE, (len(spec.classes),))
        return run.once(CROSSING, lambda: barrier.release(CROSSING, query)).clamp(min=0)
    weights = prior.weights or [1 / len(spec.classes)] * len(spec.classes)
    return spec.records * torch.tensor(weights, dtype=torch.float64, device=run.device)


def shares(prior: LabelPrior, barrier: Barrier, run: Run) -> list[float] | None:
    """The public proportions of labels for a generator; None, for equal ones, where all that came out was noise."""
    sizes = class_sizes(prior, barrier, run)
    return (sizes / sizes.sum()).tolist() if sizes.sum() >= 1 else None
