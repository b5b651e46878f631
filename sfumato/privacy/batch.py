"""One value of a whole sample: a question that is not a sum of terms, such as the gradient of a distance of two sets.

Every record may move it at will, within a ball of radius C (`BatchBound`). Let S be a Poisson sample of the other
records, q the rate, and f the value. Given S, which is the same for two neighbours, their answers are

    add-remove    N(f(S))  against  (1-q) N(f(S)) + q N(f(S + x)),    ||f(S) - f(S + x)|| <= 2C
    replace-one   (1-q) N(f(S)) + q N(f(S + x))  against  (1-q) N(f(S)) + q N(f(S + x'))

The first is the pair of a sum whose terms have norm 2C. So is the second, from above: that pair lets f(S + x) and
f(S + x') lie 4C apart, while they are at most 2C apart. Without sampling two points of the ball stand against each
other under either relation. The function keeps nothing from call to call: a step that leaves the record out has to be
the same with and without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.privacy.bounds import BatchBound


@dataclass(frozen=True, eq=False)
class BatchValue:
    """A value of `shape` computed from all sampled records at once, brought into the ball as a whole.

    `function(images, labels, *public)` gets the whole sample: images in [0, 1], and class indices. It is not called
    for an empty sample, whose value is zero; what is no finite number counts as zero.
    """

    function: Callable[..., Tensor]
    bound: BatchBound
    shape: tuple[int, ...]
    by_class: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.bound, BatchBound):
            raise ValueError(f"Expected bound=Ball(norm) for a value of a whole sample, found bound={self.bound}.")

    def answer_shape(self, classes: int) -> tuple[int, ...]:
        """Shape of the released value; public."""
        return self.shape

    def value(self, images: Tensor, labels: Tensor, *public: Any) -> Tensor:
        """The value of a sample in float64, inside the ball; private."""
        if not len(images):
            return torch.zeros(self.shape, dtype=torch.float64, device=images.device)
        found = self.function(images, labels, *public)
        if found.shape != self.shape:
            raise ValueError(f"Expected a value of shape {self.shape}, found {tuple(found.shape)}.")
        return self.bound.project(found[None])[0]
