"""One site of several: its records, its share of the noise, and what it keeps to go on after a crash.

A site sums over its own records as any barrier does, by the same projections, and hands out whole steps of the grid:
with its share of the noise, or as they are where a trusted coordinator adds all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import OverBudget
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.inside import Inside, Query
from sfumato.privacy.noise import Noise
from sfumato.privacy.partitions import PartitionHandle, PartitionSum, inside
from sfumato.privacy.plan import Crossing
from sfumato.privacy.shares import in_steps, most_numbers, share

Steps = NDArray[np.int64]


class OneOfSeveral(Inside):
    """The private side of a site; a sum over all sites is formed of what each of them gives."""

    def steps(self, name: str, query: Query, public: tuple[Any, ...], shares: int | None, charge: bool = True) -> Steps:
        """The sum over this site in steps, with one of `shares` shares of the noise; `None`: without noise.

        A question that was charged and whose answer was thrown away unread is asked again without a `charge`.
        """
        refuse_batch(name, query)
        crossing = self._charged(name, query) if charge else self._again(name, query)
        found = in_steps(self._on_grid(name, crossing, query, public), crossing)
        if shares is None:
            return found
        most = most_numbers(crossing, shares)
        if self.odometer.used[name] * found.size > most:  # an upper limit: what was handed out has this size or less
            raise OverBudget(f"Expected at most {most:,} numbers of crossing '{name}' with such noise, found more.")
        return found + share(found.shape, crossing, shares, self.noise)

    def _again(self, name: str, query: Query) -> Crossing:
        crossing = self.odometer.plan.crossings[name]
        if query.bound != crossing.bound or isinstance(query, PartitionSum) != crossing.held:
            raise ValueError(f"Expected the question of crossing '{name}' again, found another.")
        return crossing

    def counted(self) -> dict[str, Any]:
        """What was charged so far, to be kept."""
        return self.odometer.state_dict()

    def count_from(self, kept: Mapping[str, Any]) -> None:
        """Go on from what was charged before."""
        self.odometer.load_state_dict(kept)
        self._released = dict(self.odometer.used)

    def held_state(self, held: Mapping[int, PartitionHandle]) -> dict[str, Any]:
        """The private state of parts, for a checkpoint of this site."""
        return {str(number): inside(handle).state_dict() for number, handle in held.items()}

    def restore(self, held: PartitionHandle, state: Mapping[str, Any]) -> None:
        """As it was."""
        inside(held).load_state_dict(state)


def refuse_batch(name: str, query: Query) -> None:
    """A value of a whole sample is no sum over sites."""
    if isinstance(query, BatchValue):
        raise ValueError(
            f"Expected crossing '{name}' to be a sum over records or parts, found one value of a whole sample, which "
            "sites cannot form together; take another method."
        )


def noised(steps: Steps, crossing: Crossing, noise: Noise | None = None) -> Tensor:
    """The sum of all sites, off the grid; with the noise of the crossing where a trusted coordinator adds it."""
    total = torch.from_numpy(steps.astype(np.float64)) * crossing.bound.grid
    return total if noise is None else crossing.mechanism(total, crossing.bound, noise)


def central_noise() -> Noise:
    """The source of a trusted coordinator."""
    return Noise()
