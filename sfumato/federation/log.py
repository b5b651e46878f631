"""What a coordinator must not lose: public values by name, on the disk before they are used."""

from __future__ import annotations

from pathlib import Path

from sfumato.ledger.durable import replace


class Log:
    """Files in a folder; without one, in memory alone."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._memory: dict[str, bytes] = {}
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, name: str, content: bytes) -> None:
        """Durable when this returns."""
        if self._folder is None:
            self._memory[name] = content
        else:
            replace(self._folder / name, content)

    def get(self, name: str) -> bytes | None:
        """What was put under this name, if it is still there."""
        if self._folder is None:
            return self._memory.get(name)
        path = self._folder / name
        return path.read_bytes() if path.exists() else None

    def drop(self, name: str) -> None:
        """Forget it."""
        if self._folder is None:
            self._memory.pop(name, None)
        else:
            (self._folder / name).unlink(missing_ok=True)
