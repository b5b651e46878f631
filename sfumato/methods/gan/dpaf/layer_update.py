"""Lower layers that learn along public slopes: their question, and their step on its answer.

u       the clipping norm, counted in the mean norm l of the fakes' gradients along v where it is `relative`: public
query   sum over records of clip_u(gradient of <SIN(f_i), v / l>)       what is released, times l
step    of Adam on released / batch + the same mean of fakes along their own slope, without noise
"""

from __future__ import annotations

import torch
from torch import Tensor

from sfumato.engine.adversarial import Labelled
from sfumato.engine.dpsgd import DPSGDConfig
from sfumato.engine.gradients.per_example import ClippedGradient, assign
from sfumato.methods.gan.dpaf.aggregation import along
from sfumato.methods.gan.dpaf.discriminator import Lower

LEAST = 1e-12  # of a norm to divide by


class LayerUpdate:
    """Those layers of `net` that learn: conv2*, or conv1 where it learns in the game."""

    def __init__(
        self,
        net: Lower,
        optimiser: torch.optim.Optimizer,
        config: DPSGDConfig,
        *,
        relative: bool = True,
        bfloat16: bool = False,
    ) -> None:
        self.net = net
        self.optimiser = optimiser
        self.batch = config.batch
        self.relative = relative
        self.query: ClippedGradient = config.query(net, along(), bfloat16=bfloat16)

    @torch.no_grad()
    def scaled(self, v: Tensor, fakes: Labelled) -> tuple[Tensor, Tensor]:
        """The mean norm of the fakes' gradients along v, which is public, and v divided by it."""
        if not self.relative:
            return v.new_ones(()), v
        norm = self.query.norms(*fakes, v).mean()
        length = norm.clamp(min=LEAST).where(norm.isfinite(), 1.0)  # a tensor still: nobody waits for the device
        return length, v / length.to(v)

    def step(self, released: Tensor, of_fakes: Tensor, fakes: Labelled) -> None:
        """One step on a released sum of records' gradients and plain gradients of fakes along their own slope."""
        length, v = self.scaled(of_fakes, fakes)
        with torch.no_grad():
            free = length * self.query.total(*fakes, v) / len(fakes[1])
        self.optimiser.zero_grad(set_to_none=True)
        assign(self.net, released / self.batch + free)
        self.optimiser.step()
