"""A run of several processes, for the tests: python ranks.py WHAT FOLDER [STOP]; under torchrun or alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import torch

from sfumato import Budget, DataLens, Run, load
from sfumato.errors import SfumatoError
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.ranks import join
from sfumato.run.progress import Silent

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


def noise(folder: Path) -> None:
    """The noise of one question to nobody, again and again."""
    from sfumato.privacy.bounds import Bound, BoundedSum
    from sfumato.privacy.plan import Plan, crossing
    from tests.made_up import box

    ranks, data = join(), box()
    odometer = Odometer(Plan("noise", {}, data.spec, Budget(1.0), {"sum": crossing(Bound(1.0), 5.0, times=100)}))
    barrier = Barrier(data, data.spec, odometer, ranks=ranks)
    query = BoundedSum(lambda images, labels: torch.zeros(len(images), 500), Bound(1.0), (500,))
    ones = BoundedSum(lambda images, labels: torch.full((len(images), 500), 0.02), Bound(1.0), (500,))
    found = torch.stack([barrier.release("sum", query) for _ in range(40)])
    torch.save({"noise": found, "sum": barrier.release("sum", ones)}, folder / f"noise-{ranks.rank}.pt")
    ranks.wait()


if __name__ == "__main__":
    torch.set_num_threads(1)
    try:
        {"learn": lambda: learn(Path(sys.argv[2]), int(sys.argv[3])), "noise": lambda: noise(Path(sys.argv[2]))}[
            sys.argv[1]
        ]()
    except SfumatoError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from error
