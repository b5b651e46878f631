"""Sweeps: free ones touch no ledger and are made once; on private data they are one charge."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sfumato import Budget, InputError, OverBudget
from sfumato.api import budget_of
from sfumato.flow import sweep as module
from sfumato.flow.pool import LocalPool, Pool, tried
from sfumato.flow.sweep import sweep
from sfumato.flow.sweep_plan import read
from sfumato.run.progress import Recorder
from tests.made_up import arrays

TINY = "features: 40, batch: 8, latent: 4, width: 8"
GIVEN = {"data": "digits", "epsilon": 1, "count": 100, "device": "cpu", "methods": f"{{dp-merf: {{{TINY}, steps: 2}}}}"}


def plan(tmp_path, **fields):
    text = "\n".join(f"{name}: {value}" for name, value in (GIVEN | fields).items())
    (tmp_path / "plan.yaml").write_text(text)
    return read(tmp_path / "plan.yaml")


class Here(Pool[int]):
    """Tasks one after the other in this process, counted; some of them fail."""

    where = "here"

    def __init__(self, fail: tuple[int, ...] = ()) -> None:
        super().__init__(1)
        self.made = 0
        self.fail = fail

    def start(self, work, task):
        self.made += 1
        self.last = (None, "MemoryError: none") if self.made in self.fail else tried(work, task)
        return self.made

    def ended(self, going):
        return going

    def answer(self, handle):
        return self.last

    def close(self):
        pass


def contents(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file()}


def test_a_second_call_runs_nothing_and_changes_nothing(tmp_path):
    asked = plan(tmp_path, seeds=2, epsilon="[1, 10]")
    found = sweep(tmp_path / "plan.yaml", tmp_path / "out", pool=Here())
    assert found["made"] == 4 and found["states"] == {"done": 4}
    before = contents(tmp_path / "out")
    pool = Here()
    assert sweep(asked, tmp_path / "out", pool=pool)["made"] == 0 and pool.made == 0
    assert contents(tmp_path / "out") == before
    assert sorted(p for p in before if "/" not in p) == ["comparison.html", "results.csv", "results.json"]


def test_a_longer_plan_makes_what_is_new_alone(tmp_path):
    sweep(plan(tmp_path, seeds=2), tmp_path / "out", pool=Here())
    found = sweep(plan(tmp_path, seeds=3), tmp_path / "out", pool=Here())
    assert found["made"] == 1 and len(found["runs"]) == 3 and len(found["rows"]) == 1


def test_what_failed_is_in_the_table_and_is_tried_again(tmp_path):
    asked = plan(tmp_path, seeds=3)
    found = sweep(asked, tmp_path / "out", pool=Here(fail=(2,)))
    assert found["states"] == {"done": 2, "failed": 1} and "MemoryError" in found["rows"][0]["why"]
    assert sweep(asked, tmp_path / "out", pool=Here())["states"] == {"done": 3}


def test_a_run_whose_file_is_broken_is_made_again(tmp_path):
    asked = plan(tmp_path)
    sweep(asked, tmp_path / "out", pool=Here())
    (file,) = (tmp_path / "out" / "runs").iterdir()
    file.write_text("{")
    assert sweep(asked, tmp_path / "out", pool=Here())["made"] == 1


def test_a_free_sweep_leaves_the_ledger_as_it_is_byte_for_byte(tmp_path):
    images, labels = arrays(40)
    budget_of((images, labels), total=Budget(2.0))
    ledger = Path(os.environ["SFUMATO_LEDGER"])
    before = contents(ledger.parent)
    assert ledger.name in before
    sweep(plan(tmp_path, seeds=2), tmp_path / "out", pool=Here())
    assert contents(ledger.parent) == before
    assert not list((tmp_path / "out").glob(".scratch-*")) and not list(tmp_path.rglob("none.sqlite"))


def test_progress_tells_what_was_asked_and_the_remaining_time_alone(tmp_path):
    recorder = Recorder()
    sweep(plan(tmp_path, seeds=2), tmp_path / "out", pool=Here(), progress=recorder)
    assert recorder.lines[0] == ("start", "sweep", 2) and len(recorder.lines) == 3
    notes = [line[2] for line in recorder.lines[1:]]
    assert all(re.fullmatch(r"dp-merf, epsilon 1, seed \d, \d+ s left", note) for note in notes)


def test_what_cannot_be_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    refusals = [
        (plan(tmp_path), {"out": tmp_path / "full"}, "not empty"),
        (plan(tmp_path), {"ledger": "l.sqlite"}, "leave out --ledger|leave out `ledger"),
        (plan(tmp_path), {"pool": "cloud"}, "local, slurm or ray"),
        (plan(tmp_path, data=str(tmp_path)), {}, "private: yes"),
        (plan(tmp_path, methods="{dp-merf: {stepz: 2}}"), {}, "stepz"),
        (plan(tmp_path, private="yes"), {"pool": "ray"}, "one process"),
    ]
    for asked, options, said in refusals:
        with pytest.raises(InputError, match=said):
            sweep(asked, **({"out": tmp_path / "out", "pool": Here()} | options))
    assert not (tmp_path / "out").exists()


def test_two_sweeps_do_not_work_in_one_folder(tmp_path):
    asked = plan(tmp_path)
    with module._alone(tmp_path / "out", module.RUNS), pytest.raises(InputError, match="Another sweep is at work"):
        sweep(asked, tmp_path / "out", pool=Here())


def scans(tmp_path) -> Path:
    images, labels = arrays(120)
    np.savez(tmp_path / "scans.npz", images=images, labels=labels)
    return tmp_path / "scans.npz"


def private(tmp_path, **fields):
    methods = f"{{dp-merf: {{{TINY}, steps: [2, 3]}}}}"
    return plan(tmp_path, data=scans(tmp_path), private="yes", runs=2, count=6, methods=methods, **fields)


def test_private_data_are_one_charge_and_show_no_run(tmp_path):
    recorder = Recorder()
    release = sweep(private(tmp_path), tmp_path / "out", progress=recorder)
    assert "charged by selection among 2 settings" in release.statement["tuning"]["summary"]
    shown = budget_of(tmp_path / "scans.npz")
    assert len(shown["history"]) == 1 and shown["spent"] == pytest.approx(1.0, rel=1e-3)
    assert recorder.lines == [("start", "selecting", None)]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["release", "selection.json"]
    again = sweep(private(tmp_path), tmp_path / "out")
    assert (
        again.statement["guarantee"] == release.statement["guarantee"]
        and len(budget_of(tmp_path / "scans.npz")["history"]) == 1
    )
    with pytest.raises(InputError, match="another plan"):
        sweep(private(tmp_path, delta="1e-6"), tmp_path / "out")
    with pytest.raises(OverBudget):
        sweep(private(tmp_path), tmp_path / "more")
    assert not (tmp_path / "more" / "selection.json").exists()  # refused, so that it may be asked again


def test_a_selection_that_fails_stays_spent_and_is_not_begun_again_by_itself(tmp_path, monkeypatch):
    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.flow.tune.Selection.state", stop)
    monkeypatch.setattr("sfumato.flow.flow.rehearsed", lambda *given: None)
    with pytest.raises(Exception, match="stays spent"):
        sweep(private(tmp_path), tmp_path / "out")
    monkeypatch.undo()
    spent = budget_of(tmp_path / "scans.npz")["spent"]
    with pytest.raises(InputError, match="begun and did not end"):
        sweep(private(tmp_path), tmp_path / "out")
    assert budget_of(tmp_path / "scans.npz")["spent"] == spent


def started(tmp_path, out: Path, workers: int) -> subprocess.Popen:
    line = [sys.executable, "-m", "sfumato", "sweep", str(tmp_path / "plan.yaml"), "--out", str(out), "--quiet"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))}
    return subprocess.Popen([*line, "--workers", str(workers)], env=environment, stdout=subprocess.DEVNULL)


def digests(out: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in (out / "runs").glob("*.json")}


def test_a_sweep_whose_parent_was_killed_goes_on_where_it_stood(tmp_path):
    asked = plan(tmp_path, seeds=30)
    out = tmp_path / "out"
    with started(tmp_path, out, 1) as parent:
        while not digests(out) and parent.poll() is None:
            time.sleep(0.02)
        parent.send_signal(signal.SIGKILL)
    before = digests(out)
    assert 1 <= len(before) < 30
    time.sleep(2)  # by now the worker has left
    pool = Here()
    found = sweep(asked, out, pool=pool)
    assert pool.made == 30 - len(before) and found["states"] == {"done": 30}
    assert before.items() <= digests(out).items() and not list(out.glob(".scratch-*"))


@pytest.mark.slow
def test_forty_runs_with_two_workers_killed_on_the_way(tmp_path):
    budget_of(arrays(40), total=Budget(2.0))
    home = Path(os.environ["SFUMATO_LEDGER"]).parent
    before = contents(home)
    pool = LocalPool(2)

    class Killing(Recorder):
        def advance(self, done: int, note: str = "") -> None:
            super().advance(done, note)
            if done in (10, 25):
                os.kill(next(w.process.pid for w in pool._team if w not in pool._idle), signal.SIGKILL)

    methods = f"{{dp-merf: {{{TINY}, steps: [2, 20]}}}}"
    asked = plan(tmp_path, seeds=10, epsilon="[1, 10]", methods=methods)
    found = sweep(asked, tmp_path / "out", pool=pool, progress=Killing())
    assert found["states"] == {"done": 40} and len(found["rows"]) == 4
    assert all(len(row["accuracy"]["values"]) == 10 for row in found["rows"])
    assert sum(run["tries"] for run in found["runs"]) == 42
    assert len(json.loads((tmp_path / "out" / "results.json").read_text())["runs"]) == 40
    assert contents(home) == before
