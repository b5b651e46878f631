"""What one unit may add to a sum, enforced by projection and read by the accountant from the same object."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sfumato.accounting.budget import Relation

# Rounding in the norm of a term may let it exceed its bound by a few ulps; the declared sensitivity carries this.
SLACK = 1 + 2.0**-20


@dataclass(frozen=True)
class Bound:
    """A ball of radius `norm` that every unit's term is projected into.

    >>> Bound(1.0).sensitivity(Relation.REPLACE_ONE) / Bound(1.0).sensitivity(Relation.ADD_REMOVE)
    2.0
    """

    norm: float
    integer: bool = False  # terms are whole numbers: the discrete Gaussian applies
    nonnegative: bool = False  # terms have no negative part: two of them differ by sqrt(2), not 2

    def __post_init__(self) -> None:
        if not (math.isfinite(self.norm) and self.norm > 0):
            raise ValueError(f"Expected a finite norm above 0, found norm={self.norm}.")
        if self.integer and not (self.norm == 1 and self.nonnegative):
            raise ValueError("Expected an integer bound to be a vote: norm=1 and nonnegative=True.")

    def sensitivity(self, relation: Relation) -> float:
        """L2 distance between the sums of two neighbours, at most."""
        factor = {Relation.ADD_REMOVE: 1.0, Relation.REPLACE_ONE: math.sqrt(2) if self.nonnegative else 2.0}[relation]
        return factor * self.norm * (1.0 if self.integer else SLACK)

    def shift(self, relation: Relation) -> tuple[int, int]:
        """Worst neighbour of an integer query: a vote appears, or moves from one coordinate to another."""
        return (1, 1) if relation is Relation.ADD_REMOVE else (2, 1)

    @property
    def grid(self) -> float:
        """A public power of two. Terms on it add up exactly in float64, in any order, for up to 2^28 units."""
        return 1.0 if self.integer else 2.0 ** (math.floor(math.log2(self.norm)) - 24)

    def project(self, terms: Tensor) -> Tensor:
        """Each row made finite, brought into the ball and rounded towards zero onto the grid, as float64."""
        terms = torch.nan_to_num(terms.to(torch.float64), nan=0.0, posinf=0.0, neginf=0.0)
        if self.nonnegative:
            terms = terms.clamp(min=0)
        flat = terms.flatten(1)
        flat = _vote(flat) if self.integer else flat * _shrink(flat, self.norm)
        on_grid: Tensor = torch.trunc(flat / self.grid) * self.grid
        return on_grid.view_as(terms)


def _shrink(flat: Tensor, norm: float) -> Tensor:
    # Dividing by the largest entry first keeps the norm of huge terms finite.
    peak = flat.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    length: Tensor = peak * torch.linalg.vector_norm(flat / peak, dim=1, keepdim=True)
    return length.clamp(min=norm).reciprocal() * norm


def _vote(flat: Tensor) -> Tensor:
    """A row that is no single vote keeps one for its largest entry, so that a person counts once."""
    vote = torch.zeros_like(flat)
    vote.scatter_(1, flat.argmax(1, keepdim=True), 1.0)
    return vote * (flat.amax(1, keepdim=True) >= 1).to(vote)


@dataclass(frozen=True)
class BoundedSum:
    """The sum over all units of a bounded term: the one question that may be put to private data.

    `contribution(images, labels, *public)` maps a batch (float32 in [0, 1], and class indices) to one row of
    `shape` for each record; rows must not depend on each other. With `by_class` the rows of each class are
    summed apart and the answer has a leading axis of classes; a record lies in one class, so the bound is the same.
    """

    contribution: Callable[..., Tensor]
    bound: Bound
    shape: tuple[int, ...]
    by_class: bool = False

    def answer_shape(self, classes: int) -> tuple[int, ...]:
        """Shape of the released value; public."""
        return ((classes, *self.shape)) if self.by_class else self.shape

    def rows(self, images: Tensor, labels: Tensor, *public: Any) -> Tensor:
        """Contributions of a batch, checked for shape."""
        rows = self.contribution(images, labels, *public)
        if rows.shape != (len(images), *self.shape):
            raise ValueError(f"Expected one row of shape {self.shape} an image, found {tuple(rows.shape)} in all.")
        return rows
