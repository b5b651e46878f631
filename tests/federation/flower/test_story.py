"""A federation from end to end, with a site and the coordinator killed on the way: every ledger is charged once."""

from __future__ import annotations

import signal
import sqlite3
import time
from pathlib import Path
from subprocess import Popen

import pytest

from sfumato.federation.flower.link import looks
from sfumato.ledger.store import Ledger
from tests.federation.flower.processes import Processes, kill, superlink
from tests.federation.flower.story import DIES, RECORDS, SETTINGS

pytestmark = [pytest.mark.federation, pytest.mark.filterwarnings("default"), pytest.mark.timeout(900)]
LONG = 400.0  # seconds
EACH = SETTINGS["batch"]  # queries of a question, by which answers are numbered


def charged(folder: Path, name: str) -> tuple[str, float]:
    """Status and epsilon of the one run in the ledger of a site."""
    place = folder / f"{name}.sqlite"
    with sqlite3.connect(place) as db:
        ((run,),) = db.execute("SELECT run FROM runs").fetchall()
    with Ledger(place) as ledger:
        found = ledger.run(run)
    assert found is not None
    return str(found["status"]), float(found["charged"]["epsilon"])


def role(started: Processes, what: str, *words: str, **environment: str) -> Popen[bytes]:
    name = words[0] if what == "site" else what
    return started.python(name, "tests.federation.flower.story", what, *words, **environment)


def until(place: Path, *watched: Popen[bytes]) -> None:
    """Until a file is there, while those that make it live."""
    for _ in looks(time.monotonic() + LONG):
        if place.exists():
            return
        assert all(process.poll() is None for process in watched)
    raise TimeoutError(place)


def test_every_ledger_is_charged_once_whoever_is_killed(started, tmp_path):
    address = superlink(started, "--insecure", "--database", str(tmp_path / "superlink.sqlite"))
    here = (address, str(tmp_path))
    sites = {name: role(started, "site", name, *here) for name in ("north", "south")}
    isle = role(started, "site", "isle", *here, **{DIES: "yes"})
    first = role(started, "lead", *here)
    until(tmp_path / "lead" / f"answer-{3 * EACH}", first)
    assert isle.wait() == -signal.SIGKILL  # at the second question, which went on without it, as did the third
    spent = {name: charged(tmp_path, name) for name in RECORDS}
    assert all(status == "begun" and 0.9 < epsilon <= 1 for status, epsilon in spent.values())

    kill(first)
    sites["isle"] = role(started, "site", "isle", *here)
    assert {name: charged(tmp_path, name) for name in RECORDS} == spent

    second = role(started, "lead", *here)
    assert second.wait(timeout=LONG) == 0, started.told("lead")
    assert [process.wait(timeout=LONG) for process in sites.values()] == [0, 0, 0]
    after = {name: charged(tmp_path, name) for name in RECORDS}
    assert after == {name: ("committed", epsilon) for name, (_, epsilon) in spent.items()}
    assert (tmp_path / "lead" / f"answer-{SETTINGS['steps'] * EACH}").exists()
    assert not any(path.is_file() for name in RECORDS for path in (tmp_path / f"{name}-runs").rglob("*"))
