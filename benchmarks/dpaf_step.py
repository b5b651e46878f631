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
from sfumato.engine.adversarial import Players, Turns
from sfumato.engine.generator_dpsgd import seeded
from sfumato.engine.gradients.clipping import Flat
from sfumato.engine.gradients.per_example import per_example
from sfumato.engine.gradients.topk import Largest
from sfumato.methods.gan.dpaf.aggregation import along
from sfumato.methods.gan.dpaf.forward_phase import GAME, DPAFStep
from sfumato.methods.gan.dpaf.generator import MirrorGenerator
from sfumato.recipes import find

CLIPS = {"all": Flat(1.0), "the largest": Largest(1.0, 0.9)}


def made(recipe: str, run: Run) -> DPAFStep:
    """The game of a recipe at its full size."""
    found = find(recipe)
    method = found.make()
    spec = found.spec()
    sizes = method.sizes(spec)
    rules = method.rules(sizes, spec, None, 1.0)
    net = seeded(
        run, lambda: MirrorGenerator(spec.shape, spec.classes, method.latent, method.width, sizes.layout.depth)
    )
    critic = seeded(run, lambda: method._critic(spec, sizes.layout, rules))
    return DPAFStep(
        Players(net, critic, Turns(1), learning_rate=1e-4, critic_learning_rate=1e-4, ema_decay=0.99), rules
    )


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
    turn = made(given.recipe, run)
    spec = find(given.recipe).spec()
    lower = turn.critic.lower
    n = given.records
    images = torch.rand(n, *spec.shape, device=run.device)
    labels = torch.arange(n, device=run.device) % len(spec.classes)
    slope = torch.randn(len(turn.rules.shares), *lower.shape, device=run.device)
    parts: dict[str, Callable[[], Any]] = {
        "terms of a sum": lambda: turn.sums.rows(images, labels),
        "fakes": lambda: turn.players.fakes(n, run, 0),
        "step of the generator": lambda: turn.players.move(GAME, n, run, 0),
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
                "weights of conv2*": turn.second.query.shape[0],
                "device": run.device,
                "seconds": took,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
