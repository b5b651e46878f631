"""Private kernel k-means (Acs et al. 2018): centres among random Fourier features, from noisy sums and counts.

phi(x)    random Fourier features of an image                                              ||phi(x)|| = 1
own(x)    the centre that is nearest to phi(x): a function of the record and of what was released before
out       class and phi(x) in the row of own(x), sqrt(2) long, + N(0, sigma^2), once a round
centres   sums over counts; a cluster that is left with few begins again beside the largest      post-processing

A record lies in one cluster, as it lies in one class: what is asked of clusters side by side costs as much as of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from sfumato.engine.random_fourier import RandomFourier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import BudgetShare

if TYPE_CHECKING:
    from sfumato.privacy.barrier import Barrier
    from sfumato.run.run import Run

ROWS = Bound(math.sqrt(2))
FEATURES = 200
BANDWIDTH = 0.25  # of a grey level: about how far two images of one kind are apart
APART = 0.3  # of a centre that begins from the one that it begins beside
FEW = 0.1  # of an equal share of the records, below which a cluster begins again


@dataclass(frozen=True)
class Clusters:
    """What was released: centres (clusters, features), and how likely each cluster is in a class."""

    phi: RandomFourier
    centres: Tensor
    choice: Tensor  # (classes, clusters)

    def own(self, images: Tensor, labels: Tensor) -> Tensor:
        """(n,) the cluster of each image, by itself."""
        return (self.centres.square().sum(1) - 2 * self.phi(images.double()) @ self.centres.T).argmin(1)


def shares(rounds: int, share: float) -> dict[str, BudgetShare]:
    """One crossing a round; together they have `share` of the budget."""
    return {name(i): BudgetShare(ROWS, share / rounds) for i in range(rounds)}


def name(i: int) -> str:
    """The crossing of a round."""
    return f"clusters-{i + 1}"


def fit(clusters: int, rounds: int, barrier: Barrier, run: Run) -> Clusters:
    """Rounds of k-means from a public start."""
    classes = len(barrier.spec.classes)
    phi = RandomFourier(barrier.spec.pixels, FEATURES, BANDWIDTH, run.generator("features")).to(run.device)
    now = Clusters(phi, APART * directions(clusters, run, 0), torch.zeros(classes, clusters))
    for i in range(rounds):
        query = BoundedSum(rows_of(now, classes), ROWS, (clusters, classes + FEATURES))

        def released(i: int = i, query: BoundedSum = query) -> Tensor:
            return barrier.release(name(i), query)  # the barrier

        noisy = run.once(name(i), released)
        now = updated(noisy, classes, FEW * barrier.spec.records / clusters, now, directions(clusters, run, i + 1))
    return now


def rows_of(now: Clusters, classes: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Each record's class and features, in the row of its cluster."""

    def rows(images: Tensor, labels: Tensor) -> Tensor:
        own = one_hot(now.own(images, labels), len(now.centres)).double()
        told = torch.cat([one_hot(labels, classes).double(), now.phi(images.double())], 1)
        return own[:, :, None] * told[:, None]

    return rows


def updated(noisy: Tensor, classes: int, few: float, before: Clusters, away: Tensor) -> Clusters:
    """New centres, and the share of each cluster in each class."""
    table = noisy[:, :classes].clamp(min=0)
    counts = noisy[:, :classes].sum(1, keepdim=True)
    means = noisy[:, classes:] / counts.clamp(min=1)
    beside = means[counts[:, 0].argmax()] + APART * away
    shares = table.T + 1e-6
    return Clusters(before.phi, torch.where(counts >= few, means, beside), shares / shares.sum(1, keepdim=True))


def directions(count: int, run: Run, round: int) -> Tensor:
    """Public vectors of length 1."""
    drawn = torch.randn(count, FEATURES, generator=run.generator("centres", round), dtype=torch.float64)
    return torch.nn.functional.normalize(drawn).to(run.device)
