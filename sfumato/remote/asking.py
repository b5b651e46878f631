"""The side of the method: it asks over a channel, and what lies behind its barrier is in another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from torch import Tensor

from sfumato.privacy.inside import Query
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.partitions import PartitionHandle, PartitionSum, TeacherModel
from sfumato.privacy.plan import Plan
from sfumato.remote.failures import raised
from sfumato.remote.names import Allowed
from sfumato.remote.served import FAILED
from sfumato.remote.wire import decode, encode
from sfumato.run.progress import Silent
from sfumato.run.run import Run


class Channel(Protocol):
    """Whole messages in both directions, as a connection of `multiprocessing` has them."""

    def send_bytes(self, data: bytes, /) -> None: ...
    def recv_bytes(self) -> bytes: ...


class Line:
    """Questions over a channel."""

    def __init__(self, channel: Channel, *, device: str = "cpu", allow: Allowed = ()) -> None:
        self._channel = channel
        self._device = device
        self._allow = allow
        self._numbers: WeakKeyDictionary[PartitionHandle, int] = WeakKeyDictionary()

    def ask(self, verb: str, *given: Any) -> Any:
        """What the other side answers, or the failure that it tells of."""
        self._send(True, verb, *given)
        outcome, *rest = decode(self._channel.recv_bytes(), device=self._device)
        if outcome == FAILED:
            raise raised(*rest)
        return rest[0]

    def tell(self, verb: str, *given: Any) -> None:
        """Something that nobody answers; where it fails, the next question does."""
        self._send(False, verb, *given)

    def _send(self, *message: Any) -> None:
        self._channel.send_bytes(encode(message, numbers=self._numbers.__getitem__, allow=self._allow))

    def held(self, number: int, parts: int) -> PartitionHandle:
        """A handle on the parts that the other side knows by a number."""
        handle = PartitionHandle(parts)
        self._numbers[handle] = number
        return handle


class RemoteBehind:
    """Behind a barrier, in another process. Its odometer repeats the true one, which is there."""

    def __init__(self, line: Line, plan: Plan, noise: tuple[str, str], used: Mapping[str, int] | None = None) -> None:
        self._line = line
        self.spec = plan.data
        self.noise = SimpleNamespace(source=noise[0], sampler=noise[1])
        self.odometer = Odometer(plan)
        for name, uses in (used or {}).items():
            if uses:
                self.odometer.charge(name, uses)

    def release(self, name: str, query: Query, *public: Any) -> Tensor:
        """The noisy answer of the other side."""
        answer: Tensor = self._line.ask("release", name, query, *public)
        self.odometer.charge(name, query.queries if isinstance(query, PartitionSum) else 1)
        return answer

    def hold(self, model: TeacherModel, parts: int) -> PartitionHandle:
        """Parts over there."""
        return self._line.held(self._line.ask("hold", model, parts), parts)

    def train(self, held: PartitionHandle, *public: Any) -> None:
        """An update over there; nobody waits for it."""
        self._line.tell("train", held, *public)


@dataclass
class AskingRun(Run):
    """A run without a folder: what is to be kept goes to the other side, which keeps it with the odometer."""

    line: Any = None  # a Line
    resumable: bool = False

    def recall(self, kept: dict[str, Any], step: dict[str, Any] | None) -> None:
        """Stand where a stopped run stood."""
        self.kept = kept
        self._step = step

    def begun(self, what: str, total: int | None) -> None:
        """There too."""
        self.line.tell("begun", what, total)

    def save(self) -> None:
        """Values that were computed once, durable before they are used."""
        self.line.ask("keep", self.kept)

    def store(self, done: int, own: Mapping[str, Any], held: Mapping[str, PartitionHandle]) -> None:
        """The state of the method; that of held parts is over there."""
        if self.resumable:
            self.line.ask("store", done, dict(own), dict(held))

    def restore_held(self, held: Mapping[str, PartitionHandle]) -> None:
        """As they were at the checkpoint."""
        self.line.ask("restore", dict(held))

    def held_bytes(self, held: Mapping[str, PartitionHandle]) -> int:
        """Over there."""
        return int(self.line.ask("held_bytes", dict(held))) if held else 0

    @property
    def shows(self) -> bool:
        """Where the other side has a folder."""
        return self.resumable

    def show(self, picture: bytes) -> None:
        """There."""
        self.line.tell("show", picture)


class Told(Silent):
    """A display on the other side."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def start(self, what: str, total: int | None) -> None:
        self._line.tell("start", what, total)

    def advance(self, done: int, note: str = "") -> None:
        self._line.tell("advance", done, note)

    def picture(self, path: Path) -> None:
        """It is shown where it lies."""
