"""What one unit may add to a sum, enforced by projection and read by the accountant from the same object."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

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
    slack: float = 0.0  # of terms that are summed before they are projected: a part of the norm, for rounding
    most: int | None = None  # of such terms that the slack is meant for; where there are more, each is projected
    integer: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.norm) and self.norm > 0 and 0 <= self.slack < 1):
            raise ValueError(f"Expected a finite norm above 0 and slack from 0 to 1, found {self}.")

    def sensitivity(self, relation: Relation) -> float:
        """L2 distance between the sums of two neighbours, at most."""
        return (1.0 if relation is Relation.ADD_REMOVE else 2.0) * self.norm * (SLACK + self.slack)

    def shifts(self, relation: Relation) -> tuple[tuple[int, int], ...]:
        """Patterns of whole-number neighbours: none, since terms are not whole numbers."""
        return ()

    @property
    def grid(self) -> float:
        """A public power of two. Terms on it add up exactly in float64, in any order, for up to 2^28 units."""
        return 2.0 ** (math.floor(math.log2(self.norm)) - 24)

    def project(self, terms: Tensor) -> Tensor:
        """Each row made finite, brought into the ball and rounded towards zero onto the grid, as float64."""
        terms = _finite(terms.to(torch.float64))
        flat = terms.flatten(1)
        on_grid: Tensor = torch.trunc(flat * _shrink(flat, self.norm) / self.grid) * self.grid
        return on_grid.view_as(terms)


@dataclass(frozen=True)
class IntegerBound:
    """Whole numbers from `low` to `high`, at most `most` of them not zero: the discrete Gaussian applies.

    `coordinates`, where it is declared, is how many numbers a ballot has: a vote cannot move where there is no other
    place, and a ballot with more of them is refused.

    >>> IntegerBound(200).sensitivity(Relation.REPLACE_ONE) == 2 * 200**0.5  # all signs flipped
    True
    >>> IntegerBound(1, low=0, coordinates=1).sensitivity(Relation.REPLACE_ONE)  # yes or no
    1.0
    """

    most: int
    low: int = -1
    high: int = 1
    coordinates: int | None = None
    integer: ClassVar[bool] = True
    grid: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if self.most < 1 or not self.low <= 0 <= self.high or self.low == self.high:
            raise ValueError(f"Expected most >= 1 and low <= 0 <= high, found {self}.")
        if max(-self.low, self.high) > 127:
            raise ValueError(f"Expected whole numbers from -127 to 127, found {self}.")
        if self.coordinates is not None and self.coordinates < self.most:
            raise ValueError(f"Expected coordinates of at least most, found {self}.")

    @property
    def norm(self) -> float:
        """L2 norm of one term, at most."""
        return math.sqrt(self.most) * max(-self.low, self.high)

    def sensitivity(self, relation: Relation) -> float:
        """L2 distance between the sums of two neighbours, at most."""
        return max(math.sqrt(n) * by for n, by in self.shifts(relation))

    def shifts(self, relation: Relation) -> tuple[tuple[int, int], ...]:
        """The worst neighbours as (coordinates, by how much): a term appears; or it turns over where it stands, or
        moves to other coordinates."""
        far = max(-self.low, self.high)
        if relation is Relation.ADD_REMOVE:
            return ((self.most, far),)
        turned = (self.most, self.high - self.low)
        moved = (2 * self.most, far)
        if self.coordinates is not None and self.coordinates < 2 * self.most:  # votes meet: all of them may turn
            return ((self.coordinates, self.high - self.low),)
        return (turned, moved) if self.low else (moved,)  # without negatives, turning over is half of moving

    def project(self, terms: Tensor) -> Tensor:
        """Each row as a ballot: finite, whole, within its limits; the entries beyond the first `most` are void."""
        if self.coordinates is not None and terms[:1].numel() > self.coordinates:
            raise ValueError(f"Expected ballots of {self.coordinates} numbers, found {tuple(terms.shape[1:])}.")
        whole = terms if not terms.is_floating_point() else _finite(terms).round()
        flat = whole.flatten(1).clamp(self.low, self.high)
        if self.most == 1:  # a person with many records counts once, for what most of them say
            return _largest(whole.flatten(1), flat).view_as(terms)
        kept: Tensor = flat * ((flat != 0).cumsum(1) <= self.most)
        return kept.view_as(terms)


@dataclass(frozen=True)
class BatchBound:
    """A ball of radius `norm` for one value of a whole sample, which any unit may move from side to side.

    >>> once = Bound(1.0).sensitivity(Relation.ADD_REMOVE)
    >>> {BatchBound(1.0).sensitivity(relation) == 2 * once for relation in Relation}
    {True}
    """

    norm: float
    integer: ClassVar[bool] = False

    def __post_init__(self) -> None:
        Bound(self.norm)

    def sensitivity(self, relation: Relation) -> float:
        """L2 distance between the values of two neighbours, at most: two points of the ball."""
        return 2 * self.norm * SLACK

    def shifts(self, relation: Relation) -> tuple[tuple[int, int], ...]:
        """None, since values are not whole numbers."""
        return ()

    @property
    def grid(self) -> float:
        """That of a `Bound`."""
        return Bound(self.norm).grid

    def project(self, terms: Tensor) -> Tensor:
        """Each row as a `Bound` does it."""
        return Bound(self.norm).project(terms)


AnyBound = Bound | IntegerBound | BatchBound


class Summed(Protocol):
    """A query that bounds and sums its terms itself, within the slack of its bound (see `measure.gradients`)."""

    @property
    def bound(self) -> Bound:
        """Norm of one term, and the slack of their sum."""

    @property
    def by_class(self) -> bool:
        """Never."""

    def answer_shape(self, classes: int) -> tuple[int, ...]:
        """Shape of the released value; public."""

    def total(self, images: Tensor, labels: Tensor, *public: Any, there: Tensor | None = None) -> Tensor:
        """The sum of a batch's terms, in float64; of those at places where `there` is true."""

    def rows(self, images: Tensor, labels: Tensor, *public: Any) -> Tensor:
        """The terms, one by one."""


def _finite(terms: Tensor) -> Tensor:
    return torch.nan_to_num(terms, nan=0.0, posinf=0.0, neginf=0.0)


def _largest(whole: Tensor, flat: Tensor) -> Tensor:
    """The row without all entries but the one that is largest in size, among equals the first."""
    place = whole.abs().argmax(1, keepdim=True)
    return torch.zeros_like(flat).scatter_(1, place, flat.gather(1, place))


def _shrink(flat: Tensor, norm: float) -> Tensor:
    # Dividing by the largest entry first keeps the norm of huge terms finite.
    peak = flat.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    length: Tensor = peak * torch.linalg.vector_norm(flat / peak, dim=1, keepdim=True)
    return norm / length.clamp(min=norm)


@dataclass(frozen=True)
class BoundedSum:
    """The sum over all units of a bounded term: the one question that may be put to private data.

    `contribution(images, labels, *public)` maps a batch (float32 in [0, 1], and class indices) to one row of
    `shape` for each record; rows must not depend on each other. With `by_class` the rows of each class are
    summed apart and the answer has a leading axis of classes; a record lies in one class, so the bound is the same.
    """

    contribution: Callable[..., Tensor]
    bound: AnyBound
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
