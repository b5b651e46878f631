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

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sfumato.accounting.budget import Budget
from sfumato.accounting.calibrate import most_times
from sfumato.accounting.claims import topagg
from sfumato.classify.features import NAMES
from sfumato.classify.networks import NETWORKS, Architecture, Network, build
from sfumato.engine.dpsgd import GRADIENT, DPSGDConfig, descend
from sfumato.engine.gradients.clipping import Clip, Flat, TopK
from sfumato.evaluate.features import fingerprint
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import Plan, within
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
class Classifier:
    """Public settings. The defaults are those of scattering features for a set of some ten thousand images."""

    network: str = "scattering"  # "cnn", "features", "linear"
    features: str = "efficientnet-lite0"  # of network="features": "resnet18", "inception"
    weights: str = ""  # file of that public network
    steps: int = 60
    epochs: float = 0.0  # in place of steps
    sigma: float = 0.0  # over sqrt(k) C, with as many steps as the budget allows; 0: the least that the steps allow
    batch: int = 4096  # expected
    clip: float = 0.1  # C
    learning_rate: float = 32.0
    momentum: float = 0.9
    decay: float = 0.0  # of the weights, a step
    ema_decay: float = 0.0  # decay of the averaged weights
    k: float = 1.0  # 1: GM-DP
    by: str = "norm"  # or "dimension"
    groups: int = 27  # of the 81 maps of scattering
    centre: float = 0.1  # of the pixels of network=cnn and network=linear, with `spread`
    spread: float = 0.3

    name: ClassVar[str] = "classifier"
    stand_ins: ClassVar[tuple[str, ...]] = ("network",)  # frozen features of a public network

    def __post_init__(self) -> None:
        for name, allowed in (("network", NETWORKS), ("features", NAMES), ("by", tuple(BY))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"Expected {name}={f' or {name}='.join(allowed)}, found {name}={getattr(self, name)}.")
        for name, least, most in (
            ("steps", 1, 1e6),
            ("epochs", 0, 1e4),
            ("sigma", 0, 1e6),
            ("batch", 1, 1e6),
            ("clip", 1e-9, 1e9),
            ("learning_rate", 1e-9, 1e6),
            ("decay", 0, 1),
            ("k", 1e-6, 1),
            ("spread", 1e-6, 1e6),
            ("centre", -1e6, 1e6),
        ):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"Expected {name} from {least:g} to {most:g}, found {name}={getattr(self, name)}.")
        if 0 < self.sigma < LEAST:
            raise ValueError(f"Expected sigma as 0 or at least {LEAST}, found sigma={self.sigma}.")
        for name in ("momentum", "ema_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"Expected {name} from 0 to below 1, found {name}={getattr(self, name)}.")
        if self.groups not in (1, 3, 9, 27, 81):
            raise ValueError(f"Expected groups as a divisor of 81, found groups={self.groups}.")

    def settings(self) -> dict[str, Any]:
        """All of them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def small(self) -> Classifier:
        """As it is, since an audit takes few steps; but a public network is left to the validator of gradients."""
        return replace(self, network="linear") if self.network == "features" else self

    def clipping(self) -> Clip:
        """How one example's gradient is shortened."""
        return Flat(self.clip) if self.k == 1 else TopK(self.clip, self.k, BY[self.by])

    def descent(self, spec: DataSpec, steps: int) -> DPSGDConfig:
        """So many steps of DP-SGD on data of this description."""
        return DPSGDConfig(steps, min(self.batch, spec.records), self.clipping())

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        """Every step, within `budget`, from public facts alone."""
        if self.sigma:
            spent = lambda steps: self.plan_at(spec, budget, self.sigma, steps).events()  # noqa: E731
            most = most_times(spent, budget.epsilon, budget.delta)
            if not most:
                raise ValueError(f"Expected a larger sigma or budget: one step at sigma={self.sigma} exceeds it.")
            return self._told(self.plan_at(spec, budget, self.sigma, most))
        return self._told(within(budget, lambda sigma: self.plan_at(spec, budget, sigma, self.wanted(spec))))

    def wanted(self, spec: DataSpec) -> int:
        """Steps as set, directly or in epochs."""
        each = max(1.0, spec.records / self.batch)
        return max(1, round(self.epochs * each)) if self.epochs else self.steps

    def plan_at(self, spec: DataSpec, budget: Budget, sigma: float, steps: int) -> Plan:
        """The plan at a noise that was chosen, whatever it costs."""
        crossings = {GRADIENT: self.descent(spec, max(1, steps)).crossing(spec, sigma)}
        if not steps:
            crossings = {GRADIENT: replace(crossings[GRADIENT], times=0)}
        deviations = (*DEVIATIONS, CONSTANTS) if self.network == "cnn" else DEVIATIONS
        return Plan(
            self.name,
            self.settings(),
            spec,
            budget,
            crossings,
            deviations=deviations,
            labels={"kind": "none", "weights": None},
            facts={"steps": steps, "sigma": sigma},
        )

    def _told(self, plan: Plan) -> Plan:
        """The plan with the paper's own figure beside it."""
        made = plan.crossings[GRADIENT]
        sigma = plan.facts["sigma"]
        steps = plan.facts["steps"]
        return replace(plan, paper=topagg(made.sampler.rate, sigma, steps, plan.budget.delta))

    def build(self, spec: DataSpec, run: Run | None = None) -> Network:
        """The network before its first step."""
        public = self.features if self.network == "features" else ""
        made = Architecture(self.network, spec.shape, spec.classes, self.groups, self.centre, self.spread, public)
        net = build(made, weights=self.weights or None, random=run.generator("weights") if run else None)
        if public:
            net.made = replace(made, fingerprint=fingerprint(net.body))
        return net.to(run.device) if run else net

    def learn(self, barrier: Barrier, run: Run, public: Any = None) -> Network:
        """Train; whatever depends on private data comes out of `barrier.release`, inside `descend`."""
        net = self.build(barrier.spec, run)
        mean = None
        descent = self.descent(barrier.spec, barrier.plan.facts["steps"])
        optimiser = torch.optim.SGD(
            net.head.parameters(), lr=self.learning_rate, momentum=self.momentum, weight_decay=self.decay
        )
        for _, now in descend(net, loss, barrier, run, descent, optimiser, ema_decay=self.ema_decay):  # the barrier
            mean = now
        if mean is not None:
            mean.put(net)
        return net


def loss(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """One number an image."""
    return cross_entropy(net(images), labels, reduction="none")
