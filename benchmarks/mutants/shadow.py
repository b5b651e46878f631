"""A copy of the package to plant things in: its modules are copied, its data are links."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.mutants.mutant import PACKAGE, Case, Edit, lines_of, planted

ROOT = PACKAGE.parent
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Shadow:
    """One copy, used for one change after the other: what is not changed stays compiled."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sfumato-mutants-")
        self.root = Path(self._folder.name)
        self._now, self._changes = float(int(time.time())), 0
        _copy(PACKAGE, self.root / "sfumato")

    def close(self) -> None:
        """Remove it."""
        self._folder.cleanup()

    def audit(
        self, edits: tuple[Edit, ...], case: Case, level: int, seeds: Sequence[int], limit: float
    ) -> dict[str, Any]:
        """What the auditors say of the changed package: `reports`, one a seed, or an `error`."""
        texts = planted(edits)
        for file, text in texts.items():
            self._write(file, text)
        try:
            return self._run({"case": case.to_json(), "level": level, "seeds": list(seeds), "lines": lines_of(edits)},
                             limit)  # fmt: skip
        finally:
            for file in texts:
                self._write(file, (PACKAGE / file).read_text())

    def _write(self, file: str, text: str) -> None:
        """With a time of its own, so that no compiled module is taken for it."""
        path = self.root / "sfumato" / file
        path.write_text(text)
        self._changes += 1
        os.utime(path, (self._now + self._changes,) * 2)

    def _run(self, asked: dict[str, Any], limit: float) -> dict[str, Any]:
        answer = self.root / "answer.json"
        answer.unlink(missing_ok=True)
        home = self.root / "home"
        home.mkdir(exist_ok=True)
        environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": f"{self.root}{os.pathsep}{ROOT}",
                       "XDG_STATE_HOME": str(home), "XDG_DATA_HOME": str(home)}  # fmt: skip
        command = [sys.executable, "-m", "benchmarks.mutants.look", json.dumps(asked), str(answer)]
        try:
            ended = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True,
                                   timeout=limit, stdin=subprocess.DEVNULL)  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"error": f"took more than {limit:g} s"}
        if answer.is_file():
            found: dict[str, Any] = json.loads(answer.read_text())
            return found
        last = (ended.stderr.strip().splitlines() or [f"status {ended.returncode}"])[-1]
        return {"error": last[:300]}


def _copy(source: Path, target: Path) -> None:
    """Folders with modules are copied, all else is linked."""
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.name == "__pycache__":
            continue
        if path.is_dir() and any(path.rglob("*.py")):
            _copy(path, target / path.name)
        elif path.suffix == ".py":
            shutil.copy2(path, target / path.name)
        else:
            (target / path.name).symlink_to(path)
