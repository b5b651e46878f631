"""What the coordinator has told the teachers of all sites, kept until every site has it on its disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.federation.agreement import Agreement
from sfumato.federation.log import Log
from sfumato.privacy.partitions import PartitionHandle, TeacherModel, hide
from sfumato.remote import wire

NOT_YET = -1  # of a site that does not hold these teachers


class FarTeachers:
    """What is known here of teachers at the sites: how many there are, and how often they were told to learn."""

    bytes = 0

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.updates = 0

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint of the coordinator."""
        return {"updates": self.updates, "states": {}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As it was."""
        self.updates = int(state["updates"])


class Lessons:
    """Numbered updates by teachers, and which of them each site has heard."""

    def __init__(self, agreement: Agreement, log: Log) -> None:
        self._agreement = agreement
        self._log = log
        self._far: list[FarTeachers] = []
        self._models: list[TeacherModel] = []
        self._numbers: dict[PartitionHandle, int] = {}
        self._heard: dict[str, dict[int, int]] = {name: {} for name in agreement.sites}
        self._saved: dict[str, dict[int, int]] = {name: {} for name in agreement.sites}
        self._kept: dict[int, int] = {}  # the first update that is not forgotten

    def hold(self, model: TeacherModel, parts: int) -> PartitionHandle:
        """New teachers, dealt to the sites."""
        self._agreement.parts(parts)  # refused here where they cannot be dealt
        self._far.append(FarTeachers(parts))
        self._models.append(model)
        handle = hide(self._far[-1])
        self._numbers[handle] = len(self._far) - 1
        return handle

    def number(self, handle: PartitionHandle) -> int:
        """By which the sites know it."""
        return self._numbers[handle]

    def train(self, handle: PartitionHandle, public: tuple[Any, ...]) -> None:
        """One more update; sent with the next question."""
        number = self.number(handle)
        far = self._far[number]
        event = {"kind": "train", "handle": number, "update": far.updates, "public": public}
        self._log.put(_name(number, far.updates), wire.encode(event))
        far.updates += 1

    def stand(self) -> dict[int, int]:
        """How many updates all teachers should have had by now."""
        return {number: far.updates for number, far in enumerate(self._far)}

    def due(self, site: str) -> list[bytes]:
        """What a site has not heard yet, in order."""
        found = []
        for number, far in enumerate(self._far):
            heard = self._heard[site].get(number, NOT_YET)
            if heard == NOT_YET:
                found.append(self._holding(number, site))
                heard = self._saved[site].get(number, 0)
            found += [event for at in range(heard, far.updates) if (event := self._log.get(_name(number, at)))]
        return found

    def _holding(self, number: int, site: str) -> bytes:
        parts = self._agreement.parts(self._far[number].parts)[site]
        return wire.encode({"kind": "hold", "handle": number, "model": self._models[number], "parts": parts})

    def learned(self, site: str, reply: Mapping[str, Any]) -> None:
        """How far a site is; what all of them have on their disks is forgotten."""
        self._heard[site] = {int(number): int(count) for number, count in reply["heard"].items()}
        self._saved[site] = {int(number): int(count) for number, count in reply["saved"].items()}
        for number in range(len(self._far)):
            everywhere = min(saved.get(number, 0) for saved in self._saved.values())
            for at in range(self._kept.get(number, 0), everywhere):
                self._log.drop(_name(number, at))
            self._kept[number] = max(everywhere, self._kept.get(number, 0))


def _name(number: int, update: int) -> str:
    return f"train-{number}-{update}"
