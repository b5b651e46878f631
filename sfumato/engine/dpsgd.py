"""DP-SGD: each step releases a noisy sum of clipped gradients; any optimiser takes it from there.

S      a Poisson sample of the records, each with probability q = batch / records      (empty ones are steps too)
G      sum over S of clip(gradient of the loss of record i) + N(0, (z C)^2)            the crossing "gradient"
step   of an ordinary optimiser on G / batch: the divisor is public

With `bands` b above 1 the noise of a step takes back a part of that of the last b - 1 (`privacy.banded`): records have
one of b classes, step t draws from class t modulo b, each record of it with probability b batch / records.

A method's loop is

    for _ in sgd.steps():
        G = barrier.release(GRADIENT, sgd.query)  # the barrier
        sgd.step(G / config.batch)
        sgd.average()

Of several networks that learn one after the other, each by a crossing of its own, `in_stages` makes one loop.
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
from sfumato.privacy.banded import Banded
from sfumato.privacy.mechanisms import BandedGaussian
from sfumato.privacy.plan import Crossing, crossing
from sfumato.privacy.samplers import CyclicPoisson, FullBatch, Poisson

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
    bands: int = 1  # of the noise; 1: that of each step by itself

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 1:
            raise ValueError(f"Expected steps and batch of at least 1, found {self.steps} and {self.batch}.")

    @property
    def matrix(self) -> Banded:
        """C, of the noise."""
        return Banded.best(self.bands, self.steps)

    @property
    def column_norm(self) -> float:
        """What a record's gradient is stretched by before it is charged for."""
        return self.matrix.column_norm(self.steps)

    @property
    def noise_of_sums(self) -> float:
        """Of the sums of all gradients so far, which the weights follow: the noise, over that of independent steps."""
        return self.matrix.prefix_error(self.steps) if self.bands > 1 else 1.0

    def crossing(self, spec: DataSpec, multiplier: float) -> Crossing:
        """The crossing of all steps; `multiplier` is sigma over the clipping norm."""
        bound = bound_for(self.clip, self.batch)
        rate = self.bands * self.batch / spec.records
        if self.bands > 1:
            return Crossing(bound, BandedGaussian(multiplier, self.matrix), CyclicPoisson(rate, self.bands), self.steps)
        return crossing(bound, multiplier, Poisson(rate) if rate < 1 else FullBatch(), self.steps)

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
            self.begin(step)
            yield step
            self.end(step)

    def begin(self, step: int) -> None:
        """Set the learning rate and the randomness of a step."""
        for group, rate in zip(self.optimiser.param_groups, self._rates, strict=True):
            group["lr"] = rate * self.pace(step)
        if self.draw:
            self._drawn = self.draw(step)

    def end(self, step: int) -> None:
        """What comes after a step, such as a preview."""

    def step(self, gradient: Tensor) -> None:
        """A step of the optimiser on a released gradient, already divided by the expected batch."""
        assign(self.net, gradient)
        self.optimiser.step()

    def average(self) -> None:
        """Take the present weights into the moving average, where there is one."""
        if self.ema:
            self.ema.update(self.averaged)


def in_stages(trainings: Mapping[str, DPSGD]) -> Iterator[tuple[str, DPSGD]]:
    """Networks that learn one after the other, in one run: at each step the crossing, and whose step it is."""
    steps = [(name, sgd, step) for name, sgd in trainings.items() for step in range(sgd.config.steps)]
    starts = [number for number, (_, _, step) in enumerate(steps) if step == 0]
    state = {f"{name}-{key}": value for name, sgd in trainings.items() for key, value in sgd.kept.items()}
    for number in steps[0][1].run.steps(len(steps), stages=starts, **state):
        name, sgd, step = steps[number]
        sgd.begin(step)
        yield name, sgd
        sgd.end(step)
