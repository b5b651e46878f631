"""Data that a custodian has declared: how they are read, whose presence is hidden, and what is public about them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from sfumato import api
from sfumato.errors import SfumatoError
from sfumato.flow.request import Request
from sfumato.studio.settings import DEMO_SETS, Settings
from sfumato.studio.store import Shelf, new_id, now
from sfumato.types import DataSpec, Unit

READING = ("size", "grey", "split", "label", "person", "private_count", "records")


class Sets:
    """The declared data sets. A page shows them by the name of their file; the path stays here."""

    def __init__(self, settings: Settings) -> None:
        self._shelf = Shelf(settings.state / "data")
        self._ledger = settings.ledger
        if settings.demo and not self.all():
            for name in DEMO_SETS:
                self.declare(name, {})

    def all(self) -> list[dict[str, Any]]:
        """Every declared set, newest first."""
        return self._shelf.all()

    def get(self, name: str) -> dict[str, Any]:
        """One of them."""
        return self._shelf.get(name)

    def forget(self, name: str) -> None:
        """Take a declaration back; neither the data nor their account are touched."""
        self._shelf.drop(name)

    def declare(self, source: str, reading: dict[str, Any]) -> str:
        """Read the data once, to know what is public about them, and keep that."""
        told = self._read(source, reading)
        return self._shelf.put(new_id(), {"source": source, "reading": reading, "when": now(), **told})

    def look_again(self, name: str) -> dict[str, Any]:
        """The same set with its account as it is now."""
        found = self.get(name)
        self._shelf.put(name, found | self._read(found["source"], found["reading"]))
        return self.get(name)

    def look_again_or_leave(self, name: str) -> None:
        """The same, once: data that cannot be read any more keep the account as it was seen."""
        found = self.get(name)
        self._shelf.put(name, found | {"looked": now()})
        with suppress(SfumatoError):
            self.look_again(name)

    def grant(self, name: str, epsilon: float) -> None:
        """Set what may be spent in all, as the custodian."""
        found = self.get(name)
        total = api.make_budget(epsilon, unit=found["spec"]["unit"])
        self._shelf.put(name, found | self._read(found["source"], found["reading"], total))

    def _read(self, source: str, reading: dict[str, Any], total: Any = None) -> dict[str, Any]:
        """The public spec and the account; one reading gives both."""
        with Request(data=source, method="", epsilon=1.0, **reading).load() as box:
            spec = box.spec
            account = api.budget_of(box, total=total, ledger=self._ledger)
            unused = list(box.unused)
        public = spec.to_json() | {"name": Path(spec.name).name, "full_name": spec.name}
        return {"spec": public, "account": account, "unused": unused, "looked": now()}


def spec_of(found: dict[str, Any]) -> DataSpec:
    """The public description that a plan is made from."""
    spec = found["spec"]
    return DataSpec(
        spec["full_name"],
        spec["records"],
        tuple(spec["shape"]),
        tuple(spec["classes"]),
        Unit(spec["unit"]),
        spec["count_public"],
        spec["public"],
    )
