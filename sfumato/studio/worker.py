"""One job in a process of its own: `python -m sfumato.studio.worker FOLDER`. Only public values reach its files."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sfumato import api
from sfumato.errors import Interrupted, SfumatoError
from sfumato.flow.approval import Approval
from sfumato.flow.request import Request, carry_out, made_up
from sfumato.flow.request import resume as go_on
from sfumato.ledger.durable import replace
from sfumato.run.progress import Silent

EVERY = 0.4  # seconds between two lines
CHARGED = re.compile(r"epsilon [0-9.e+-]+")  # all that a note may say


class Told(Silent):
    """Progress as lines of JSON. A stage without a public length tells no count at all."""

    def __init__(self, place: Path, quiet: bool = False) -> None:
        self._place = place
        self._quiet = quiet  # of an evaluation, which reads private data without noise: stages alone
        self._now: dict[str, Any] = {"stage": "getting ready"}
        self._next = 0.0
        self._pictures = 0
        self._write()

    def start(self, what: str, total: int | None) -> None:
        kept = {key: value for key, value in self._now.items() if key in ("note", "picture")}
        self._now = kept | {"stage": what, "total": total, "done": 0 if total else None}
        self._write()
        self._next = 0.0  # what follows at once is shown at once

    def advance(self, done: int, note: str = "") -> None:
        if self._now.get("total") and not self._quiet:
            self._now["done"] = done
        if found := CHARGED.search(note):
            self._now["note"] = found[0]
        if time.monotonic() >= self._next:
            self._write()

    def picture(self, path: Path) -> None:
        """Kept by the studio, since the folder of a run is gone when it ends."""
        self._pictures += 1
        replace(self._place / "preview.png", path.read_bytes())
        self._now["picture"] = self._pictures
        self._write()

    def close(self) -> None:
        self._write()

    def _write(self) -> None:
        self._next = time.monotonic() + EVERY
        with (self._place / "progress.jsonl").open("a") as file:
            file.write(json.dumps(self._now) + "\n")


def synthesize(asked: dict[str, Any], told: Told) -> dict[str, Any]:
    """A new run."""
    request = Request(**asked["request"])
    carry_out(request, told, Approval(yes=True, force=asked["force"]))  # whoever typed the price saw the warnings
    return {"release": Path(request.out).name}


def resume(asked: dict[str, Any], told: Told) -> dict[str, Any]:
    """A run that was stopped, under what it has reserved."""
    request, _ = go_on(asked["run"], told)
    return {"release": Path(request.out).name}


def evaluate(asked: dict[str, Any], told: Told) -> dict[str, Any]:
    """Internal: usefulness and attacks against the real images."""
    api.evaluate(asked["release"], asked["data"], progress=told, **asked["options"])
    return {"release": Path(asked["release"]).name}


def gallery(asked: dict[str, Any], told: Told) -> dict[str, Any]:
    """The seeded faults, one after the other; each row is there as soon as it is known."""
    from sfumato.audit.gallery import BUGS  # slow to import

    bugs = [bug for bug in BUGS if bug.level <= asked["level"]]
    rows: list[dict[str, Any]] = []
    told.start("seeded faults", len(bugs))
    for bug in bugs:
        rows += api.audit_gallery(only=[bug.id])
        replace(told._place / "rows.json", json.dumps(rows).encode())
        told.advance(len(rows))
    return {"rows": len(rows), "wrong": [row["id"] for row in rows if not row["ok"]]}


def audit(asked: dict[str, Any], told: Told) -> dict[str, Any]:
    """The audit of a method on made-up records."""
    told.start("auditing", None)
    report = api.audit_method(api.make_method(asked["method"]), spec=made_up(), level=asked["level"]).to_json()
    replace(told._place / "rows.json", json.dumps(report["rows"]).encode())
    return {"verdict": report["verdict"], "title": report["title"]}


KINDS: dict[str, Callable[[dict[str, Any], Told], dict[str, Any]]] = {
    "synthesize": synthesize,
    "resume": resume,
    "evaluate": evaluate,
    "gallery": gallery,
    "audit": audit,
}


def carried_out(place: Path) -> dict[str, Any]:
    """What came of a job, in words that a custodian may see."""
    asked = json.loads((place / "job.json").read_bytes())
    told = Told(place, quiet=asked["kind"] == "evaluate")
    try:
        return {"state": "done", **KINDS[asked["kind"]](asked, told)}
    except (Interrupted, KeyboardInterrupt) as stopped:
        return {"state": "stopped", "words": str(stopped) or "Stopped at once."}
    except SfumatoError as error:
        return {"state": "failed", "words": " ".join(str(error).split())}
    except MemoryError:
        return {"state": "failed", "words": "There is not enough memory for this; ask for less."}
    except Exception as error:
        return {"state": "failed", "words": f"An unexpected {type(error).__name__} ended it."}
    finally:
        told.close()


def main() -> None:
    """Work on one job and write down what came of it."""
    place = Path(sys.argv[1])
    os.umask(0o077 if json.loads((place / "job.json").read_bytes())["kind"] == "evaluate" else 0o022)
    result = carried_out(place)
    replace(place / "result.json", json.dumps(result).encode())


if __name__ == "__main__":
    main()
