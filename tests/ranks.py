"""A run of several processes, for the tests: python ranks.py WHAT FOLDER STOP [RUNS]; under torchrun or alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sfumato import Budget, DataLens, Run, load
from sfumato.classify.classifier import Classifier
from sfumato.errors import SfumatoError
from sfumato.methods import find
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.inside import Lot
from sfumato.privacy.noise import Noise
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.ranks import join
from sfumato.run.progress import Silent
from tests.made_up import arrays

METHOD = DataLens(
    teachers=24,
    topk=20,
    steps=6,
    batch=4,
    teacher_batch=2,
    warmup=1,
    hidden=16,
    width=8,
    latent=4,
    critic_width=2,
    critic_hidden=4,
    rule="soft",
)


class Lose(Silent):
    """The last rank is gone after some steps."""

    def __init__(self, after: int, rank: int) -> None:
        self.after = after if rank else -1

    def advance(self, done: int, note: str = "") -> None:
        if done == self.after:
            os._exit(9)


class Fixed:
    """A noise source in the place of the secret one: of deviation zero, so that sums can be compared."""

    def __getattr__(self, name):
        raise AssertionError(name)

    def take(self, count):
        return bytes(range(count))

    def discrete_gaussian(self, sigma, shape):
        return np.zeros(shape, dtype=np.int64)


def learn(folder: Path, stop: int) -> None:
    random, ranks = np.random.default_rng(0), join()
    images, labels = random.integers(0, 256, (90, 8, 8), dtype=np.uint8), np.arange(90) % 3
    box = load((images, labels))
    # Blocks as on a machine where four of them are needed.
    import sfumato.engine.teachers.stacked as teachers

    teachers.chunk_for = lambda recipe, device, parts: 6
    run = Run(
        device="cpu",
        folder=folder,
        odometer=Odometer(METHOD.plan(box.spec, Budget(5.0))),
        ranks=ranks,
        every=0.0,
        progress=Lose(stop, ranks.rank),
    )
    noise = Fixed() if "noiseless" in folder.name else None
    barrier = Barrier(box, box.spec, run.odometer, noise=noise, ranks=ranks)
    net = METHOD.learn(barrier, run)
    torch.save(net.state_dict(), folder / f"weights-{ranks.rank}.pt")
    ranks.wait()


class Tape(Noise):
    """Privacy noise that is the same each time: drawn from a key of the crossing and of its use."""

    def turn(self, name: str, use: int) -> None:
        self._stream = np.random.default_rng([use, *name.encode()]).bytes


class TapedLot(Lot):
    """Turns the tape to the use of a crossing before anything of it is drawn."""

    def units(self, crossing, name, use, count, noise):
        noise.turn(name, use)
        return super().units(crossing, name, use, count, noise)


# Samples of several pages, so that there is something to deal out; and other roads of the same methods.
TINY_RUNS: dict[str, dict[str, object]] = {
    "dpdm": {"batch": 120},
    "dpgan": {"batch": 120},
    "dp-vae": {"batch": 120},
    "dp-nf": {"batch": 120},
    "p3gm": {"batch": 120},
    "private-set": {"batch": 120},
    "dpaf": {"batch": 120, "epochs": 1.0},
    "sfumato": {"sample": 0.2},
    "dpgan wgan": {"batch": 120, "loss": "wgan", "weight_clip": 0.1},
    "dpgan penalty": {"batch": 120, "loss": "wgan", "penalty": 10.0},
    "dpgan by layer": {"batch": 120, "clipping": "layers", "critic_heads": True, "keep_critic": True},
    "classifier": {"network": "linear", "batch": 120, "epochs": 1},
    "classifier topk": {"network": "linear", "batch": 120, "epochs": 1, "k": 0.5},
}


def tiny(name: str) -> Any:
    """The method of a tiny run."""
    from tests.methods.test_contract import TINY

    kind = name.split()[0]
    return Classifier(**TINY_RUNS[name]) if kind == "classifier" else find(kind)(**TINY[kind] | TINY_RUNS[name])


def methods(folder: Path, names: list[str], stop: int = 0) -> None:
    """Tiny runs under one tape, on the same few records."""
    ranks, box = join(), load(arrays(600))
    for name in names:
        method = tiny(name)
        run = Run(
            device="cpu",
            folder=folder if len(names) == 1 else None,
            odometer=Odometer(method.plan(box.spec, Budget(5.0))),
            ranks=ranks,
            every=0.0,
            progress=Lose(stop, ranks.rank),
        )
        barrier = Barrier(box, box.spec, run.odometer, noise=Tape(), lot=TapedLot(), microbatch=32, ranks=ranks)
        torch.save(method.learn(barrier, run).state_dict(), folder / f"{name}-{ranks.rank}.pt")
        ranks.wait()


def noise(folder: Path) -> None:
    """The noise of one question to nobody, again and again."""
    from sfumato.privacy.bounds import Bound, BoundedSum
    from sfumato.privacy.plan import Plan, crossing

    ranks, data = join(), load(arrays())
    odometer = Odometer(Plan("noise", {}, data.spec, Budget(1.0), {"sum": crossing(Bound(1.0), 5.0, times=100)}))
    barrier = Barrier(data, data.spec, odometer, ranks=ranks)
    query = BoundedSum(lambda images, labels: torch.zeros(len(images), 500), Bound(1.0), (500,))
    ones = BoundedSum(lambda images, labels: torch.full((len(images), 500), 0.02), Bound(1.0), (500,))
    found = torch.stack([barrier.release("sum", query) for _ in range(40)])
    torch.save({"noise": found, "sum": barrier.release("sum", ones)}, folder / f"noise-{ranks.rank}.pt")
    ranks.wait()


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, folder, stop = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    try:
        if "learn" in what:
            learn(folder, stop)
        if "noise" in what:
            noise(folder)
        if "methods" in what:
            methods(folder, sys.argv[4:], stop)
    except SfumatoError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from error
