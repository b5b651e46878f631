"""A copy of the package to plant things in: its modules are copied, its data are links."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

from benchmarks.mutants.mutant import PACKAGE, Case, Edit, lines_of, planted
from benchmarks.mutants.table import Row

ROOT = PACKAGE.parent
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Shadow:
    """One copy, used for one change after the other: what is not changed stays compiled."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sfumato-mutants-")
        self.root = Path(self._folder.name)
        self._now = float(int(time.time()))
        self._changes = 0
        _copy(PACKAGE, self.root / "sfumato")
        self._server = self._served()

    def close(self) -> None:
        """End the process that audits, and remove the copy."""
        self._server.communicate()
        self._folder.cleanup()

    def audit(
        self, edits: tuple[Edit, ...], case: Case, level: int, seeds: Sequence[int], limit: float
    ) -> dict[str, Any]:
        """What the auditors say of the changed package: `reports`, one a seed, or an `error`."""
        texts = planted(edits)
        for file, text in texts.items():
            self._write(file, text)
        try:
            return self._run(
                {"case": case.to_json(), "level": level, "seeds": list(seeds), "lines": lines_of(edits)}, limit
            )
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
        log = self.root / "log.txt"
        answer.unlink(missing_ok=True)
        self._ask(asked | {"answer": str(answer), "log": str(log), "limit": limit})
        told = self._server.stdout.readline()  # type: ignore[union-attr]
        if not told:
            raise RuntimeError("Expected the process that audits to go on, found that it ended.")
        if json.loads(told)["status"] == "late":
            return {"error": f"took more than {limit:g} s"}
        if answer.is_file():
            found: dict[str, Any] = json.loads(answer.read_text())
            return found
        last = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
        return {"error": (last or [f"status {told.strip()}"])[-1][:300]}

    def _ask(self, asked: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()

    def _served(self) -> subprocess.Popen[str]:
        home = self.root / "home"
        home.mkdir()
        environment = {
            **os.environ,
            **dict.fromkeys(THREADS, "1"),
            "PYTHONPATH": str(ROOT),
            "SFUMATO_RUNS": str(home),
            "XDG_STATE_HOME": str(home),
            "XDG_DATA_HOME": str(home),
        }
        command = [sys.executable, "-m", "benchmarks.mutants.look"]
        return subprocess.Popen(
            command, cwd=self.root, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )


class Several:
    """Shadows that are asked side by side, each one question at a time."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def __enter__(self) -> Several:
        self._all = [Shadow() for _ in range(self._jobs)]
        self._free: Queue[Shadow] = Queue()
        for shadow in self._all:
            self._free.put(shadow)
        return self

    def __exit__(self, *_: object) -> None:
        for shadow in self._all:
            shadow.close()

    def map(self, ask: Sequence[Callable[[Shadow], Row]], say: Callable[[Row], str]) -> list[Row]:
        """The answers in the order of the questions; each is told when it comes, with the time that is left."""
        began = time.monotonic()
        done = itertools.count(1)

        def one(question: Callable[[Shadow], Row]) -> Row:
            shadow = self._free.get()
            try:
                row = question(shadow)
            finally:
                self._free.put(shadow)
            number = next(done)
            left = (time.monotonic() - began) / number * (len(ask) - number)
            print(f"[{number}/{len(ask)}, {left / 60:.1f} min left] {say(row)}", file=sys.stderr, flush=True)
            return row

        with ThreadPoolExecutor(self._jobs) as pool:
            return list(pool.map(one, ask))


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
