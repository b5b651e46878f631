"""DP-SGD: each step releases a noisy sum of clipped gradients; any optimiser takes it from there.

S      a Poisson sample of the records, each with probability q = batch / records      (empty ones are steps too)
G      sum over S of clip(gradient of the loss of record i) + N(0, (z C)^2)            the crossing "gradient"
step   of an ordinary optimiser on G / batch: the divisor is public
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from sfumato.engine.ema import EMA
from sfumato.engine.gradients.clipping import Clip
from sfumato.engine.gradients.per_example import ClippedGradient, Draw, Loss, assign, bound_for, per_example
from sfumato.privacy.plan import Crossing, crossing
from sfumato.privacy.samplers import FullBatch, Poisson

if TYPE_CHECKING:
    from sfumato.privacy.barrier import Barrier
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

GRADIENT = "gradient"


@dataclass(frozen=True)
class DPSGDConfig:
    """The public side of one network's DP-SGD: how many steps, of how many examples, clipped how."""

    steps: int
    batch: int  # expected
    clip: Clip | float = 1.0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 1:
            raise ValueError(f"Expected steps and batch of at least 1, found {self.steps} and {self.batch}.")

    def crossing(self, spec: DataSpec, multiplier: float) -> Crossing:
        """The crossing of all steps; `multiplier` is sigma over the clipping norm."""
        rate = self.batch / spec.records
        return crossing(
            bound_for(self.clip, self.batch), multiplier, Poisson(rate) if rate < 1 else FullBatch(), self.steps
        )

    def query(
        self,
        net: nn.Module,
        loss: Loss,
        *,
        noise_multiplicity: int = 1,
        draw: Draw | None = None,
        bfloat16: bool = False,
    ) -> ClippedGradient:
        """The sum of clipped gradients of `loss(net, images, labels, *drawn, *public)`, one number an image."""
        return per_example(
            net, loss, self.clip, batch=self.batch, noise_multiplicity=noise_multiplicity, draw=draw, bfloat16=bfloat16
        )


def release_into(
    net: nn.Module, barrier: Barrier, query: ClippedGradient, descent: DPSGDConfig, *public: Any, name: str = GRADIENT
) -> None:
    """Put one noisy gradient into the parameters of `net`."""
    assign(net, barrier.release(name, query, *public) / descent.batch)


def descend(
    net: nn.Module,
    loss: Loss,
    barrier: Barrier,
    run: Run,
    descent: DPSGDConfig,
    optimiser: Optimizer,
    *,
    ema_decay: float = 0.0,
    pace: Callable[[int], float] = lambda step: 1.0,
    noise_multiplicity: int = 1,
    draw: Callable[[int], Draw] | None = None,
    bfloat16: bool = False,
    name: str = GRADIENT,
    keep: Mapping[str, Any] | None = None,
) -> Iterator[tuple[int, EMA | None]]:
    """All steps, with checkpoints; yields after each, for previews. `draw(step)` makes the randomness of a step.

    `pace(step)` is a public factor on the learning rate. The averaged weights, where asked for, are the last value's.
    `keep` is more state for the checkpoint.
    """
    mean = EMA(net, ema_decay) if ema_decay else None
    rates = [group["lr"] for group in optimiser.param_groups]
    kept = {"net": net, "optimiser": optimiser, **(keep or {})} | ({"ema": mean} if mean else {})
    now: dict[str, Draw] = {}
    drawn = (lambda n: now["draw"](n)) if draw else None
    query = descent.query(
        net, loss, noise_multiplicity=noise_multiplicity, draw=drawn, bfloat16=bfloat16
    )  # once: it tries the loss out
    for step in run.steps(descent.steps, **kept):
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * pace(step)
        if draw:
            now["draw"] = draw(step)
        release_into(net, barrier, query, descent, name=name)
        optimiser.step()
        if mean:
            mean.update(net)
        yield step, mean
