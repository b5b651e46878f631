"""What methods share whose generator is itself trained by DP-SGD: settings, one crossing for all steps, its claim."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from sfumato.accounting.budget import Relation
from sfumato.accounting.claims import Claim, dp_sgd
from sfumato.accounting.claims.sampled_gaussian import SOUND
from sfumato.engine import label_histogram
from sfumato.engine.dpsgd import GRADIENT, DPSGDConfig
from sfumato.methods.base import Method
from sfumato.methods.settings import count, setting
from sfumato.privacy.banded import MOST
from sfumato.privacy.plan import Crossing, Plan
from sfumato.types import DataSpec

CORRELATED = "Noise of a step takes back a part of that of the steps before it, and records take turns by classes."


@dataclass(frozen=True, kw_only=True)
class DPSGDMethod(Method):
    """Poisson samples, clipped gradients, Adam and averaged weights; a network and a loss make a method of it."""

    steps: int = count(1000, "T, steps of DP-SGD")
    batch: int = count(1024, "B, expected records of a step; of a smaller set, a quarter")
    clip: float = setting(1.0, "C, clipping norm of a record's gradient", above=0, below=1e6)
    learning_rate: float = setting(2e-3, "eta, of Adam", above=0, high=1)
    ema_decay: float = setting(0.999, "of the averaged weights", low=0, below=1)
    bands: int = count(
        1, "b, steps over which noise is correlated; 1: each step's own; of a small set, fewer", high=MOST
    )
    bfloat16: bool = setting(False, "forward and backward passes in bfloat16; norms and sums stay in float32")

    reason: ClassVar[str] = SOUND  # what is to be said of the paper's own accounting

    @abstractmethod
    def loss(self, net: Any, images: Tensor, labels: Tensor, keys: Tensor, copy: Tensor) -> Tensor:
        """One number a row, of that row alone; `keys` and `copy` are those of `record_rng.drawing`."""

    def dpsgd(self, spec: DataSpec) -> DPSGDConfig:
        """Steps, batch and clip; a set smaller than four batches gives a quarter of its records."""
        batch = min(self.batch, max(1, spec.records // 4))
        # A class must be larger than a batch.
        bands = max(1, min(self.bands, self.steps, (spec.records - 1) // batch))
        return DPSGDConfig(self.steps, batch, self.clip, bands)

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {GRADIENT: self.dpsgd(spec).crossing(spec, z)}

    def facts(self, plan: Plan) -> dict[str, Any]:
        z = plan.crossings[GRADIENT].mechanism.multiplier
        sgd = self.dpsgd(plan.data)
        found = {"steps": self.steps, "batch": sgd.batch, "noise": z}
        return found | ({"bands": sgd.bands, "noise_of_sums": z * sgd.noise_of_sums} if sgd.bands > 1 else {})

    def stated_deviations(self) -> tuple[str, ...]:
        return (*super().stated_deviations(), CORRELATED) if self.bands > 1 else super().stated_deviations()

    def claim(self, plan: Plan) -> Claim:
        gradient = plan.crossings[GRADIENT]
        others = {name: c for name, c in plan.crossings.items() if name not in (GRADIENT, label_histogram.CROSSING)}
        also = [c.event(Relation.ADD_REMOVE) for c in others.values()]
        event = gradient.event(Relation.ADD_REMOVE)
        z = gradient.mechanism.multiplier / self.dpsgd(plan.data).column_norm
        return dp_sgd(gradient.sampler.rate, z, event.times, plan.budget.delta, reason=self.reason, also=also)

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        sgd = self.dpsgd(plan.data)
        batch = sgd.batch
        z = plan.crossings[GRADIENT].mechanism.multiplier * sgd.noise_of_sums
        if z <= batch / 20:
            return ()
        return (
            f"The noise of a step is {z:.3g} clipping norms, for a batch of {batch}; take a larger batch, fewer steps, "
            "more data or a larger epsilon.",
        )
