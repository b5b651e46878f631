from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.accounting.budget import Budget, Relation
from sfumato.accounting.gaussian import epsilon_of
from sfumato.errors import OverBudget
from sfumato.ledger.store import Cost, Ledger

PROCESSES, ROUNDS = 8, 6
DIGESTS = np.arange(96, dtype=np.uint8).reshape(3, 32)


def cost(relation: Relation) -> Cost:
    return Cost(0.3, 0.0, lambda delta: epsilon_of(delta, 0.3))


def take(path: Path, name: str = "scans") -> bool:
    with Ledger(path) as ledger:
        try:
            # Room for two such runs (mu 0.3 each under mu 0.49), never for three.
            ledger.reserve(name=name, digests=DIGESTS, budget=Budget(2.0), cost=cost, plan_json="{}", method="m")
        except OverBudget:
            return False
        return True


def compete(folder: Path, start: Any, won: Any, first_taken: bool) -> None:
    for turn in range(ROUNDS):
        start.wait(60)
        if take(folder / f"{first_taken}-{turn}.sqlite", f"set{turn}"):
            won.put(turn)


def winners(folder: Path, *, first_taken: bool) -> list[int]:
    context = multiprocessing.get_context("spawn")
    start, won = context.Barrier(PROCESSES), context.Queue()
    workers = [context.Process(target=compete, args=(folder, start, won, first_taken)) for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    found = []
    while not won.empty():
        found.append(won.get())
    won.close()
    won.join_thread()
    return sorted(found)


def test_of_eight_processes_one_takes_the_last_of_a_budget(tmp_path: Path) -> None:
    for turn in range(ROUNDS):
        assert take(tmp_path / f"True-{turn}.sqlite", f"set{turn}")
    assert winners(tmp_path, first_taken=True) == list(range(ROUNDS))


def test_processes_that_make_the_file_at_once_share_it(tmp_path: Path) -> None:
    assert winners(tmp_path, first_taken=False) == sorted([*range(ROUNDS)] * 2)
    assert len(list(tmp_path.iterdir())) == ROUNDS


def test_threads_share_one_connection(tmp_path: Path) -> None:
    admitted: list[bool] = []
    with Ledger(tmp_path / "ledger.sqlite") as ledger:

        def work() -> None:
            try:
                ledger.reserve(name="scans", digests=DIGESTS, budget=Budget(2.0), cost=cost, plan_json="{}", method="m")
                admitted.append(True)
            except OverBudget:
                admitted.append(False)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(admitted) == [False] * 6 + [True] * 2


def test_a_crash_after_the_reservation_leaves_it_spent(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    script = (
        "import os, sys; from pathlib import Path; import tests.ledger.test_processes as t; "
        "from sfumato.ledger.store import Ledger; a = Ledger(sys.argv[1]); "
        "a.reserve(name='scans', digests=t.DIGESTS, budget=t.Budget(2.0), cost=t.cost, plan_json='{}', method='m'); "
        "os._exit(9)"
    )
    here = Path(__file__).parent
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script, str(path)], env={"PYTHONPATH": str(here.parents[1])}, check=False
        )
        assert done.returncode == 9
    assert not take(path)
    with Ledger(path) as ledger:
        assert [one["status"] for one in ledger.show("scans")["history"]] == ["reserved", "reserved"]
