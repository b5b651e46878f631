"""The side of the data: answers what is asked over a channel, and nothing else.

A message is (waits, verb, arguments). What can be asked is a table of verbs: those of a private side, and more where
whoever serves has more to offer. A failure is told in words and kept here, so that the one who serves can end the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

from sfumato.engine.gradients.clipping import Clip
from sfumato.engine.gradients.per_example import ClippedGradient
from sfumato.privacy.barrier import Behind
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import BatchBound, Bound, BoundedSum, IntegerBound
from sfumato.privacy.partitions import PartitionHandle, PartitionSum, TeacherModel
from sfumato.remote.failures import of_private_side
from sfumato.remote.names import Allowed
from sfumato.remote.wire import Kept, WireError, decode, encode

Verbs = Mapping[str, Callable[..., Any]]
ANSWER = "answer"
FAILED = "failed"
SUMMING = ("total", "rows", "answer_shape")  # what a query does that sums its own terms


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
        check(query)
        return self._behind.release(name, query, *public)

    def _hold(self, model: TeacherModel, parts: int) -> int:
        self._held.append(self._behind.hold(model, parts))
        return len(self._held) - 1


def check(query: Any) -> None:
    """Refuse what only looks like a query: its class clips and sums, and its bound and clip are the engine's own.

    Whoever sends one chooses its values. Were the bound an object of its choice, it could project as it likes.
    """
    kind = type(query)
    own = {f.name for f in fields(kind)} if is_dataclass(kind) else set(SUMMING)
    sums = all(callable(getattr(kind, name, None)) and name not in own for name in SUMMING)
    clip = getattr(query, "clip", None)
    if not (kind in (BoundedSum, PartitionSum, BatchValue) or sums):
        raise WireError("Expected a query of the engine, found another object.")
    if type(getattr(query, "bound", None)) not in (Bound, IntegerBound, BatchBound):
        raise WireError("Expected a query with a bound of the engine, found another.")
    if isinstance(query, ClippedGradient) and not (isinstance(clip, Clip) and is_dataclass(clip)):
        raise WireError("Expected gradients clipped by the engine, found another clip.")
