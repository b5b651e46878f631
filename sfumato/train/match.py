"""Fit a generator to class-wise mean features."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from sfumato.generators import ConvGenerator
from sfumato.run.run import Run


def warm_cosine(step: int, steps: int) -> float:
    """A factor on the learning rate: up over the first twentieth, then down to nothing along a cosine."""
    warm = max(1, steps // 20)
    return min((step + 1) / warm, 0.5 + 0.5 * math.cos(math.pi * step / steps))


def match(
    net: ConvGenerator,
    target: Tensor,
    embed: Callable[[Tensor], Tensor],
    run: Run,
    *,
    steps: int,
    batch: int,
    rate: float,
) -> ConvGenerator:
    """Minimise the squared distance between `target` (classes, features) and the mean features of generated images.

    A row of NaN marks a class without a target; it is left out. `batch` images of each class are made a step.
    """
    served = torch.isfinite(target).all(1).nonzero()[:, 0]
    if not len(served):
        return net.eval()  # all that came through was noise
    target = target[served]
    optimiser = torch.optim.Adam(net.parameters(), lr=rate, betas=(0.5, 0.99))
    labels = served.repeat_interleave(batch)
    for step in run.steps(steps, net=net, optimiser=optimiser):
        optimiser.param_groups[0]["lr"] = rate * warm_cosine(step, steps)
        z = torch.randn(len(labels), net.latent, generator=run.generator("latents", step)).to(run.device)
        mean = embed(net(z, labels)).view(len(served), batch, -1).mean(1)
        # Features have norm 1, so the pairs of an image with itself are a constant: dropping them is this factor.
        own = mean.square().sum(1) * batch / (batch - 1)
        loss = (own - 2 * (mean * target).sum(1)).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
    return net.eval()
