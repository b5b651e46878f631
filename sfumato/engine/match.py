"""Fit a generator to class-wise features that were released once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from sfumato.networks.generator import Generator

if TYPE_CHECKING:
    from sfumato.run.run import Run

Fitted = TypeVar("Fitted", bound=Generator)
Distance = Callable[[Tensor, Tensor], Tensor]  # of features (classes, batch, features) to their targets


@runtime_checkable
class Learned(Protocol):
    """A distance with parameters of its own, which are kept with the run."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def warm_cosine(step: int, steps: int) -> float:
    """A factor on the learning rate: up over the first twentieth, then down to nothing along a cosine."""
    warm = max(1, steps // 20)
    return min((step + 1) / warm, 0.5 + 0.5 * math.cos(math.pi * step / steps))


def unit(features: Tensor, target: Tensor) -> Tensor:
    """Squared distance of mean features of norm 1 to their targets, less a constant."""
    return unit_means(features.mean(1), target, features.shape[1])


def unit_means(mean: Tensor, target: Tensor, batch: int) -> Tensor:
    """The same from means over `batch` images, for those who have them without each image's features."""
    # Features have norm 1, so the pairs of an image with itself are a constant: dropping them is this factor.
    own = mean.square().sum(1) * batch / (batch - 1)
    return (own - 2 * (mean * target).sum(1)).mean()


def unbiased(features: Tensor, target: Tensor) -> Tensor:
    """The same for features of any norm: pairs of an image with itself are left out."""
    batch = features.shape[1]
    mean = features.mean(1)
    own = (batch * mean.square().sum(1) - features.square().sum(2).mean(1)) / (batch - 1)
    return (own - 2 * (mean * target).sum(1)).mean()


def match(
    net: Fitted,
    target: Tensor,
    embed: Callable[[Tensor], Tensor],
    run: Run,
    *,
    steps: int,
    batch: int,
    learning_rate: float,
    distance: Distance = unit,
) -> Fitted:
    """Minimise `distance` between `target` (classes, ...) and the features of generated images.

    A row with a NaN marks a class without a target; it is left out. `batch` images of each class are made a step.
    The state of a distance that is `Learned` is kept with the run.
    """
    served = torch.isfinite(target).flatten(1).all(1).nonzero()[:, 0]
    if not len(served):
        return net.eval()  # all that came through was noise
    target = target[served]
    optimiser = torch.optim.Adam(net.parameters(), lr=learning_rate, betas=(0.5, 0.99))
    learned: dict[str, Any] = {"distance": distance} if isinstance(distance, Learned) else {}
    labels = served.repeat_interleave(batch)
    net.train()
    with _quick_products():
        for step in run.steps(steps, net=net, optimiser=optimiser, **learned):
            optimiser.param_groups[0]["lr"] = learning_rate * warm_cosine(step, steps)
            z = net.latents(len(labels), run.generator("latents", step)).to(run.device)
            loss = distance(embed(net(z, labels)).view(len(served), batch, -1), target)
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimiser.step()
    return net.eval()


@contextmanager
def _quick_products() -> Iterator[None]:
    """Products in TensorFloat-32 where there is such a thing: nothing private is summed here."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
