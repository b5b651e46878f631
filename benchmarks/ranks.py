"""Several ranks: steps a second of DP-SGD on this machine, and a simulation of several GPUs.

    python -m benchmarks.ranks [--pages 0.9] [--out FILE.json]

Measured: DPDM and DPGAN with small networks, by 1 and by 2 gloo ranks of one thread each, on made-up records: the time
of a step, of what the ranks share out (the pages) and of what each does by itself (noise, optimiser, generator), and
the bytes that a step sends. On a machine that does other work too the time of a step says little of the ranks: the CPU
time that the first rank has in a step is shown beside it.

Simulated, and marked so: a step on several GPUs, from that of one H200 (`results/steps-h200.json`, two recipes) and
the number of their parameters. Of a step the share `--pages`, which was not measured there, is dealt out evenly; each
rank does the rest, and a ring sends the sum of gradients (float64) and then the noisy answer at a stated speed of the
link. Nothing else is counted: neither a slow rank, nor latency, nor that pages are whole.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.utility import command

STEPS = 6
WARM = 2
RANKS = (1, 2)
GPUS = (1, 2, 4, 8)
LINKS = {"PCIe 4.0 x16 (25 GB/s)": 25e9, "NVLink (200 GB/s)": 200e9, "Ethernet (1.25 GB/s)": 1.25e9}
BATCH = 96
RECIPES = {"dpdm": "dpdm-ours-mnist-10", "dpgan": "dpgan-revised-mnist-10"}  # of benchmarks.rows --steps
METHODS: dict[str, dict[str, Any]] = {
    "dpdm": {
        "batch": BATCH,
        "noise_multiplicity": 2,
        "width": 8,
        "depth": 2,
        "embedding_share": 0.0,
        "public_steps": 0,
    },
    "dpgan": {"batch": 2 * BATCH, "fakes": 16, "generator": "conv", "width": 16, "critic_width": 32},
}


def measure(name: str) -> dict[str, Any]:
    """One rank: seconds of a step, and of the pages within it; of the first rank, told by it."""
    import numpy as np
    import torch

    from sfumato import Budget, Run, load
    from sfumato.methods import find
    from sfumato.privacy.barrier import Barrier, behind
    from sfumato.privacy.odometer import Odometer
    from sfumato.privacy.pages import rows_for
    from sfumato.privacy.ranks import join

    torch.set_num_threads(1)
    ranks = join()
    images = np.random.default_rng(0).integers(0, 256, (8000, 28, 28), dtype=np.uint8)
    box = load((images, np.arange(8000) % 10))
    method = find(name)(**METHODS[name], steps=STEPS)
    run = Run("cpu", odometer=Odometer(method.plan(box.spec, Budget(10.0))), ranks=ranks)
    run._note = lambda step, total: ""  # told a hundred times in a long run, and here it would be at every step
    # The same pages by all, so that only the number of ranks differs.
    barrier = Barrier(box, box.spec, run.odometer, microbatch=rows_for(BATCH, 1024, max(RANKS)), ranks=ranks)
    marks, pages, sizes, busy = [], [], [], []
    inside = behind(barrier)

    def heard(_: str, total: Any) -> None:
        marks.append(time.perf_counter())
        busy.append(time.process_time())
        sizes.append(total.numel())

    inside._heard = heard
    total = inside.sums.total

    def timed(*given: Any, **named: Any) -> Any:
        began = time.perf_counter()
        found = total(*given, **named)
        pages.append(time.perf_counter() - began)
        return found

    inside.sums.total = timed
    method.learn(barrier, run)
    step, cpu = ((seen[-1] - seen[WARM]) / (len(seen) - 1 - WARM) for seen in (marks, busy))
    ranks.wait()
    found = {"step_s": step, "cpu_s": cpu, "pages_s": float(np.mean(pages[WARM:])), "bytes": 8 * sizes[-1]}
    return {**found, "first": ranks.first}


def _ranks(count: int, name: str) -> dict[str, Any]:
    """So many processes; what the first has measured."""
    own = [sys.executable, "-m", "benchmarks.ranks", "--one", name]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "found.json"
        subprocess.run(
            [*(torchrun + ["--no-python"] if count > 1 else []), *own, "--out", str(file)],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        found: dict[str, Any] = json.loads(file.read_text())
    return {"method": name, "ranks": count, "steps_per_second": 1 / found["step_s"], **found}


def simulated(step: float, pages: float, parameters: int) -> list[dict[str, Any]]:
    """Steps a second of several GPUs, from the step of one: what is shared out, what is not, and what is sent."""
    rows = []
    for link, speed in LINKS.items():
        for gpus in GPUS:
            # A ring sends each number twice but for a share, and the answer of the first once more.
            sent = 8 * parameters * (2 * (gpus - 1) / gpus + (gpus > 1))
            took = step - pages + pages / gpus + sent / speed
            rows.append({"gpus": gpus, "link": link, "steps_per_second": 1 / took, "speedup": step / took})
    return rows


def _fastest(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Of several turns, with the times of all."""
    best = min(turns, key=lambda turn: turn["step_s"])
    return {**best, "all_step_s": [turn["step_s"] for turn in turns]}


class _Asked(Exception):
    """The first question of DP-SGD, which has told its size."""


def parameters(recipe: str) -> int:
    """Of the network whose gradients cross: the size of the first question of a recipe's DP-SGD."""
    from dataclasses import replace

    from sfumato import Budget, Run
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.odometer import Odometer
    from sfumato.recipes import find

    made = find(recipe)
    method = made.make()
    known = {"embedding_share": 0.0, "public_steps": 0}
    method = replace(method, **{name: value for name, value in known.items() if hasattr(method, name)})

    class Behind:
        spec = made.spec()
        odometer = Odometer(method.plan(made.spec(), Budget(made.epsilon, made.delta)))

        def release(self, name: str, query: Any, *public: Any) -> Any:
            raise _Asked(query.answer_shape(10)[0])

    try:
        method.learn(Barrier.before(Behind()), Run("cpu"))  # type: ignore[arg-type]
    except _Asked as told:
        return int(told.args[0])
    raise AssertionError("nothing was asked")


def simulation(share: float) -> dict[str, Any]:
    """Both recipes on several GPUs."""
    steps = json.loads((Path(__file__).parent / "results" / "steps-h200.json").read_text())["steps"]
    found = {}
    for name, recipe in RECIPES.items():
        step = steps[name]["now"]["ms"] / 1000
        size = parameters(recipe)
        found[recipe] = {"step_s": step, "parameters": size, "rows": simulated(step, share * step, size)}
        for row in found[recipe]["rows"]:
            told = f"{row['steps_per_second']:.1f} steps/s, {row['speedup']:.2f} times one"
            print(f"SIMULATED  {recipe}, {row['gpus']} GPUs, {row['link']}: {told}")
    return {"simulated": True, "pages_share": share, "from": "steps-h200.json", "recipes": found}


def main(given: argparse.Namespace) -> None:
    """Measure, simulate, print and write."""
    measured = [_fastest([_ranks(count, name) for _ in range(given.turns)]) for name in METHODS for count in RANKS]
    ratios = {}
    for one, two in zip(measured[::2], measured[1::2], strict=True):
        ratios[one["method"]] = {
            "steps_per_second": two["steps_per_second"] / one["steps_per_second"],
            "cpu_of_one_rank": one["cpu_s"] / two["cpu_s"],
        }
        for row in (one, two):
            told = f"{row['steps_per_second']:.2f} steps/s, pages {row['pages_s'] / row['step_s']:.0%} of a step"
            print(f"measured   {row['method']:<6} {row['ranks']} gloo ranks: {told}, {row['bytes']:,} bytes a sum")
        told = " and ".join(f"{name} {value:.2f}" for name, value in ratios[one["method"]].items())
        print(f"measured   {one['method']:<6} two ranks over one: {told} times as good")
    found = {"measured": measured, "ratios": ratios, "simulation": simulation(given.pages)}
    if given.out:
        load = os.getloadavg()[0]
        machine = f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} by other work too, one thread a rank"
        told_of = {"command": command("benchmarks.ranks"), "machine": machine, "date": time.strftime("%Y-%m-%d")}
        given.out.write_text(json.dumps({**told_of, **found}, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", help="measure this method as one of several ranks")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pages", type=float, default=0.9, help="the share of a GPU's step that is dealt out")
    parser.add_argument("--turns", type=int, default=3, help="of each measurement, the fastest of which is told")
    given = parser.parse_args()
    if given.one:
        found = measure(given.one)
        if found.pop("first"):
            given.out.write_text(json.dumps(found))
    else:
        main(given)
