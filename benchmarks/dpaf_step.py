"""What a step of DPAF costs, part by part: `python -m benchmarks.dpaf_step [--recipe NAME] [--records 32] [--times 3]`.

The gradient of conv2* is timed with two clips: all coordinates, and the largest 90 % of them.
Images are made up; nothing crosses a barrier. On a CPU, one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch

from sfumato import Run
from sfumato.engine.gradients.clipping import Flat
from sfumato.engine.gradients.per_example import per_example
from sfumato.engine.gradients.topk import Largest
from sfumato.methods.gan.dpaf.aggregation import along
from sfumato.methods.gan.dpaf.dpaf import CONV2, DPAF, DPAFStep
from sfumato.recipes import find

CLIPS = {"all": Flat(1.0), "the largest": Largest(1.0, 0.9)}


def made(recipe: str, run: Run) -> DPAFStep:
    """The game of a recipe at its full size."""
    found = find(recipe)
    method = found.make()
    assert isinstance(method, DPAF)
    spec = found.spec()
    return DPAFStep(method, method.config(spec), method.players(spec, run, None), noise=1.0)


def seconds(act: Callable[[], Any], times: int, device: str) -> float:
    """The least of some times, after one that does not count."""
    found = []
    for _ in range(times + 1):
        start = time.perf_counter()
        act()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return min(found[1:])


def main() -> None:
    """Time the parts and print one JSON object."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--recipe", default="dpaf-paper")
    ask.add_argument("--records", type=int, default=32)
    ask.add_argument("--times", type=int, default=3)
    given = ask.parse_args()
    torch.set_num_threads(1)
    run = Run()
    step = made(given.recipe, run)
    spec = find(given.recipe).spec()
    lower = step.critic.lower
    n = given.records
    images = torch.rand(n, *spec.shape, device=run.device)
    labels = torch.arange(n, device=run.device) % len(spec.classes)
    slope = torch.randn(len(step.critic.shares), *lower.shape, device=run.device)
    parts: dict[str, Callable[[], Any]] = {
        "terms of a sum": lambda: step.sums.rows(images, labels),
        "fakes": lambda: step.players.fakes(n, run, 0),
        "step of the generator": lambda: step.generator_step(run, 0),
    }
    for name, clip in CLIPS.items():
        query = per_example(lower, along(), clip)
        parts[f"gradients, {name}"] = torch.no_grad()(lambda query=query: query.total(images, labels, slope))
    took = {name: round(seconds(act, given.times, run.device), 4) for name, act in parts.items()}
    print(
        json.dumps(
            {
                "recipe": given.recipe,
                "records": n,
                "weights of conv2*": step.lower[CONV2].query.shape[0],
                "device": run.device,
                "seconds": took,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
