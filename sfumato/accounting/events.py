"""What happened to the data, in absolute numbers: the only input of every accountant."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sfumato.accounting.budget import Relation


@dataclass(frozen=True)
class Event:
    """`times` noisy releases of a bounded sum.

    `sensitivity` is the L2 change that one unit can cause under `relation`; `bound` is the norm of one
    unit's term, which the subsampled pairs need instead. Both are absolute, as is `sigma`.
    `shift` describes the worst integer neighbour of a discrete query: (how many coordinates, by how much).
    """

    mechanism: Literal["gaussian", "discrete-gaussian"]
    sigma: float
    sensitivity: float
    bound: float
    relation: Relation
    rate: float = 1.0
    times: int = 1
    shift: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and self.sensitivity > 0 and self.bound > 0):
            raise ValueError(f"Expected sigma, sensitivity and bound above 0, found {self}.")
        if not 0 < self.rate <= 1 or self.times < 0:
            raise ValueError(f"Expected a rate in (0, 1] and times of at least 0, found {self}.")
        if self.mechanism == "discrete-gaussian" and self.rate < 1:
            raise ValueError("Expected rate=1 for a discrete Gaussian: its subsampled pair is not served.")

    @property
    def exact(self) -> bool:
        """Whether the event is a plain Gaussian, for which the closed formula is tight."""
        return self.mechanism == "gaussian" and self.rate == 1.0

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of all `times` together, before any amplification."""
        return math.sqrt(self.times) * self.sensitivity / self.sigma

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that `Event(**d)` turns back."""
        return asdict(self) | {"relation": str(self.relation), "shift": list(self.shift)}
