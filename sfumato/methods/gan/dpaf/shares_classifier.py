"""The classifier of DPAF as printed (Algorithm 1, lines 2 to 5), from which conv1 is taken. It is not private.

C = conv1, conv2, AGG, conv3, FC      the share of each class in a batch, from one sum
L_MSE                                 its distance from the true shares
conv2, conv3, FC                      plain steps
conv1                                 steps on clipped gradients with noise, through those layers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.engine.generator_dpsgd import seeded
from sfumato.engine.gradients.per_example import assign
from sfumato.methods.gan.dpaf.aggregation import along, normalised
from sfumato.methods.gan.dpaf.discriminator import Upper

if TYPE_CHECKING:
    from sfumato.engine.dpsgd import DPSGDConfig
    from sfumato.methods.gan.dpaf.dpaf import DPAF
    from sfumato.run.run import Run
    from sfumato.types import DataSpec


class SharesClassifier:
    """C with its optimisers; `clipping` is false to see what it does."""

    def __init__(self, method: DPAF, spec: DataSpec, run: Run, config: DPSGDConfig, clipping: bool = True) -> None:
        self.classes = len(spec.classes)
        self.clipping = clipping
        self.lower = seeded(run, lambda: method.discriminator(spec, None)).lower
        self.head = seeded(run, lambda: ClassShares(method, spec, self.classes))
        rest = [*self.lower.conv2.parameters(), *self.head.parameters()]
        self.plain = torch.optim.Adam(rest, lr=method.critic_learning_rate)
        self.first = torch.optim.Adam(self.lower.conv1.parameters(), lr=method.critic_learning_rate)
        self.lower.requires_grad_(False).conv1.requires_grad_(True)
        self.query = config.query(self.lower, along())  # of conv1
        self.lower.requires_grad_(True)

    def step(self, images: Tensor, labels: Tensor, noise: float, drawn: Callable[[Tensor], Tensor]) -> None:
        """Lines 3 and 4, on one batch."""
        nobody = torch.full_like(labels, -1)  # C is not told what it is to find out
        sums = normalised(self.lower(images, nobody)).mean(0, keepdim=True)
        share = F.one_hot(labels, self.classes).float().mean(0)
        loss = F.mse_loss(self.head(sums), share[None])
        for optimiser in (self.plain, self.first):
            optimiser.zero_grad(set_to_none=True)
        (slope,) = torch.autograd.grad(loss, sums, retain_graph=True)
        torch.autograd.backward(loss)
        if self.clipping:
            self._clipped(images, nobody, slope, noise, drawn)
        self.plain.step()
        self.first.step()

    def _clipped(
        self, images: Tensor, labels: Tensor, slope: Tensor, noise: float, drawn: Callable[[Tensor], Tensor]
    ) -> None:
        """What the paper calls DPSGD of conv1: clipped terms along a slope that is nobody's own."""
        self.lower.conv2.requires_grad_(False)
        with torch.no_grad():
            total = self.query.total(images, labels, slope)
            assign(self.lower, (total + noise * self.query.bound.norm * drawn(total)) / len(labels))
        self.lower.conv2.requires_grad_(True)


class ClassShares(nn.Module):
    """conv3 and FC of the classifier: the share of each class in a batch, from one sum."""

    def __init__(self, method: DPAF, spec: DataSpec, classes: int) -> None:
        super().__init__()
        layout = method.config(spec).layout
        self.body = Upper(spec.shape, classes, layout, method.critic_width, method.features, method.hidden)
        last = self.body.fc[-1]
        assert isinstance(last, nn.Linear)
        self.body.fc[-1] = nn.Linear(last.in_features, classes)

    def forward(self, sums: Tensor) -> Tensor:
        shares: Tensor = self.body.fc(self.body.conv3(sums).flatten(1))
        return shares
