"""A run that dies at any moment: the ledger never shows less than was touched, and the run can be finished."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sfumato import OverBudget, Release
from sfumato.api import budget_of
from sfumato.flow.request import Request, carry_out, resume

PLACES = ("SFUMATO_LEDGER", "SFUMATO_RUNS", "SFUMATO_CACHE")
SMALL = {"features": "64", "steps": "40", "batch": "4", "latent": "4", "width": "8"}

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    [
        "sfumato.flow.request",
        "sfumato.flow.synthesize",
        "sfumato.methods.embedding.dp_merf",
        "sfumato.release.documents.report",
        "sfumato.ledger.job",
    ]
)


def request(home: Path) -> Request:
    return Request(
        data=str(home / "scans.npz"),
        method="dp-merf",
        epsilon=2.0,
        settings=SMALL,
        count=30,
        labels="uniform",
        seed=1,
        out=str(home / "release"),
        device="cpu",
    )


@pytest.fixture
def home(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (300, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "scans.npz", images=images, labels=np.arange(300) % 3)
    return tmp_path


def work(home: Path, places: dict[str, str], run: str | None, touched: Path, pause: float) -> None:
    """A whole run in a process of its own, which notes durably every time a record is read."""
    import torch

    from sfumato.data.private import Records
    from sfumato.flow import flow
    from sfumato.flow.first_audit import passed
    from sfumato.run import run as running

    os.environ.update(places)
    torch.set_num_threads(1)
    read = Records.read

    def noted(self, rows):
        descriptor = os.open(touched, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, b"read\n")
        os.fsync(descriptor)
        os.close(descriptor)
        time.sleep(pause)  # so that some kills fall inside a crossing
        return read(self, rows)

    Records.read = noted
    throttle = running.Throttle
    running.Throttle = lambda seconds: throttle(0.0)  # a checkpoint after each step
    flow.audit_first = lambda *_: passed("cpu")  # seconds in which nothing can be lost
    flow.rehearsed = lambda *_: None  # nor here, and it reads records that are made up
    if run is None:
        carry_out(request(home))
    else:
        resume(run)


def start(home: Path, run: str | None = None, pause: float = 0.0) -> multiprocessing.Process:
    places = {name: os.environ[name] for name in PLACES}
    process = context.Process(target=work, args=(home, places, run, home / "touched", pause))
    process.start()
    return process


def unfinished() -> list[str]:
    folder = Path(os.environ["SFUMATO_RUNS"])
    return [p.name for p in folder.glob("[!.]*")] if folder.is_dir() else []


def clean(home: Path) -> None:
    for path in (home / "release", Path(os.environ["SFUMATO_RUNS"])):
        shutil.rmtree(path, ignore_errors=True)
    for path in (home / "touched", Path(os.environ["SFUMATO_LEDGER"])):
        path.unlink(missing_ok=True)


def finish(home: Path) -> None:
    """Resume until the release is there, with one charge and the planned guarantee."""
    for run in unfinished():
        process = start(home, run)
        process.join(120)
        assert process.exitcode == 0
    shown = budget_of(str(home / "scans.npz"))
    assert len(shown["history"]) == 1
    assert shown["spent"] == pytest.approx(2.0, abs=1e-6)
    statement = json.loads((home / "release" / "privacy.json").read_text())
    assert statement["guarantee"]["epsilon"] == pytest.approx(2.0, abs=1e-6)
    assert len(Release.load(home / "release").images) == 30
    assert unfinished() == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("moments", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments(home, moments):
    for _ in range(2):  # the first one warms the server that processes are forked from
        clean(home)
        started = time.monotonic()
        process = start(home, pause=0.02)
        process.join(120)
        assert process.exitcode == 0
    whole = time.monotonic() - started
    chance, seen = random.Random(), {"before": 0, "during": 0, "after": 0}
    for _ in range(moments):
        clean(home)
        process = start(home, pause=0.02)
        time.sleep(chance.uniform(0.1, 1.0) * whole)
        process.kill()
        process.join()
        spent = budget_of(str(home / "scans.npz"))["spent"]
        if (home / "touched").exists():
            assert spent == pytest.approx(2.0, abs=1e-6), "a record was read and the ledger does not show it"
        if unfinished():
            seen["during"] += 1
            finish(home)
        else:
            seen["after" if (home / "release").exists() else "before"] += 1
            assert (home / "release").exists() or spent == 0
    assert seen["during"] >= moments // 4, seen


def stopped_run(home: Path) -> str:
    """A run killed in the middle of training."""
    for _ in range(20):
        clean(home)
        process = start(home, pause=0.05)
        deadline = time.monotonic() + 60
        while (
            not list(Path(os.environ["SFUMATO_RUNS"]).glob("*/checkpoint.safetensors")) and time.monotonic() < deadline
        ):
            time.sleep(0.005)
        process.kill()
        process.join()
        if unfinished() and not (home / "release").exists():
            return unfinished()[0]
    raise AssertionError("no run could be stopped in the middle")


def test_a_copied_checkpoint_is_refused_the_second_time(home):
    run = stopped_run(home)
    folder, copy = Path(os.environ["SFUMATO_RUNS"]) / run, home / "copy" / run
    shutil.copytree(folder, copy)
    finish(home)
    shutil.move(home / "release", home / "first")
    with pytest.raises(OverBudget):
        resume(str(copy))
    assert not (home / "release").exists()


def test_an_original_that_was_resumed_elsewhere_may_not_release(home):
    run = stopped_run(home)
    folder, copy = Path(os.environ["SFUMATO_RUNS"]) / run, home / "copy" / run
    shutil.copytree(folder, copy)
    resume(str(copy))  # the copy goes first and wins
    shutil.move(home / "release", home / "first")
    with pytest.raises(OverBudget):
        resume(run)
    assert not (home / "release").exists()


def test_a_resumed_run_must_have_the_same_data(home):
    run = stopped_run(home)
    with np.load(home / "scans.npz") as file:
        images, labels = file["images"].copy(), file["labels"]
    images[0] = 255 - images[0]
    np.savez(home / "scans.npz", images=images, labels=labels)
    with pytest.raises(Exception, match="data changed"):
        resume(run)


def test_two_runs_at_once_cannot_overspend(home):
    for attempt in range(2):
        clean(home)
        pair = []
        for side in ("a", "b"):
            place = home / f"{side}{attempt}"
            place.mkdir()
            shutil.copy(home / "scans.npz", place)
            pair.append(start(place))
        for process in pair:
            process.join(120)
        done = [(home / f"{side}{attempt}" / "release").exists() for side in ("a", "b")]
        assert sorted(done) == [False, True]
        shown = budget_of(str(home / "scans.npz"))
        assert shown["spent"] == pytest.approx(2.0, abs=1e-6) and len(shown["history"]) == 1


def test_a_changed_image_does_not_open_a_new_budget(home):
    carry_out(request(home))
    with np.load(home / "scans.npz") as file:
        images, labels = file["images"].copy(), file["labels"]
    images[0] = 255 - images[0]
    moved = home / "elsewhere"
    moved.mkdir()
    np.savez(moved / "scans.npz", images=images, labels=labels)
    with pytest.raises(OverBudget, match="shares records or persons"):
        carry_out(request(moved))
    assert not (moved / "release").exists() and not (home / "touched").exists()
    assert unfinished() == []


RANKED = [
    "--method",
    "dpgan",
    "--epsilon",
    "2",
    "--labels",
    "uniform",
    "--device",
    "cpu",
    "--count",
    "30",
    *("--set", "steps=3000", "--set", "batch=60", "--set", "fakes=4", "--set", "latent=4", "--set", "width=8"),
    *("--set", "critic_width=4", "--set", "generator=conv", "--yes", "--force", "--quiet"),
]


def ranks(count: int, *given: str) -> subprocess.Popen[str]:
    """`sfumato synthesize` in so many processes."""
    together = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}") if count > 1 else ()
    command = [sys.executable, *together, "-m", "sfumato", "synthesize", *given]
    here = str(Path(__file__).parents[2])
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": here}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)


def process_of(torchrun: int, rank: int) -> int:
    """The number of the process that has this rank."""
    for child in Path(f"/proc/{torchrun}/task/{torchrun}/children").read_text().split():
        if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError(f"there is no rank {rank}")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_rank_ends_the_run_and_another_number_of_ranks_takes_it_up(home):
    data = str(home / "scans.npz")
    run = ranks(2, data, *RANKED, "--out", str(home / "release"))
    runs = Path(os.environ["SFUMATO_RUNS"])
    while not list(runs.glob("*/checkpoint.safetensors")):
        assert run.poll() is None, run.communicate()[0]
        time.sleep(0.05)
    os.kill(process_of(run.pid, 1), signal.SIGKILL)
    said = run.communicate(timeout=240)[0]
    assert run.returncode != 0 and "A rank of this run was lost" in said
    assert budget_of(data)["spent"] == pytest.approx(2.0, rel=1e-3) and not (home / "release").exists()
    again = ranks(3, "--resume", unfinished()[0], "--quiet")
    said = again.communicate(timeout=600)[0]
    assert again.returncode == 0, said
    shown = budget_of(data)
    assert len(shown["history"]) == 1 and shown["spent"] == pytest.approx(2.0, rel=1e-3)
    assert len(Release.load(home / "release").images) == 30 and unfinished() == []
