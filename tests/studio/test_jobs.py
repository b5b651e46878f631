"""The queue: in order, one at a time, and whole after a kill -9 of everything."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from sfumato.api import budget_of
from sfumato.studio.jobs import Jobs
from tests.studio.servers import Server, Visitor, home_in, until

SLOW = "features=64\nsteps=800\nbatch=4\nlatent=4\nwidth=8"


def states(home: Path) -> list[str]:
    return [job.state for job in Jobs(home / "sfumato_studio" / "jobs").all()]


def checkpoints(home: Path) -> list[Path]:
    return list((home / "sfumato_runs").glob("*/checkpoint.safetensors"))


def training(home: Path) -> int | None:
    """The process of a run that has crossed."""
    started = list((home / "sfumato_studio" / "jobs").glob("*/started"))
    return int(started[0].read_text()) if started and checkpoints(home) else None


def charged_once(home: Path, epsilon: float) -> None:
    shown = budget_of(str(home / "data" / "scans.npz"), ledger=home / "sfumato_ledger")
    assert len(shown["history"]) == 1 and shown["spent"] == pytest.approx(epsilon, rel=1e-4)


@pytest.mark.timeout(180)
def test_a_server_and_a_run_that_are_killed_lose_nothing_and_are_charged_once(tmp_path):
    home = home_in(tmp_path)
    with Server(home) as server:
        visitor = Visitor(server)
        visitor.approved(visitor.declared(), set=SLOW)
        run = until(lambda: training(home))
        server.end()
        os.kill(run, 0)  # it goes on without the server
        os.kill(run, signal.SIGKILL)
    charged_once(home, 2.0)

    with Server(home) as again:
        visitor = Visitor(again)
        page = visitor.get("/runs")
        assert "Its process is gone" in page and "Resume, at no further cost" in page
        (name,) = [path.name for path in (home / "sfumato_runs").glob("[!.]*")]
        visitor.post("/unfinished/resume", run=name)
        until(lambda: states(home) == ["lost", "done"], 120)
        assert "Look at the release" in visitor.get("/runs")
        visitor.get("/release/made")
    charged_once(home, 2.0)


@pytest.mark.timeout(180)
def test_a_run_outlives_its_server_and_is_stopped_by_the_next(tmp_path):
    home = home_in(tmp_path)
    with Server(home) as server:
        visitor = Visitor(server)
        visitor.approved(visitor.declared(), set=SLOW.replace("800", "200000"))
        until(lambda: training(home))
        server.end()
    with Server(home) as again:
        visitor = Visitor(again)
        assert states(home) == ["running"] and "Stop; it can be resumed" in visitor.get("/runs")
        (job,) = Jobs(home / "sfumato_studio" / "jobs").all()
        visitor.post(f"/runs/{job.id}/stop")
        until(lambda: states(home) == ["stopped"])
        assert "Nothing is lost" in visitor.get("/runs")
    charged_once(home, 2.0)


def test_jobs_begin_in_their_order_and_one_at_a_time(tmp_path, monkeypatch):
    jobs = Jobs(tmp_path)
    begun = []
    monkeypatch.setattr(jobs, "_begin", lambda place: (begun.append(place.name), (place / "started").write_text("1")))
    names = [jobs.add("audit", f"job {n}", "custodian 1") for n in range(2)]
    first, second = sorted(names)
    assert jobs.step() == first and begun == [first]
    monkeypatch.setattr(jobs, "_state", lambda place, result: "running" if place.name == first else "waiting")
    assert jobs.step() is None
    assert jobs.folder.stat().st_mode & 0o777 == 0o700 and second


def test_what_waits_is_taken_out_without_a_trace(tmp_path):
    jobs = Jobs(tmp_path)
    name = jobs.add("audit", "a job", "custodian 1")
    jobs.stop(name)
    assert jobs.find(name).state == "stopped" and jobs.step() is None


def test_a_half_written_line_of_progress_is_left_out(tmp_path):
    jobs = Jobs(tmp_path)
    name = jobs.add("audit", "a job", "custodian 1")
    line = json.dumps({"stage": "training", "done": 3, "total": 4})
    (jobs.place(name) / "progress.jsonl").write_text(f'{line}\n{{"stage": "tra')
    assert jobs.find(name).percent == 75
