"""A pool: every task has its outcome, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sfumato.flow.pool import TRIES, LocalPool, time_left


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def work(task):
    """Twice the number; a worker may be killed on the way, once or always."""
    number, fatal = task
    if fatal == "always":
        die()
    if fatal and not Path(fatal).exists():
        Path(fatal).touch()
        die()
    if number < 0:
        raise ValueError(f"{number} is\nbelow zero")
    return 2 * number, os.getpid()


def test_forty_tasks_survive_two_killed_workers(tmp_path):
    fatal = {7: str(tmp_path / "a"), 23: str(tmp_path / "b")}
    outcomes = list(LocalPool(2).map(work, [(n, fatal.get(n)) for n in range(40)]))
    assert sorted(o.number for o in outcomes) == list(range(40))
    assert all(o.found[0] == 2 * o.number and not o.lost for o in outcomes)
    assert {o.number: o.tries for o in outcomes if o.tries != 1} == {7: 2, 23: 2}
    assert len({o.found[1] for o in outcomes}) <= 4  # workers serve many tasks: two, and two that took their places


def test_a_task_that_always_kills_is_given_up_and_the_others_go_on():
    outcomes = {o.number: o for o in LocalPool(1).map(work, [(1, None), (2, "always"), (3, None)])}
    assert outcomes[1].tries == TRIES and "killed" in outcomes[1].lost and outcomes[1].found is None
    assert outcomes[0].found[0] == 2 and outcomes[2].found[0] == 6


def test_a_task_that_raises_is_told_in_a_line_and_not_tried_again():
    (outcome,) = LocalPool(1).map(work, [(-1, None)])
    assert outcome.lost == "ValueError: -1 is below zero" and outcome.tries == 1


def test_nothing_to_do_starts_nobody():
    pool = LocalPool(2)
    assert list(pool.map(work, [])) == [] and pool.pids() == []


def test_whoever_stops_looking_leaves_no_worker_behind():
    pool = LocalPool(1)
    outcomes = pool.map(work, [(n, None) for n in range(5)])
    _, pid = next(outcomes).found
    assert pool.pids() == [pid]
    outcomes.close()
    assert pool.pids() == [] and not Path(f"/proc/{pid}").exists()


OWNER = """
import sys
from sfumato.flow.pool import LocalPool
from tests.flow.test_pool import linger

if __name__ == "__main__":
    for outcome in LocalPool(1).map(linger, [0, 60]):
        print(outcome.found, flush=True)
"""


def linger(seconds: int) -> int:
    time.sleep(seconds)
    return os.getpid()


def test_workers_leave_with_an_owner_that_is_killed(tmp_path):
    (tmp_path / "owner.py").write_text(OWNER)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))}
    with subprocess.Popen([sys.executable, tmp_path / "owner.py"], stdout=subprocess.PIPE, env=environment) as owner:
        worker = int(owner.stdout.readline())
        owner.kill()
    end = time.monotonic() + 20
    while _alive(worker) and time.monotonic() < end:
        time.sleep(0.1)
    assert not _alive(worker)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("seconds", "said"), [(0.2, "0 s"), (89, "89 s"), (5400, "90 min")])
def test_a_remaining_time_is_short(seconds, said):
    assert time_left(seconds) == said
