"""A federation by its commands, with a site and the coordinator killed on the way: every ledger is charged once."""

from __future__ import annotations

import signal
import sqlite3
from pathlib import Path
from subprocess import Popen

import pytest

from sfumato.api import verify
from sfumato.ledger.store import Ledger
from tests.federation.flower.processes import Processes, kill, superlink, until
from tests.federation.flower.story import BATCH, RECORDS, write

pytestmark = [pytest.mark.federation, pytest.mark.filterwarnings("default"), pytest.mark.timeout(1500)]
LONG = 600.0  # seconds
TIMEOUT = "20"  # seconds until a site counts as missing


class Houses:
    """The commands of all who take part, each with files of its own in one folder."""

    def __init__(self, started: Processes, folder: Path) -> None:
        self.started = started
        self.folder = folder
        write(folder)
        self.address = superlink(started, "--insecure", "--database", str(folder / "superlink.sqlite"))

    def federate(self, log: str, role: str, *words: str, **environment: str) -> Popen[bytes]:
        plan = str(self.folder / "plan.yaml")
        return self.started.python(
            log, "sfumato", "federate", role, plan, "--address", self.address, *words, **environment
        )

    def site(self, name: str, *words: str) -> Popen[bytes]:
        its = ("--name", name, "--data", f"{self.folder / name}.npz", "--ledger", f"{self.folder / name}.sqlite")
        return self.federate(name, "site", *its, "--yes", "--force", *words, SFUMATO_RUNS=self.runs(name))

    def mortal(self) -> Popen[bytes]:
        words = ("tests.federation.flower.story", self.address, str(self.folder))
        return self.started.python("isle", *words, SFUMATO_RUNS=self.runs("isle"))

    def coordinator(self) -> Popen[bytes]:
        out = ("--out", str(self.folder / "release"), "--count", "100")
        return self.federate("coordinator", "coordinate", *out, "--timeout", TIMEOUT)

    def runs(self, name: str) -> str:
        return str(self.folder / f"{name}-runs")

    def charged(self, name: str) -> tuple[str, float]:
        """Status and epsilon of the one run in the ledger of a site."""
        with sqlite3.connect(self.folder / f"{name}.sqlite") as db:
            ((run,),) = db.execute("SELECT run FROM runs").fetchall()
        with Ledger(self.folder / f"{name}.sqlite") as ledger:
            found = ledger.run(run)
        assert found is not None
        return str(found["status"]), float(found["charged"]["epsilon"])

    def answered(self, questions: int, by: Popen[bytes]) -> None:
        """Until the coordinator has the answer to so many questions."""
        place = self.folder / ".release.federation" / f"answer-{questions * BATCH}"

        def there() -> bool:
            assert by.poll() is None, self.started.told("coordinator")
            return place.exists()

        until(there, LONG)


def test_every_ledger_is_charged_once_whoever_is_killed(started, tmp_path):
    houses = Houses(started, tmp_path)
    isle = houses.mortal()
    sites = [houses.site(name) for name in ("north", "south")]
    first = houses.coordinator()
    houses.answered(3, first)
    assert isle.wait() == -signal.SIGKILL  # at the second question, which went on without it, as did the third
    spent = {name: houses.charged(name) for name in RECORDS}
    assert all(status == "begun" and 0.9 < epsilon <= 1 for status, epsilon in spent.values())

    kill(first)
    (run,) = Path(houses.runs("isle")).iterdir()
    sites.append(houses.site("isle", "--resume", run.name))
    assert {name: houses.charged(name) for name in RECORDS} == spent

    assert houses.coordinator().wait(timeout=LONG) == 0, started.told("coordinator")
    assert [process.wait(timeout=LONG) for process in sites] == [0, 0, 0]
    after = {name: houses.charged(name) for name in RECORDS}
    assert after == {name: ("committed", epsilon) for name, (_, epsilon) in spent.items()}
    assert not any(path.is_file() for name in RECORDS for path in Path(houses.runs(name)).rglob("*"))
    assert verify(tmp_path / "release").ok
