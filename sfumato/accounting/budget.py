"""What a custodian grants: an (epsilon, delta) under a named relation and unit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

# Beyond these no budget means anything and the arithmetic of the accountants gives out.
EPSILONS = (1e-3, 1000.0)
DELTA = 1e-15


class Relation(StrEnum):
    """Which data sets count as neighbours."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


class Unit(StrEnum):
    """Whose presence is hidden: one record, or one person with all their records."""

    RECORD = "record"
    PERSON = "person"


@dataclass(frozen=True)
class Budget:
    """A privacy budget. Nothing in it is taken from data.

    >>> Budget(epsilon=1).delta
    1e-05
    """

    epsilon: float
    delta: float = 1e-5
    relation: Relation = Relation.ADD_REMOVE
    unit: Unit = Unit.RECORD

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"Expected epsilon to be a finite number above 0, found epsilon={self.epsilon}.")
        if not EPSILONS[0] <= self.epsilon <= EPSILONS[1]:
            raise ValueError(f"Expected epsilon from {EPSILONS[0]:g} to {EPSILONS[1]:g}, found epsilon={self.epsilon}.")
        if not DELTA <= self.delta < 1:
            raise ValueError(f"Expected delta from {DELTA:g} up to, not including, 1, found delta={self.delta}.")
        object.__setattr__(self, "relation", Relation(self.relation))
        object.__setattr__(self, "unit", Unit(self.unit))
