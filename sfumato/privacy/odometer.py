"""The odometer of one run: each crossing is written down before it happens, and one too many is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from torch import Tensor

from sfumato.accounting import accountant
from sfumato.accounting.events import AnyEvent
from sfumato.errors import OverBudget
from sfumato.privacy.cycle import Cycle, cycles_of
from sfumato.privacy.plan import Crossing, Plan

FEW = 16  # uses up to which the answers of a crossing are remembered by their hashes


class Odometer:
    """Counts crossings against a plan.

    The draws of noise and the counts cannot drift apart: the barrier draws only after `charge` returned. `began` is
    called once, before the first use is counted: what it makes durable is on the disk before a record is read, and
    where it raises nothing crosses.
    """

    def __init__(self, plan: Plan, began: Callable[[], None] | None = None) -> None:
        self.plan = plan
        self._began = began
        self._used = dict.fromkeys(plan.crossings, 0)
        self._answers: set[str] = set()
        self._shown: tuple[tuple[int, ...], float] = ((), 0.0)

    @property
    def used(self) -> Mapping[str, int]:
        """How often each crossing was used; to be read."""
        return MappingProxyType(self._used)

    def charge(self, name: str, uses: int = 1) -> Crossing:
        """Count one use, or several at once, of a planned crossing."""
        if name not in self.used:
            raise OverBudget(f"Expected a planned crossing ({', '.join(self.used)}), found '{name}'.")
        planned = self.plan.crossings[name]
        if uses < 1:
            raise ValueError(f"Expected at least one use of crossing '{name}', found {uses}.")
        if self._used[name] + uses > planned.times:
            more = "one" if uses == 1 else str(uses)
            raise OverBudget(f"Expected at most {planned.times} uses of crossing '{name}', found {more} more.")
        if self._began is not None:
            self._began()
            self._began = None
        self._used[name] += uses
        return planned

    @property
    def complete(self) -> bool:
        """Whether every planned crossing was used as often as planned."""
        return all(self.used[name] == c.times for name, c in self.plan.crossings.items())

    def epsilon(self) -> float:
        """Epsilon of what was used so far, at the plan's delta."""
        counts = tuple(self.used.values())
        if counts != self._shown[0]:
            self._shown = (counts, _spent(self.plan.events(used=self.used), self.plan.budget.delta))
        return self._shown[1]

    def answered(self, name: str, answer: Tensor) -> None:
        """Remember by a hash what the barrier returned, where it is asked so seldom that a run may keep the answer."""
        if self.plan.crossings[name].times <= FEW:
            self._answers.add(_digest(answer))

    def returned(self, value: Tensor) -> bool:
        """Whether this is, to the bit, an answer of the barrier."""
        return _digest(value) in self._answers

    def state_dict(self) -> dict[str, Any]:
        """Counts and hashes, for a checkpoint; and what correlated noise goes on from."""
        cycles = {name: cycle.state_dict() for name, cycle in cycles_of(self).items()}
        return {"used": dict(self._used), "answers": sorted(self._answers), "cycles": cycles}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Those of a checkpoint of the same plan."""
        if set(state["used"]) != set(self._used):
            raise OverBudget(
                f"Expected a checkpoint with crossings {sorted(self._used)}, found {sorted(state['used'])}."
            )
        self._used = {name: int(count) for name, count in state["used"].items()}
        self._answers = set(state["answers"])
        cycles = {name: Cycle.from_state(found) for name, found in state.get("cycles", {}).items()}
        lost = [name for name, c in self.plan.crossings.items() if c.cycle > 1 and self._used[name] > 0]
        if not set(lost) <= set(cycles):
            raise OverBudget(f"Expected a checkpoint with the classes and noises of {lost}, found none; start anew.")
        cycles_of(self).update(cycles)


@lru_cache(maxsize=1024)  # audits count the same uses many times
def _spent(events: tuple[AnyEvent, ...], delta: float) -> float:
    return accountant.profile(events).epsilon(delta)


def _digest(value: Tensor) -> str:
    plain = value.detach().to("cpu").double().contiguous()
    return hashlib.blake2b(f"{tuple(plain.shape)}".encode() + plain.numpy().tobytes(), digest_size=32).hexdigest()
