"""Bugs of whole methods in who is computed together: shapes of batches, and a sample that two crossings share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.audit.gallery.common import Bug
from sfumato.audit.gallery.runs import STEPS, Planned
from sfumato.engine.gradients.per_example import bound_for
from sfumato.methods.base import Method
from sfumato.networks.image_set import ImageSet
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Crossing, crossing
from sfumato.privacy.samplers import Poisson
from sfumato.run.run import Run
from sfumato.types import DataSpec


@dataclass(frozen=True, eq=False)
class _Signs:
    """The signs of random features of each record, by a kernel that is picked by the number of rows.

    An even number of rows goes through bfloat16, as a library may do it. With `compact` blank places are left out, and
    the number of rows is that of the records; else it is always that of a page.
    """

    features: Tensor
    compact: bool
    bound: Bound
    page: ClassVar[int] = 32
    by_class: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int]:
        return (self.features.shape[1],)

    def answer_shape(self, classes: int) -> tuple[int, ...]:
        return self.shape

    def total(self, images: Tensor, labels: Tensor, *public: Any, there: Tensor | None = None) -> Tensor:
        assert there is not None
        if self.compact:
            return self._kernel(images[there]).sum(0)
        return self.rows(images, labels).masked_fill(~there[:, None], 0).sum(0)

    def rows(self, images: Tensor, labels: Tensor, *public: Any) -> Tensor:
        if self.compact:
            return self._kernel(images)
        blank = images.new_zeros(-len(images) % self.page, *images.shape[1:])
        return self._kernel(torch.cat([images, blank]))[: len(images)]

    def _kernel(self, images: Tensor) -> Tensor:
        kind = torch.float32 if len(images) % 2 else torch.bfloat16
        projections = (images.flatten(1) - 0.5).to(kind) @ self.features.to(kind)
        return self.bound.project(projections.sign())


def shapes(bug: bool) -> Method:
    """Rows are computed in a batch of the records alone, or on a page of one public shape."""
    bound = bound_for(1.0, 60)

    def work(barrier: Barrier, run: Run, net: ImageSet) -> None:
        features = torch.randn(barrier.spec.pixels, 8192, generator=run.generator("features"))
        for _ in run.steps(STEPS, net=net):
            answer = barrier.release("signs", _Signs(features, bug, bound))
            net.images.data += 1e-3 * (features @ answer.float()).view(barrier.spec.shape)

    return Planned(asks=lambda spec, z: {"signs": crossing(bound, z, times=STEPS)}, work=work)


@dataclass
class _Remembering:
    """A sampler that leaves its draw behind for the next crossing, which takes it in place of one of its own."""

    rate: float
    left: dict[int, Any]  # by the number of units
    takes: bool

    def draw(self, units: int, noise: Any) -> Any:
        if self.takes and units in self.left:
            return self.left.pop(units)
        drawn = Poisson(self.rate).draw(units, noise)
        if not self.takes:
            self.left[units] = drawn
        return drawn


def one_sample(bug: bool) -> Method:
    """Two questions are put to one sample, and charged as if each had drawn its own."""
    bound = Bound(1.0)
    rate = 0.2
    left: dict[int, Any] = {}

    def crossings(spec: DataSpec, noise: float) -> dict[str, Crossing]:
        samplers = [_Remembering(rate, left, takes) if bug else Poisson(rate) for takes in (False, True)]
        return {
            name: crossing(bound, noise, sampler, STEPS)  # type: ignore[arg-type]
            for name, sampler in zip(("images", "squares"), samplers, strict=True)
        }

    def work(barrier: Barrier, run: Run, net: ImageSet) -> None:
        images = BoundedSum(lambda images, labels: images.flatten(1), bound, (barrier.spec.pixels,))
        squares = BoundedSum(lambda images, labels: images.flatten(1).square(), bound, (barrier.spec.pixels,))
        for _ in run.steps(STEPS, net=net):
            answer = barrier.release("images", images) + barrier.release("squares", squares)
            net.images.data += 1e-3 * answer.view(barrier.spec.shape).to(net.images)

    return Planned(asks=crossings, work=work)


BUGS = (
    Bug("B31", "rows that depend on the shape of their batch", shapes, ("sums along a run", "sensitivity"), level=0),
    Bug("B47", "two noisy queries share one sample", one_sample, ("inclusion across noisy queries",), level=0),
)
