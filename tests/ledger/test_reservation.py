"""What is spent and what is given back, whatever moment a run fails, is stopped or is killed at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sfumato import DPMERF, Budget, InputError, OverBudget, Run
from sfumato.api import budget_of, synthesize
from sfumato.errors import Interrupted, Unfinished
from sfumato.flow.first_audit import passed
from sfumato.ledger.charge import account_name
from sfumato.ledger.job import Job, runs_folder
from sfumato.ledger.store import Ledger, default_path
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from tests.made_up import arrays, box

TINY = DPMERF(features=20, steps=3, batch=4, latent=4, width=8)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Audits and rehearsals have tests of their own."""
    monkeypatch.setattr("sfumato.flow.flow.audit_first", lambda *_: passed("cpu"))
    monkeypatch.setattr("sfumato.flow.flow.rehearsed", lambda *_, **__: None)


def run(**options):
    return synthesize(TINY, box(), Budget(2.0), Run(device="cpu"), count=3, **options)


def history():
    shown = budget_of(arrays())
    return shown["spent"], [one["status"] for one in shown["history"]]


def failing(error, before: bool):
    """A `Barrier.release` that fails, before or after a record is read."""
    release = Barrier.release

    def failed(self, *given):
        if not before:
            release(self, *given)
        raise error

    return failed


@pytest.mark.parametrize("error", [InputError("No."), MemoryError(), OSError(28, "no space"), ZeroDivisionError()])
def test_what_fails_before_the_first_crossing_is_given_back(monkeypatch, error):
    monkeypatch.setattr(Barrier, "release", failing(error, before=True))
    with pytest.raises(type(error)):
        run()
    assert history() == (0.0, ["returned"]) and not list(runs_folder().iterdir())


@pytest.mark.parametrize("stopped", [Interrupted("Stopped."), KeyboardInterrupt()])
def test_what_is_stopped_before_the_first_crossing_is_given_back(monkeypatch, stopped):
    monkeypatch.setattr(Barrier, "release", failing(stopped, before=True))
    with pytest.raises(Interrupted, match="what was reserved is given back"):
        run()
    assert history() == (0.0, ["returned"]) and not list(runs_folder().iterdir())


@pytest.mark.parametrize(
    "error", [InputError("No."), MemoryError(), RuntimeError("CUDA out of memory"), OSError(28, "no space")]
)
def test_what_fails_later_stays_spent_and_says_so_with_a_status_of_its_own(monkeypatch, error):
    monkeypatch.setattr(Barrier, "release", failing(error, before=False))
    with pytest.raises(Unfinished, match="stays spent, and nothing is lost: go on with resume=") as raised:
        run()
    assert raised.value.exit_code not in (1, 2, 3, 4, 5, 130) and not isinstance(raised.value, InputError)
    spent, statuses = history()
    assert spent == pytest.approx(2.0) and statuses == ["begun"]


def test_a_resumed_run_goes_on_under_what_it_began_with(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Barrier, "release", failing(MemoryError(), before=False))
        with pytest.raises(Unfinished):
            run()
    (folder,) = runs_folder().iterdir()
    assert len(run(resume=folder.name).images) == 3
    assert history()[1] == ["committed"]


def test_the_mark_is_durable_before_a_record_is_read(monkeypatch):
    seen, name = [], account_name(box())

    def looked(self, rows):
        with Ledger(default_path()) as ledger:
            seen.append((ledger.unbegun(), [r["status"] for r in ledger.show(name)["history"]]))
        raise MemoryError

    monkeypatch.setattr("sfumato.privacy.inside.Sums._batch", looked)
    with pytest.raises(Unfinished):
        run()
    assert seen == [([], ["begun"])]


def test_a_reservation_that_was_given_back_lets_nothing_cross(monkeypatch):
    """A living run from which it was taken finds out before it reads."""
    charge = Odometer.charge

    def taken(self, *given):
        with Ledger(default_path()) as ledger, ledger._store.writing() as db:
            db.execute("UPDATE runs SET status = 'returned'")
        return charge(self, *given)

    monkeypatch.setattr(Odometer, "charge", taken)
    monkeypatch.setattr("sfumato.privacy.inside.Sums._batch", lambda *_: pytest.fail("a record was read"))
    with pytest.raises(OverBudget, match="was given back, since nothing had crossed"):
        run()
    assert history() == (0.0, ["returned"])


KILLED = """
import os, sys
import numpy as np
from sfumato import DPMERF, Budget, Run, api, load
from sfumato.flow import flow
from sfumato.flow.first_audit import passed
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.inside import Sums
from sfumato.run.run import Run
flow.audit_first = lambda *_: passed('cpu')
flow.rehearsed = lambda *_, **__: None
if sys.argv[1] == "before":
    Barrier.release = lambda *_: os._exit(9)
else:
    Sums._batch = lambda *_: os._exit(9)
images, labels = np.load(sys.argv[2]).values()
method = DPMERF(features=20, steps=3, batch=4, latent=4, width=8)
api.synthesize(method, load((images, labels)), Budget(2.0), Run(device="cpu"), count=3, force=True)
"""


def killed(when: str, place: Path) -> None:
    """A run whose process is gone right before, or right after, it marked its first crossing."""
    images, labels = arrays()
    np.savez(place / "set.npz", images=images, labels=labels)
    command = [sys.executable, "-c", KILLED, when, str(place / "set.npz")]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, check=False, capture_output=True)
    assert done.returncode == 9, done.stderr


def test_killed_before_the_first_crossing_it_is_given_back_when_the_ledger_is_next_opened(tmp_path):
    killed("before", tmp_path)
    with Ledger(default_path()) as ledger:
        (name,) = ledger.unbegun()
    assert (runs_folder() / name).is_dir()
    assert history() == (0.0, ["returned"]) and not (runs_folder() / name).exists()


def test_a_new_run_gives_back_what_a_killed_one_left(tmp_path):
    killed("before", tmp_path)
    run()
    assert history()[1] == ["returned", "committed"]


def test_a_killed_run_may_still_be_resumed_under_its_reservation(tmp_path):
    killed("before", tmp_path)
    (folder,) = runs_folder().iterdir()
    run(resume=folder.name)
    assert history()[1] == ["committed"]


def test_killed_right_after_the_mark_it_stays_spent(tmp_path):
    killed("after", tmp_path)
    spent, statuses = history()
    assert spent == pytest.approx(2.0) and statuses == ["begun"] and list(runs_folder().iterdir())


def test_what_a_living_process_holds_is_left_to_it(tmp_path):
    killed("before", tmp_path)
    (folder,) = runs_folder().iterdir()
    job = Job.find(folder.name)  # as the process that holds it would
    assert history()[1] == ["reserved"]
    job.close()
    assert history()[1] == ["returned"]


def test_a_run_whose_folder_is_elsewhere_is_left_alone(tmp_path, monkeypatch):
    killed("before", tmp_path)
    with monkeypatch.context() as patched:
        patched.setenv("SFUMATO_RUNS", str(tmp_path / "other"))
        assert history()[1] == ["reserved"]
    assert history()[1] == ["returned"]
