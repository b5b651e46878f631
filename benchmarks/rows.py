"""Whether what one record adds to a sum depends on anything else in its batch, on the device and with the flags in use.

    python -m benchmarks.rows [--device cuda] [--only dpgan dpdm] [--out FILE.json]
    python -m benchmarks.rows --steps [--device cuda] [--against FOLDER] [--out FILE.json]

For every method that samples records, and every precision that it offers, the real question of a real network is put to
pages of the shape that the barrier uses. The term of one record is read off a page whose other places hold nothing,
other records, or the same record again ("fillings"), at other places of the page ("places"), and on pages of other
sizes ("shapes", which the barrier never mixes). Shown is how far it moves at most, in bounds C.

With `--steps`, the time of a private step of DPDM and DPGAN through a barrier around made-up records; `--against` names
a folder with another version of the package, whose steps take turns with these.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfumato import Budget, DataSpec, Run, load
from sfumato.engine.gradients.per_example import ClippedGradient
from sfumato.methods import find, names
from sfumato.privacy.bounds import BoundedSum
from sfumato.recipes import RECIPES
from sfumato.run.progress import Silent

SPECS = {
    "28 pixels": DataSpec("made up", 60_000, (1, 28, 28), tuple("0123456789")),
    "64 pixels": DataSpec("made up", 28_000, (3, 64, 64), ("0", "1")),
}
SIZES = {"28 pixels": (160, 1120), "64 pixels": (160,)}  # places of a page
OTHERS = (96, 128, 192)  # rows of pages of other sizes
SHORT = {"steps": 40, "embedding_share": 0.0, "public_steps": 0, "inner": 1, "first": 1, "conv1": "private"}
STEPS = {"dpdm": "dpdm-ours-mnist-10", "dpgan": "dpgan-revised-mnist-10"}


def sampled(only: list[str]) -> Iterator[tuple[str, Any]]:
    """Every method whose plan samples records, with settings in which little comes before the first question."""
    spec = SPECS["28 pixels"]
    budget = Budget(10.0)
    for name in names():
        if only and name not in only:
            continue
        cls = find(name)
        known = {f.name: f.default for f in fields(cls)}
        short = {k: v for k, v in SHORT.items() if k in known and type(known[k]) is type(v)}
        try:
            method = cls(**short)
            crossings = method.plan(spec, budget).crossings.values()
        except ValueError:
            method = cls()
            crossings = method.plan(spec, budget).crossings.values()
        if any(c.sampler.rate < 1 and not c.held for c in crossings):
            yield name, method


def precisions(query: Any) -> Iterator[tuple[str, Any, bool]]:
    """Its name, the question so set, and whether convolutions may use TensorFloat-32, as they may by default."""
    yield "as shipped", query, True
    yield "without TF32", query, False
    if isinstance(query, ClippedGradient):
        yield "bfloat16" if not query.bfloat16 else "float32", replace(query, bfloat16=not query.bfloat16), True


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Whether cuDNN may use TensorFloat-32; all else stays as it is in use."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def questions(method: Any, spec: DataSpec, device: str) -> dict[str, Any]:
    """The first use of each sampled crossing, as the method puts it."""
    from sfumato.audit.recording.recording_barrier import learn, made_up

    plan = method.plan(spec, Budget(10.0))
    seen = learn(method, plan, made_up(spec, np.random.default_rng(0)), device=device)
    if seen.error is not None:
        raise seen.error
    sampled = {n for n, c in plan.crossings.items() if c.sampler.rate < 1 and not c.held}
    return {a.name: a for a in reversed(seen.barrier.asked) if a.name in sampled and hasattr(a.query, "rows")}


class Page:
    """One question on pages of any filling: the term of one record, as it is added to the sum."""

    def __init__(self, asked: Any, spec: DataSpec, device: str) -> None:
        self.asked = asked
        self.spec = spec
        self.device = device
        random = torch.Generator().manual_seed(1)
        self.one = torch.randint(0, 256, spec.shape, generator=random) / 255
        self.others = torch.randint(0, 256, (max(map(max, SIZES.values())), *spec.shape), generator=random) / 255
        self.labels = torch.randint(0, len(spec.classes), (len(self.others),), generator=random)

    def term(self, rows: int, place: int, filling: str) -> Tensor:
        """Of the record at this place, among others."""
        images = self.others[:rows].clone()
        labels = self.labels[:rows].clone()
        if filling == "blank":
            images = torch.zeros_like(images)
            labels = torch.zeros_like(labels)
        elif filling == "alike":
            images = self.one.expand_as(images).clone()
            labels = torch.zeros_like(labels)
        elif filling == "half":
            images[rows // 2 :] = 0
        images[place] = self.one
        labels[place] = 0
        return self._ask(images.to(self.device), labels.to(self.device), place)

    def _ask(self, images: Tensor, labels: Tensor, place: int) -> Tensor:
        query = self.asked.query
        public = self.asked.public
        with _apart(), torch.no_grad():
            if isinstance(query, BoundedSum):
                return query.bound.project(query.rows(images, labels, *public))[place].cpu()
            there = torch.zeros(len(images), dtype=torch.bool, device=images.device)
            there[place] = True
            return query.total(images, labels, *public, there=there).cpu()

    def moved(self, rows: int) -> dict[str, float]:
        """How far the term moves at most, in bounds."""
        norm = self.asked.query.bound.norm
        usual = self.term(rows, 5, "others")
        away = {
            "fillings": [self.term(rows, 5, f) for f in ("blank", "alike", "half")],
            "places": [self.term(rows, p, "others") for p in (0, 1, 31, rows // 2, rows - 1)],
            "shapes": [self.term(r, 5, f) for r in OTHERS for f in ("others", "alike")],
        }
        return {k: max(float((t - usual).norm()) for t in v) / norm for k, v in away.items()}


def _apart() -> Any:
    from sfumato.privacy import inside

    return inside.apart() if hasattr(inside, "apart") else nullcontext()


def rows(only: list[str], device: str) -> Iterator[dict[str, Any]]:
    """One line for each method, image size, precision and page."""
    for name, method in sampled(only):
        for size, spec in SPECS.items():
            try:
                found = questions(method, spec, device)
            except Exception as error:
                yield {"method": name, "images": size, "failed": f"{error!r}"[:200]}
                continue
            for crossing, asked in found.items():
                for precision, query, allowed in precisions(asked.query):
                    line = {"method": name, "images": size, "crossing": crossing, "precision": precision}
                    with tf32(allowed):
                        for page in SIZES[size]:
                            moved = Page(replace(asked, query=query), spec, device).moved(page)
                            yield line | {"places of a page": page} | moved


class Clock(Silent):
    """The time of each step."""

    def __init__(self, device: str) -> None:
        self._cuda = device.startswith("cuda")
        self.times = []

    def advance(self, done: int, note: str = "") -> None:
        if self._cuda:
            torch.cuda.synchronize()
        self.times.append(time.perf_counter())


def step_time(name: str, device: str, steps: int) -> float:
    """Milliseconds of a private step of a recipe, by median."""
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.odometer import Odometer

    random = np.random.default_rng(0)
    recipe = RECIPES[STEPS[name]]
    images = random.integers(0, 256, (60_000, 1, 28, 28), dtype=np.uint8)
    box = load((images, random.integers(0, 10, 60_000)))
    settings = dict(recipe.settings) | {"steps": steps}
    settings |= {k: v for k, v in {"embedding_share": 0.0, "public_steps": 0}.items() if k in settings}
    method = find(name)(**settings)
    plan = method.plan(box.spec, Budget(10.0))
    clock = Clock(device)
    run = Run(device=device, progress=clock, odometer=None, microbatch=8192)
    method.learn(Barrier(box, box.spec, Odometer(plan), device=run.device, microbatch=8192), run)
    gaps = np.diff(clock.times)[len(clock.times) // 3 :]
    return 1000 * float(statistics.median(gaps))


def compare(device: str, against: str | None, steps: int, turns: int) -> dict[str, Any]:
    """Step times of this version and of another, in turns."""
    folders = {"now": str(Path(__file__).resolve().parents[1])} | ({"before": against} if against else {})
    found: dict[str, Any] = {}
    for name in STEPS:
        times: dict[str, list[float]] = {which: [] for which in folders}
        for _ in range(turns):
            for which, folder in folders.items():
                line = [sys.executable, __file__, "--one", name, "--device", device, "--repeats", str(steps)]
                path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
                done = subprocess.run(line, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
                if done.returncode:
                    raise RuntimeError(f"{which}: {done.stderr[-2000:]}")
                times[which].append(float(done.stdout.split()[-1]))
        found[name] = {which: {"ms": min(t), "all": t} for which, t in times.items()}
        if against:
            found[name]["ratio"] = min(times["now"]) / min(times["before"])
        print(name, found[name], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--against")
    parser.add_argument("--one")
    parser.add_argument("--repeats", type=int, default=90)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.one:
        print(step_time(given.one, given.device, given.repeats))
        return
    result: dict[str, Any] = {"command": "python -m benchmarks.rows " + " ".join(sys.argv[1:])}
    result |= {"torch": torch.__version__, "device": given.device}
    if given.device.startswith("cuda"):
        result["device"] = torch.cuda.get_device_name()
    if given.steps:
        result["steps"] = compare(given.device, given.against, given.repeats, given.turns)
    else:
        result["rows"] = []
        for line in rows(given.only, given.device):
            print(json.dumps(line), flush=True)
            result["rows"].append(line)
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
