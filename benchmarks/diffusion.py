"""What a private step of DPDM costs: a plain step, the clipped one, the same by ordinary operations, and sampling.

    python -m benchmarks.diffusion [--device cuda] [--recipe dpdm-ours-mnist-10] [--batch 2048] [--out FILE.json]

A step leads from a made-up batch, each image with all of its noise levels, to the gradient: the mean one for the plain
step, the sum of clipped gradients of single records for the others; without noise and update. Steps of all kinds take
turns; the median of `--repeats` is shown. "Ordinary operations" leave out the kernels of
`networks/groupnorm_silu.py` and `engine/gradients/conv_sample_grads.py`. Sampling is that of the recipe.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.utility import command
from sfumato import Run
from sfumato.engine.gradients import conv_sample_grads
from sfumato.engine.gradients.per_example import per_example
from sfumato.methods.dpsgd.dpdm import DPDM
from sfumato.networks import groupnorm_silu
from sfumato.networks.diffusion import DiffusionGenerator
from sfumato.recipes import find
from sfumato.record_rng import drawing

Step = Callable[[], Any]


def network(method: DPDM, classes: int, device: str) -> DiffusionGenerator:
    """The recipe's, with weights that are not at their start, where half of them are zero."""
    net = DiffusionGenerator(
        (1, 28, 28),
        tuple(map(str, range(classes))),
        None,
        method.width,
        [2**i for i in range(method.depth)],
        method.blocks,
        method.attention,
        method.patch,
        method.sampler,
        method.sampler_steps,
        bfloat16=method.bfloat16,
    ).to(device)
    torch.manual_seed(0)
    with torch.no_grad():
        for p in net.parameters():
            p += 0.02 * torch.randn(p.shape).to(p)
    return net


def steps(method: DPDM, batch: int, device: str) -> dict[str, Step]:
    """The kinds of step, by name."""
    net = network(method, 10, device)
    loss = method.loss
    draw = drawing(Run(device=device).generator, method.noise_multiplicity)(0)
    images = torch.rand(batch, 1, 28, 28).to(device)
    labels = torch.randint(0, 10, (batch,)).to(device)
    query = per_example(
        net,
        loss,
        method.clip,
        batch=batch,
        noise_multiplicity=method.noise_multiplicity,
        draw=draw,
        bfloat16=method.bfloat16,
    )

    def plain() -> tuple[Tensor, ...]:
        many = [t.repeat_interleave(method.noise_multiplicity, 0) for t in (images, labels)]
        with torch.autocast(images.device.type, torch.bfloat16, enabled=method.bfloat16):
            losses = loss(net, *many, *(t.to(device) for t in draw(len(many[0]))))
        return torch.autograd.grad(losses.float().mean(), list(net.parameters()))

    def ordinary() -> Tensor:
        with ExitStack() as without:
            for module in (groupnorm_silu, conv_sample_grads):
                without.enter_context(patch.object(module, "working", lambda device: None))
            return query.total(images, labels)

    return {"plain": plain, "clipped": lambda: query.total(images, labels), "clipped, ordinary operations": ordinary}


def timed(step: Step, device: str) -> float:
    """Wall seconds, with all that a GPU has to do."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    step()
    wait()
    return time.perf_counter() - start


def main() -> None:
    """Print one JSON object."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    ask.add_argument("--recipe", default="dpdm-ours-mnist-10")
    ask.add_argument("--batch", type=int, default=2048)
    ask.add_argument("--repeats", type=int, default=9)
    ask.add_argument("--sampled", type=int, default=10_000)
    ask.add_argument("--out", type=Path)
    given = ask.parse_args()
    method = find(given.recipe).make()
    assert isinstance(method, DPDM)
    kinds = steps(method, given.batch, given.device)
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(given.repeats + 2):
        for name, step in kinds.items():
            took = timed(step, given.device)
            seconds[name] += [took] if turn >= 2 else []  # the first ones try kernels out
    median = {name: statistics.median(times) for name, times in seconds.items()}
    net = network(method, 10, given.device).eval()
    sampling = min(timed(lambda: net.sample(given.sampled, seed=0), given.device) for _ in range(2))
    machine = torch.cuda.get_device_name() if given.device == "cuda" else platform.processor() or platform.machine()
    found = {
        "command": command("benchmarks.diffusion"),
        "machine": machine,
        "torch": torch.__version__,
        "records": given.batch,
        "noise_multiplicity": method.noise_multiplicity,
        "parameters": sum(p.numel() for p in net.parameters()),
        "steps": {
            name: {"seconds": round(s, 5), "times plain": round(s / median["plain"], 2)} for name, s in median.items()
        },
        "sampling": {"images": given.sampled, "seconds": round(sampling, 3)},
    }
    print(json.dumps(found, indent=1))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
