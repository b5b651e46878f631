"""The barrier: private data behind it, one way through, every crossing charged first.

A method is handed a `Barrier`: it asks, and sees what is public. What it asks of lies behind (`inside.py`), and the
object that it holds has no road there. That stops honest mistakes; an author who means harm runs in the same process
and can reach anything in it, unless the method is isolated (`flow/isolated.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from torch import Tensor

from sfumato.data.private import PrivateImages
from sfumato.privacy.inside import Inside, Query
from sfumato.privacy.noise import NoiseFacts
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.partitions import PartitionHandle, TeacherModel
from sfumato.privacy.plan import Plan
from sfumato.types import DataSpec


class Behind(Protocol):
    """What a barrier stands in front of: the private side, or one that an auditor listens to."""

    spec: DataSpec
    odometer: Odometer
    noise: Any

    def release(self, name: str, query: Query, *public: Any) -> Tensor:
        """The noisy answer."""

    def hold(self, model: TeacherModel, parts: int) -> PartitionHandle:
        """A handle on parts."""

    def train(self, held: PartitionHandle, *public: Any) -> None:
        """One update of held parts."""


class Barrier:
    """In front of private data; `release` is the only thing that returns a value computed from them.

    Without data (`None`) it is blind: every answer is noise around zero, of the same public shape. A method
    that finishes against a blind barrier has no other road to the data.
    """

    __slots__ = ("__weakref__",)

    def __init__(self, data: PrivateImages | None, spec: DataSpec, odometer: Odometer, **how: Any) -> None:
        _BEHIND[self] = Inside(data, spec, odometer, **how)

    @classmethod
    def before(cls, behind: Behind) -> Barrier:
        """A barrier in front of something that an auditor made; a method cannot tell it from another."""
        made = cls.__new__(cls)
        _BEHIND[made] = behind
        return made

    @property
    def spec(self) -> DataSpec:
        """All that is public about the data."""
        return _BEHIND[self].spec

    @property
    def plan(self) -> Plan:
        """The plan that is carried out."""
        return _BEHIND[self].odometer.plan

    @property
    def used(self) -> Mapping[str, int]:
        """How often each crossing was used so far; a copy."""
        return MappingProxyType(dict(_BEHIND[self].odometer.used))

    @property
    def noise(self) -> NoiseFacts:
        """What the statement says of the noise; not its source."""
        return NoiseFacts.of(_BEHIND[self].noise)

    def release(self, name: str, query: Query, *public: Any) -> Tensor:
        """The noisy answer to `query`, in float64. Charged before a record is read."""
        return _BEHIND[self].release(name, query, *public)

    def hold(self, model: TeacherModel, parts: int) -> PartitionHandle:
        """Split the data into `parts` by a secret hash, each with a private state made by a public model."""
        return _BEHIND[self].hold(model, parts)

    def train(self, held: PartitionHandle, *public: Any) -> None:
        """One update of every held part, on its own records. Returns nothing, and costs nothing."""
        _BEHIND[self].train(held, *public)


_BEHIND: WeakKeyDictionary[Barrier, Behind] = WeakKeyDictionary()


def behind(barrier: Barrier) -> Any:
    """What a barrier stands in front of; for those that make runs and audits, never for a method."""
    return _BEHIND[barrier]
