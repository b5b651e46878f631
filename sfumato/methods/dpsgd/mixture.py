"""DP-EM: a mixture of Gaussians for each class from noisy sufficient statistics (Park et al., AISTATS 2017).

E step  r_im = posterior of component m for record i, whose code z_i has length at most 1      inside the barrier
out     T_cm = sum over class c of (r_im, r_im z_i, r_im z_i^2) + N(0, sigma^2), once a round
M step  shares, means and variances from T alone, so that nothing but T is charged              post-processing
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sfumato.methods.dpsgd.scatter_matrix import STATISTICS, statistics
from sfumato.networks.generator import Generator
from sfumato.privacy.plan import BudgetShare

if TYPE_CHECKING:
    from sfumato.privacy.barrier import Barrier
    from sfumato.run.run import Run

Mixture = tuple[Tensor, Tensor, Tensor]  # shares (classes, M), means and deviations (classes, M, latent)
LEAST = 1e-3  # share of a component, and deviation, relative to the unit ball


def shares(rounds: int, share: float) -> dict[str, BudgetShare]:
    """One crossing a round; together they have `share` of the budget."""
    return {name(i): BudgetShare(STATISTICS, share / rounds) for i in range(rounds)}


def name(i: int) -> str:
    """The crossing of a round."""
    return f"mixture-{i + 1}"


def fit(
    encode: Callable[[Tensor, Tensor], Tensor], components: int, latent: int, rounds: int, barrier: Barrier, run: Run
) -> Mixture:
    """EM from a public start; `encode(images, labels)` must look at each record by itself."""
    query = statistics(encode, components, latent)
    classes = len(barrier.spec.classes)
    now = first(classes, components, latent, run)
    for i in range(rounds):

        def released(i: int = i, now: Mixture = now) -> Tensor:
            return barrier.release(name(i), query, *now)  # the barrier

        now = updated(run.once(name(i), released), now)
    return now


def first(classes: int, components: int, latent: int, run: Run) -> Mixture:
    """Means a little apart, of the size that codes have: 1/2 in length, as `reach` of the methods has it."""
    means = torch.randn(classes, components, latent, generator=run.generator("mixture"), dtype=torch.float64)
    means = means.to(run.device) * 0.25 / latent**0.5 * (components > 1)
    return torch.full_like(means[:, :, 0], 1 / components), means, torch.full_like(means, 0.5 / latent**0.5)


def updated(noisy: Tensor, before: Mixture) -> Mixture:
    """The M step; a component that noise left with less than one record stays where it was."""
    counts = noisy[:, :, 0]
    sums, squares = noisy[:, :, 1:].chunk(2, 2)
    alive = (counts >= 1)[:, :, None]
    size = counts.clamp(min=1)[:, :, None]
    means = torch.where(alive, (sums / size).clamp(-1, 1), before[1])
    variances = torch.where(alive, (squares / size - means.square()).clamp(LEAST**2, 1), before[2].square())
    shares = counts.clamp(min=0) + LEAST * counts.clamp(min=0).sum(1, keepdim=True) + 1e-6
    return shares / shares.sum(1, keepdim=True), means, variances.sqrt()


@torch.no_grad()
def place(net: Generator, mixture: Mixture, reach: float) -> None:
    """Give a decoder its mixture, which was found for codes divided by `reach`."""
    for name, value, scale in zip(("shares", "means", "deviations"), mixture, (1.0, reach, reach), strict=True):
        net.get_buffer(name).copy_(value * scale)
