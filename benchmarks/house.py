"""The house method measured: releases of several seeds at several budgets, each judged by several networks.

    python -m benchmarks.house --data fashion-mnist --epsilon 1 10 0.2 --out FILE.json [--pictures DIR]
    python -m benchmarks.house --data cifar10:PATH --networks cnn wrn --leagues resembling teaching --out FILE.json
    python -m benchmarks.house --data mnist:PATH --held 5000 --set embedding_share=0.5 --out FILE.json
    python -m benchmarks.house --data fashion-mnist --held 5000 --records 1000 --networks cnn --out FILE.json

Every run is planned, and learned through a barrier, exactly as a release is: noise, steps and settings are those of its
plan. No release is written, no account is kept and no audit is made of it each time, since the sets are public. 60,000
images of each league are judged by networks that learn from them alone (last step of the fixed schedule; the best of
eight looks beside it); the networks of all seeds learn side by side. With `--held N` the last N training images are
not learnt from and take the place of the test set: settings are chosen there. With `--records N` only so many of the
others are learnt from. The file is written anew after each row,
and rows that it has are not made again.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.utility import command
from sfumato import Budget, Images, Run, load
from sfumato.api import make_method
from sfumato.bench.measure import summary
from sfumato.bench.pictures import draw
from sfumato.data import load_public
from sfumato.evaluate import stacked
from sfumato.flow.make import fit_settings, make_plan
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer

COUNT = 60_000
KEPT = 2000  # images that are asked whether they keep the class that they were made for


def sets(data: str, held: int, size: int | None) -> tuple[Images, Images]:
    """Images to learn from and images to judge by."""
    train = load_public(data, "a named public set", size=size).images
    if not held:
        return train, load_public(data, "a named public set", split="test", size=size).images
    order = np.random.default_rng(0).permutation(len(train))
    parts = (order[:-held], order[-held:])
    learnt, tested = (train[part] for part in parts)
    return learnt, tested


def learned(learnt: Images, given: argparse.Namespace, epsilon: float, seed: int) -> tuple[Any, dict[str, Any]]:
    """A generator, and what there is to say of its run."""
    box = load(learnt)
    budget = Budget(epsilon, given.delta)
    run = Run(device=given.device, seed=seed, microbatch=given.microbatch)
    method = make_method(given.method, settings(given))
    method = fit_settings(method, box.spec, budget, run.device)
    start = time.perf_counter()
    odometer = Odometer(make_plan(method, box.spec, budget))
    run = replace(run, odometer=odometer)
    barrier = Barrier(box, box.spec, odometer, device=run.device, microbatch=run.microbatch)
    net = method.learn(barrier, run)
    run.finished()
    facts = {"fitted": method.settings(), "synthesis_s": time.perf_counter() - start}
    if torch.cuda.is_available():
        facts["memory_gb"] = torch.cuda.max_memory_allocated() / 1e9
    return net, facts


def settings(given: argparse.Namespace) -> dict[str, str]:
    """What was changed."""
    return dict(pair.split("=", 1) for pair in given.set)


def rows(learnt: Images, tested: Images, given: argparse.Namespace, epsilon: float) -> Any:
    """One row for each league and network, as they come."""
    made = [learned(learnt, given, epsilon, seed) for seed in given.seeds]
    nets = [net for net, _ in made]
    runs = [
        {
            "synthesis_s": told.pop("synthesis_s"),
            "labeller": float((net.label(tested.pixels).numpy() == tested.labels).mean()),
            "kept_class": net.kept_share(KEPT),
        }
        for net, told in made
    ]
    facts = made[0][1] | {"records": len(learnt)}
    for league in given.leagues:
        for net in nets:
            net.league = league
        images = [net.sample(given.count, seed=seed) for net, seed in zip(nets, given.seeds, strict=True)]
        if given.pictures:
            draw(images[0], given.pictures / f"house-{given.data.split(':')[0]}-{epsilon:g}-{league}.png", scale=1)
        pixels = np.stack([i.pixels for i in images])
        labels = np.stack([i.labels for i in images])
        for name in given.networks:
            start = time.perf_counter()
            trained = stacked.train(
                name,
                pixels,
                labels,
                tested.pixels,
                tested.labels,
                classes=len(learnt.classes),
                seeds=given.seeds,
                device=given.device,
            )
            judged = [{"fixed": seen[-1], "paper": seen.max()} for seen in trained.accuracies]
            yield {
                "league": league,
                "network": name,
                "settings": settings(given) | ({"images": league} if league != "resembling" else {}),
                **summary([run | seen for run, seen in zip(runs, judged, strict=True)]),
                "judged_s": time.perf_counter() - start,
                **facts,
            }


def main() -> None:
    """Make the rows that are missing."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", default="fashion-mnist")
    ask.add_argument("--method", default="sfumato")
    ask.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 10.0, 0.2])
    ask.add_argument("--delta", type=float, default=1e-5)
    ask.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    ask.add_argument("--networks", nargs="+", default=["wrn", "resnet", "resnext"])
    ask.add_argument("--leagues", nargs="+", default=["resembling"])
    ask.add_argument("--held", type=int, default=0)
    ask.add_argument("--records", type=int)
    ask.add_argument("--size", type=int)
    ask.add_argument("--count", type=int, default=COUNT)
    ask.add_argument("--microbatch", type=int, default=16_384)
    ask.add_argument("--set", nargs="*", default=[])
    ask.add_argument("--device", default="auto")
    ask.add_argument("--pictures", type=Path)
    ask.add_argument("--out", type=Path, required=True)
    given = ask.parse_args()
    given.device = Run(device=given.device).device
    known = json.loads(given.out.read_text())["results"] if given.out.exists() else []
    learnt, tested = sets(given.data, given.held, given.size)
    learnt = learnt[: given.records]
    for epsilon in given.epsilon:
        key = {"method": given.method, "data": given.data.split(":")[0], "epsilon": epsilon}
        key |= {"delta": given.delta, "held": given.held, "records": len(learnt), "asked": settings(given)}
        wanted = {(league, name) for league in given.leagues for name in given.networks}
        if wanted <= {(row["league"], row["network"]) for row in known if key.items() <= row.items()}:
            continue
        for row in rows(learnt, tested, given, epsilon):
            known.append(key | row)
            shown = {k: v for k, v in known[-1].items() if k != "settings"}
            print(json.dumps(shown), flush=True)
            write(given.out, known)


def write(out: Path, results: list[dict[str, Any]]) -> None:
    """The file, in the shape of the others."""
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    about = {"command": command("benchmarks.house"), "machine": machine, "torch": torch.__version__}
    out.write_text(json.dumps(about | {"date": time.strftime("%Y-%m-%d"), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
