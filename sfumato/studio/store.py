"""Small files of the studio: JSON in folders of mode 0700, which a crash leaves whole."""

from __future__ import annotations

import json
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from sfumato.ledger.durable import replace

ID = re.compile(r"[0-9]{14}-[0-9a-f]{12}")


def new_id() -> str:
    """A name that sorts by time and cannot be guessed."""
    return f"{datetime.now(UTC):%Y%m%d%H%M%S}-{secrets.token_hex(6)}"


def now() -> str:
    """This moment, to the second."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Shelf:
    """JSON objects by their names in one folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder

    def put(self, name: str, value: dict[str, Any]) -> str:
        """Write one."""
        replace(self._path(name), json.dumps(value).encode())
        return name

    def get(self, name: str) -> dict[str, Any]:
        """Read one; what is not there is not found."""
        try:
            value: dict[str, Any] = json.loads(self._path(name).read_bytes())
        except (OSError, ValueError):
            raise HTTPException(404, "There is nothing of this name; go back and choose again.") from None
        return value | {"id": name}

    def all(self) -> list[dict[str, Any]]:
        """Every one, newest first."""
        return [self.get(path.stem) for path in sorted(self.folder.glob("*.json"), reverse=True)]

    def drop(self, name: str) -> None:
        """Forget one."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not ID.fullmatch(name):
            raise HTTPException(404, "There is nothing of this name; go back and choose again.")
        return self.folder / f"{name}.json"
