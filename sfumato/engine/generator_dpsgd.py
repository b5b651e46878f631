"""What methods share whose generator is itself trained by DP-SGD (site B4): their plan, their network, their end."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from sfumato.accounting.budget import Budget, Relation
from sfumato.accounting.claims import dp_sgd
from sfumato.accounting.gaussian import mu_of
from sfumato.engine import label_histogram
from sfumato.engine.dpsgd import GRADIENT, DPSGDConfig, descend
from sfumato.engine.ema import EMA
from sfumato.engine.gradients.per_example import Loss
from sfumato.networks.generator import Generator
from sfumato.privacy.bounds import AnyBound
from sfumato.privacy.plan import Crossing, Plan, crossing, within
from sfumato.record_rng import drawing
from sfumato.run.preview import Preview

if TYPE_CHECKING:
    from sfumato.methods.base import Method
    from sfumato.privacy.barrier import Barrier
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

Made = TypeVar("Made", bound=nn.Module)
PUBLIC = "{} ordinary steps on public images, where some are given, come before the first private one and cost nothing"


@dataclass(frozen=True)
class BudgetShare:
    """A crossing beside the gradients that gets a fixed part of the budget, counted in squared mu."""

    bound: AnyBound
    share: float
    times: int = 1

    def crossing(self, budget: Budget) -> Crossing:
        """With the noise at which all its uses have mu^2 = share * mu(budget)^2."""
        mu = math.sqrt(self.share) * mu_of(budget.epsilon, budget.delta)
        sigma = self.bound.sensitivity(budget.relation) * math.sqrt(self.times) / mu
        return crossing(self.bound, sigma / self.bound.norm, times=self.times)


def plan(
    method: Method,
    descent: DPSGDConfig,
    spec: DataSpec,
    budget: Budget,
    *,
    deviations: tuple[str, ...],
    parts: Mapping[str, BudgetShare] | None = None,
    warm: int = 0,
    **claim: Any,
) -> Plan:
    """The label histogram and other parts at their shares, and gradients with the least noise for what is left."""
    others = dict(parts or {})
    if method.labels.kind == "private":
        assert method.labels.fraction is not None
        rest = 1 - method.labels.fraction
        others = {name: replace(part, share=part.share * rest) for name, part in others.items()}
        others[label_histogram.CROSSING] = BudgetShare(label_histogram.VOTE, method.labels.fraction)
    fixed = {name: part.crossing(budget) for name, part in others.items()}

    def at(noise: float) -> Plan:
        return Plan(
            method.name,
            method.settings(),
            spec,
            budget,
            {**fixed, GRADIENT: descent.crossing(spec, noise)},
            labels=label_histogram.describe(method.labels),
            deviations=deviations,
        )

    made = within(budget, at)
    gradient = made.crossings[GRADIENT]
    also = [c.event(Relation.ADD_REMOVE) for name, c in fixed.items() if name != label_histogram.CROSSING]
    multiplier = gradient.mechanism.multiplier
    rate = gradient.sampler.rate
    facts = {"steps": descent.steps, "batch": descent.batch, "noise": multiplier}
    return replace(
        made,
        facts=facts | ({"public": PUBLIC.format(warm)} if warm else {}),
        paper=dp_sgd(rate, multiplier, descent.steps, budget.delta, also=also, **claim),
        warnings=(*made.warnings, *_warnings(spec, descent, multiplier)),
    )


def _warnings(spec: DataSpec, descent: DPSGDConfig, multiplier: float) -> tuple[str, ...]:
    if descent.batch > spec.records:
        return (f"A batch of {descent.batch} is more than all {spec.records} records; take a smaller one.",)
    if multiplier > descent.batch / 20:
        return (
            f"The noise of a step is {multiplier:.3g} clipping norms, for a batch of {descent.batch}; take a "
            "larger batch, fewer steps, more data or a larger epsilon.",
        )
    return ()


def seeded(run: Run, make: Callable[[], Made]) -> Made:
    """A network whose first weights depend on the run's seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        return make().to(run.device)


def finished(net: Generator, average: EMA | None) -> Generator:
    """A copy with the averaged weights, ready to sample."""
    net = copy.deepcopy(net)
    if average and average.count:
        average.put(net)
    return net.eval()


def train(
    net: nn.Module,
    loss: Loss,
    barrier: Barrier,
    run: Run,
    descent: DPSGDConfig,
    *,
    learning_rate: float,
    ema_decay: float,
    pace: Callable[[int], float],
    noise_multiplicity: int = 1,
    bfloat16: bool = False,
    generator: Generator | None = None,
    parameters: Iterable[nn.Parameter] | None = None,
) -> Generator:
    """All steps by Adam, with previews. Each record brings its own randomness. `generator` is the part to release."""
    made: Any = generator or net
    mean = EMA(made, ema_decay) if ema_decay else None
    optimiser = torch.optim.Adam(parameters or net.parameters(), lr=learning_rate, betas=(0.9, 0.99))
    preview = Preview(run, made, barrier.spec)
    keep = {"preview": preview} | ({"mean": mean} if mean else {})
    for step, _ in descend(
        net,
        loss,
        barrier,
        run,
        descent,
        optimiser,
        pace=pace,
        noise_multiplicity=noise_multiplicity,
        bfloat16=bfloat16,
        draw=drawing(run.generator, noise_multiplicity),
        keep=keep,
    ):
        if mean:
            mean.update(made)
        preview.snapshot(step, descent.steps, lambda: finished(made, mean))
    return finished(made, mean)


@torch.no_grad()
def place(net: Generator, mixture: tuple[Tensor, Tensor, Tensor], reach: float) -> None:
    """Give a decoder its mixture, which was found for codes divided by `reach`."""
    for name, value, scale in zip(("shares", "means", "deviations"), mixture, (1.0, reach, reach), strict=True):
        net.get_buffer(name).copy_(value * scale)
