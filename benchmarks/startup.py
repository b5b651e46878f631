"""How long a slip of the finger waits for its answer: `python -m benchmarks.startup`.

Each command line runs in a process of its own, a few times; the first time files may come from the disk, the best time
is what the machine can do. It says which heavy packages were imported. Run it on an idle machine: the aim is two
seconds on two cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

AIM = 2.0
TIMES = 3
HEAVY = ("torch", "scipy", "sklearn", "matplotlib", "pyarrow", "dp_accounting")
NOWHERE = "/no/such/folder"
METHOD = ("--method", "dp-merf", "--epsilon", "1")
LINES: dict[str, tuple[str, ...]] = {
    "help": ("--help",),
    "help of a verb": ("synthesize", "--help"),
    "a mistyped verb": ("sythesize", "scans"),
    "a mistyped flag": ("synthesize", "scans", "--epsilom", "1"),
    "a mistyped method": ("synthesize", "digits", "--method", "dpmerf", "--epsilon", "1"),
    "methods, mistyped": ("methods", "dpmerf"),
    "recipes, mistyped": ("recipes", "dpmerf-code-mnist-1"),
    "a mistyped set": ("synthesize", "fashionmnist", *METHOD),
    "synthesize, missing path": ("synthesize", NOWHERE, *METHOD),
    "synthesize, missing path and no method": ("synthesize", NOWHERE, "--epsilon", "1"),
    "synthesize, place taken": ("synthesize", "digits", *METHOD, "--out", "/"),
    "synthesize, missing config": ("synthesize", "--config", f"{NOWHERE}.yaml"),
    "train-classifier, missing path": ("train-classifier", NOWHERE, "--epsilon", "1"),
    "plan, missing path": ("plan", NOWHERE, *METHOD),
    "budget, missing path": ("budget", NOWHERE),
    "verify, missing path": ("verify", NOWHERE),
    "sample, missing path": ("sample", NOWHERE, "--count", "1", "--out", "more"),
    "refit, missing path": ("refit", NOWHERE, "--out", "again"),
    "evaluate, missing path": ("evaluate", NOWHERE, "--data", NOWHERE),
    "audit, missing path": ("audit", NOWHERE, "--members", NOWHERE, "--nonmembers", NOWHERE),
    "publish, missing path": ("publish", NOWHERE, "--to", "zip:release.zip"),
    "runs, none of this name": ("runs", "nope"),
}
CODE = """
import sys
from sfumato.cli import run
status = run(sys.argv[2:])
print("HEAVY", *(name for name in sys.argv[1].split(",") if name in sys.modules), file=sys.stderr)
sys.exit(status)
"""


def once(argv: tuple[str, ...]) -> tuple[float, int, list[str]]:
    """Seconds, exit status, and the heavy packages that were imported."""
    command = [sys.executable, "-c", CODE, ",".join(HEAVY), *argv]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "80"})
    seconds = time.perf_counter() - began
    last = done.stderr.strip().splitlines()[-1]
    return seconds, done.returncode, last.split()[1:]


def main() -> None:
    """A line for each command line: first and best time, status, and what was imported."""
    print(f"{'command line':<32} {'first':>7} {'best':>7}  status  imported")
    worst = 0.0
    for name, argv in LINES.items():
        seen = [once(argv) for _ in range(TIMES)]
        times = [seconds for seconds, _, _ in seen]
        worst = max(worst, *times)
        heavy = ", ".join(seen[-1][2]) or "-"
        print(f"{name:<32} {times[0]:6.2f}s {min(times):6.2f}s  {seen[-1][1]:>6}  {heavy}")
    print(f"slowest: {worst:.2f} s; aim: {AIM:g} s, on two idle cores")


if __name__ == "__main__":
    main()
