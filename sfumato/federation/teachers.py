"""The teachers of a site, which learn from what the coordinator sends and are saved on the way.

Updates are numbered. A site that was away, or was killed, says how many of them its teachers have had, and is sent the
others again: an update is made of public images, so that hearing it late costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sfumato.ledger.manifest import CHECKPOINT
from sfumato.privacy.one_of_several import OneOfSeveral
from sfumato.privacy.partitions import PartitionHandle
from sfumato.remote import wire
from sfumato.run import checkpoint


class Teachers:
    """Held parts by the number that the coordinator gave them, and how many updates each has had."""

    def __init__(self, side: OneOfSeveral, folder: Path, device: str, save_every: int) -> None:
        self._side = side
        self._path = folder / CHECKPOINT
        self._device = device
        self._save_every = save_every
        self.held: dict[int, PartitionHandle] = {}
        self.heard: dict[int, int] = {}
        self._kept: dict[int, Any] = {}  # states that are waiting for their model
        self._saved: dict[int, int] = {}
        if self._path.exists():
            state = checkpoint.load(self._path)
            self._saved = {int(number): int(count) for number, count in state["heard"].items()}
            self._kept = {int(number): each for number, each in state["held"].items()}

    def known(self) -> dict[str, Any]:
        """How far the teachers are, and how far those on the disk are."""
        return {"heard": dict(self.heard), "saved": dict(self._saved)}

    def stand_at(self, wanted: Mapping[int, int]) -> bool:
        """Whether all updates were heard."""
        return all(self.heard.get(number) == count for number, count in wanted.items())

    def hear(self, events: Iterable[bytes]) -> None:
        """Hold and train, in order; what was heard before, or comes too early, is passed over."""
        for event in events:
            said = wire.decode(event, device=self._device)
            number = int(said["handle"])
            if said["kind"] == "hold" and number not in self.held:
                self._hold(number, said["model"], int(said["parts"]))
            elif said["kind"] == "train" and self.heard.get(number) == said["update"]:
                self._side.train(self.held[number], *said["public"])
                self.heard[number] += 1
        if any(count - self._saved.get(number, 0) >= self._save_every for number, count in self.heard.items()):
            self._save()

    def _hold(self, number: int, model: Any, parts: int) -> None:
        self.held[number] = self._side.hold(model, parts)
        self.heard[number] = 0
        if number in self._kept:
            self._side.restore(self.held[number], self._kept.pop(number))
            self.heard[number] = self._saved[number]

    def _save(self) -> None:
        """By the number of updates, which is public: the time that a site takes tells of nothing else."""
        heard = {str(number): count for number, count in self.heard.items()}
        checkpoint.save(self._path, {"heard": heard, "held": self._side.held_state(self.held)})
        self._saved = dict(self.heard)
