"""A classifier trained by DP-SGD, where wanted with TopAgg (DataLens, Algorithm 4). The barrier sits in its gradient.

    S      a Poisson sample of the records, each with probability q = batch / records
    h_x    top-k of the gradient of x's loss: the largest coordinates, as long as their energy stays at or below
           k ||g_x||^2 (by "norm"), or k of their number (by "dimension"); then shortened to sqrt(k) C
    G      sum over S of h_x + N(0, k C^2 sigma^2)                                          the crossing "gradient"
    step   of SGD with momentum on G / batch

One record moves the sum by at most sqrt(k) C (replace-one: twice that). At k = 1 this is GM-DP, ordinary DP-SGD. Both
the gradient's energy and the noise shrink with k: there is no gain in the bound itself, only in what is left out.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("fashion-mnist", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = Classifier().plan(spec, Budget(epsilon=1))
    >>> plan.facts["steps"], round(plan.facts["sigma"], 1), round(plan.epsilon(), 2)
    (60, 2.3, 1.0)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sfumato.accounting.budget import Budget
from sfumato.accounting.calibrate import most_times
from sfumato.accounting.claims import Claim, topagg
from sfumato.accounting.events import AnyEvent
from sfumato.classify.method import NetworkTraining
from sfumato.classify.networks import Network
from sfumato.data.public import PublicImages
from sfumato.engine.dpsgd import DPSGD, GRADIENT, DPSGDConfig
from sfumato.engine.gradients.clipping import Clip, Flat
from sfumato.engine.gradients.topk import TopK
from sfumato.methods.settings import count, setting
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import Crossing, Plan, events_of
from sfumato.run.run import Run
from sfumato.types import DataSpec

LEAST = 0.3  # noise over sensitivity; below it no step is worth its cost, and accountants lose their footing
BY = {"norm": "energy", "dimension": "count"}
DEVIATIONS = (
    "Sparsified first and clipped to sqrt(k) C then, which uses the whole bound; Algorithm 4 clips first.",
    "A step is a Poisson sample; Algorithm 4 calls a step an epoch.",
    "Exact accounting (privacy loss distributions) in place of the paper's Renyi bound.",
)
CONSTANTS = "Pixels are scaled by fixed constants; the paper's code uses MNIST's mean and spread."


@dataclass(frozen=True, kw_only=True)
class Classifier(NetworkTraining):
    """Public settings. The defaults are those of scattering features for a set of some ten thousand images."""

    steps: int = count(60, "steps of DP-SGD")
    epochs: float = setting(0.0, "in place of steps, where above 0", low=0, high=1e4)
    sigma: float = setting(
        0.0,
        "over sqrt(k) C, with as many steps as the budget allows; 0: the least that the steps allow",
        low=0,
        high=1e6,
    )
    batch: int = count(4096, "expected records of a step")
    clip: float = setting(0.1, "C, clipping norm", low=1e-9, high=1e9)
    learning_rate: float = setting(32.0, "of SGD", low=1e-9, high=1e6)
    momentum: float = setting(0.9, "of SGD", low=0, below=1)
    decay: float = setting(0.0, "of the weights, a step", low=0, high=1)
    ema_decay: float = setting(0.0, "of the averaged weights; 0: the last ones", low=0, below=1)
    k: float = setting(1.0, "of TopAgg; 1: GM-DP", low=1e-6, high=1)
    by: str = setting("norm", "what k is a share of", choices=tuple(BY))

    name: ClassVar[str] = "classifier"
    family: ClassVar[str] = "classifier, trained by DP-SGD"
    paper: ClassVar[str] = "Wang et al.: DataLens (CCS 2021), Algorithm 4"
    framework: ClassVar[str] = "DP-SGD"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def contradictions(self) -> Iterator[str]:
        if 0 < self.sigma < LEAST:
            yield f"Expected sigma as 0 or at least {LEAST}, found sigma={self.sigma}."
        yield from super().contradictions()

    def small(self) -> Classifier:
        """As it is, since an audit takes few steps; but a public network is left to the validator of gradients."""
        return replace(self, network="linear") if self.network == "features" else self

    def clipping(self) -> Clip:
        """How one example's gradient is shortened."""
        return Flat(self.clip) if self.k == 1 else TopK(self.clip, self.k, BY[self.by])

    def dpsgd(self, spec: DataSpec, steps: int) -> DPSGDConfig:
        """So many steps of DP-SGD on data of this description."""
        return DPSGDConfig(steps, min(self.batch, spec.records), self.clipping())

    def wanted(self, spec: DataSpec) -> int:
        """Steps as set, directly or in epochs."""
        each = max(1.0, spec.records / self.batch)
        return max(1, round(self.epochs * each)) if self.epochs else self.steps

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {GRADIENT: self.dpsgd(spec, self.wanted(spec)).crossing(spec, z)}

    def calibrated(self, spec: DataSpec, budget: Budget, taken: Mapping[str, Crossing]) -> Mapping[str, Crossing]:
        """The least noise for the steps, or the most steps at a given noise."""
        if not self.sigma:
            return super().calibrated(spec, budget, taken)

        def at(steps: int) -> dict[str, Crossing]:
            return {GRADIENT: self.dpsgd(spec, steps).crossing(spec, self.sigma)}

        def events(steps: int) -> Sequence[AnyEvent]:
            return events_of({**taken, **at(steps)}, budget.relation)

        most = most_times(events, budget.epsilon, budget.delta)
        if not most:
            raise ValueError(f"Expected a larger sigma or budget: one step at sigma={self.sigma} exceeds it.")
        return at(most)

    def plan_at(self, spec: DataSpec, budget: Budget, sigma: float, steps: int) -> Plan:
        """The plan at a noise and a number of steps that were chosen, whatever they cost; for trials."""
        crossings = {GRADIENT: self.dpsgd(spec, steps).crossing(spec, sigma)}
        plan = Plan(self.name, self.settings(), spec, budget, crossings, labels=self.label_facts())
        return replace(plan, facts=self.facts(plan), deviations=self.stated_deviations())

    def facts(self, plan: Plan) -> dict[str, Any]:
        gradient = plan.crossings[GRADIENT]
        return {"steps": gradient.times, "sigma": gradient.mechanism.multiplier}

    def claim(self, plan: Plan) -> Claim:
        gradient = plan.crossings[GRADIENT]
        return topagg(gradient.sampler.rate, gradient.mechanism.multiplier, gradient.times, plan.budget.delta)

    def stated_deviations(self) -> tuple[str, ...]:
        return (*self.deviations, CONSTANTS) if self.network == "cnn" else self.deviations

    def learn(  # type: ignore[override]  # what is released is a network that classifies, and no generator
        self, barrier: Barrier, run: Run, public: PublicImages | None = None
    ) -> Network:
        net = self.build(barrier.spec, run)
        optimiser = torch.optim.SGD(
            net.head.parameters(), lr=self.learning_rate, momentum=self.momentum, weight_decay=self.decay
        )
        dpsgd = self.dpsgd(barrier.spec, barrier.plan.facts["steps"])
        sgd = DPSGD(net, loss, run, dpsgd, optimiser, ema_decay=self.ema_decay)
        for _ in sgd.steps():
            G = barrier.release(GRADIENT, sgd.query)  # the barrier
            sgd.step(G / dpsgd.batch)
            sgd.average()
        if sgd.ema:
            sgd.ema.put(net)
        return net


def loss(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """One number an image."""
    return cross_entropy(net(images), labels, reduction="none")
