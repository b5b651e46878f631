"""The side of the data: answers what is asked over a channel, and nothing else.

A message is (waits, verb, arguments). What can be asked is a table of verbs: those of a private side, and more where
whoever serves has more to offer. A failure is told in words and kept here, so that the one who serves can end the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from sfumato.privacy.barrier import Behind
from sfumato.privacy.bounds import BatchBound, Bound, IntegerBound
from sfumato.privacy.partitions import PartitionHandle, TeacherModel
from sfumato.remote.failures import of_private_side
from sfumato.remote.names import Allowed
from sfumato.remote.wire import Kept, WireError, decode, encode

Verbs = Mapping[str, Callable[..., Any]]
ANSWER = "answer"
FAILED = "failed"


class Served:
    """A private side that answers bytes with bytes."""

    def __init__(self, behind: Behind, *, device: str = "cpu", more: Verbs | None = None, allow: Allowed = ()) -> None:
        self._behind = behind
        self._device = device
        self._allow = allow
        self._kept = Kept()
        self._held: list[PartitionHandle] = []
        self._verbs: Verbs = {
            "release": self._release,
            "hold": self._hold,
            "train": behind.train,
            "used": lambda: dict(behind.odometer.used),
            **(more or {}),
        }
        self.failed: Exception | None = None

    def reply(self, message: bytes) -> bytes | None:
        """What is to be sent back; None where nobody waits."""
        waits = True
        try:
            waits, verb, *given = self._read(message)
            answer = self._verbs[verb](*given)
            return encode((ANSWER, answer)) if waits else None
        except Exception as error:
            self.failed = error
            return encode((FAILED, *of_private_side(error))) if waits else None

    def _read(self, message: bytes) -> tuple[Any, ...]:
        read = decode(message, device=self._device, handles=self._handle, allow=self._allow, kept=self._kept)
        if not isinstance(read, tuple) or len(read) < 2 or read[1] not in self._verbs:
            raise WireError(f"Expected one of {', '.join(self._verbs)} to be asked for, found something else.")
        return read

    def _handle(self, number: int) -> PartitionHandle:
        if not 0 <= number < len(self._held):
            raise WireError("Expected the number of parts that are held, found another.")
        return self._held[number]

    def _release(self, name: str, query: Any, *public: Any) -> Tensor:
        # A bound that only claims to equal the planned one would be asked to project what it likes.
        if type(getattr(query, "bound", None)) not in (Bound, IntegerBound, BatchBound):
            raise WireError("Expected a query with a bound of the engine, found another.")
        return self._behind.release(name, query, *public)

    def _hold(self, model: TeacherModel, parts: int) -> int:
        self._held.append(self._behind.hold(model, parts))
        return len(self._held) - 1
