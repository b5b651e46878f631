"""DP-SGD: each step releases a noisy sum of clipped gradients; any optimiser takes it from there.

S      a Poisson sample of the records, each with probability q = batch / records      (empty ones are steps too)
G      sum over S of clip(gradient of the loss of record i) + N(0, (z C)^2)            the crossing "gradient"
step   of an ordinary optimiser on G / batch: the divisor is public

A method's loop is

    for _ in sgd.steps():
        G = barrier.release(GRADIENT, sgd.query)  # the barrier
        sgd.step(G / config.batch)
        sgd.average()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.optim import Optimizer

from sfumato.engine.ema import EMA
from sfumato.engine.gradients.clipping import Clip
from sfumato.engine.gradients.per_example import ClippedGradient, Draw, Loss, assign, bound_for, per_example
from sfumato.privacy.plan import Crossing, crossing
from sfumato.privacy.samplers import FullBatch, Poisson

if TYPE_CHECKING:
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


class DPSGD:
    """A network in training: the query of its steps, its optimiser and its averaged weights, kept in checkpoints.

    `pace(step)` is a public factor on the learning rate. `draw(step)` makes the randomness of a step's examples.
    `averaged` is the part whose weights are averaged, all of the network where nothing is said. `state` is more for
    the checkpoint.
    """

    def __init__(
        self,
        net: nn.Module,
        loss: Loss,
        run: Run,
        config: DPSGDConfig,
        optimiser: Optimizer,
        *,
        ema_decay: float = 0.0,
        averaged: nn.Module | None = None,
        pace: Callable[[int], float] = lambda step: 1.0,
        noise_multiplicity: int = 1,
        draw: Callable[[int], Draw] | None = None,
        bfloat16: bool = False,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self.net = net
        self.run = run
        self.config = config
        self.optimiser = optimiser
        self.averaged = averaged or net
        self.ema = EMA(self.averaged, ema_decay) if ema_decay else None
        self.pace = pace
        self.draw = draw
        self.kept = {"net": net, "optimiser": optimiser, **(state or {})} | ({"ema": self.ema} if self.ema else {})
        self._rates = [group["lr"] for group in optimiser.param_groups]  # before a checkpoint brings those of its step
        self._drawn: Draw = lambda rows: ()
        # Once for all steps: a query tries its loss out.
        self._query = config.query(net, loss, noise_multiplicity=noise_multiplicity, bfloat16=bfloat16)

    @property
    def query(self) -> ClippedGradient:
        """The question of this step, with its randomness and nothing else of the training."""
        return replace(self._query, draw=self._drawn) if self.draw else self._query

    def steps(self) -> Iterator[int]:
        """Numbers of the steps from where the run stands, each with its learning rate and its randomness set."""
        for step in self.run.steps(self.config.steps, **self.kept):
            for group, rate in zip(self.optimiser.param_groups, self._rates, strict=True):
                group["lr"] = rate * self.pace(step)
            if self.draw:
                self._drawn = self.draw(step)
            yield step

    def step(self, gradient: Tensor) -> None:
        """A step of the optimiser on a released gradient, already divided by the expected batch."""
        assign(self.net, gradient)
        self.optimiser.step()

    def average(self) -> None:
        """Take the present weights into the moving average, where there is one."""
        if self.ema:
            self.ema.update(self.averaged)
