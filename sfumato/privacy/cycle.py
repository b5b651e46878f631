"""What a crossing with correlated noise keeps from use to use: the key of its classes and its last noises.

Both are secret. They lie behind the barrier and travel in the checkpoint, which is private, with the counts that they
belong to. A run that went on without them would not be covered: with another key a unit could take part in two uses
that are less than a cycle apart, and once more than it is charged for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor


@dataclass
class Cycle:
    """Of one crossing; `past` is what was added in the uses before, the last one first, in steps of the grid."""

    key: bytes
    past: list[Tensor] = field(default_factory=list)

    def remember(self, noise: Tensor, most: int) -> None:
        """Take the noise of a use into the past, of which the last `most` are needed."""
        self.past = [noise, *self.past][:most]

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"key": torch.frombuffer(bytearray(self.key), dtype=torch.uint8), "past": list(self.past)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Cycle:
        """As it was."""
        return cls(bytes(state["key"].cpu().numpy().tobytes()), list(state["past"]))


_CYCLES: WeakKeyDictionary[Any, dict[str, Cycle]] = WeakKeyDictionary()


def cycles_of(odometer: Any) -> dict[str, Cycle]:
    """Those that belong to the counts of an odometer, by crossing; for the barrier and for checkpoints alone."""
    return _CYCLES.setdefault(odometer, {})
