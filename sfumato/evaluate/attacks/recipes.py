"""Set-ups of published tables, to be run again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.accounting.budget import Budget
from sfumato.evaluate.attacks.ganleaks import black_box
from sfumato.evaluate.attacks.scores import assess, ceiling_of
from sfumato.evaluate.attacks.subject import Batch, batch
from sfumato.evaluate.features import Space
from sfumato.types import Images

# DPAF (Lin, Chen, Yu and Lu), Table XVII: AUC of GAN-Leaks on CelebA-Gender, by row and size of the training set.
DPAF_TABLE_XVII: dict[str, dict[int, float]] = {
    "SGD": {64: 1.0, 128: 1.0},
    "epsilon 10": {64: 0.466, 128: 0.502},
    "epsilon 5": {64: 0.469, 128: 0.499},
    "epsilon 1": {64: 0.473, 128: 0.499},
    "epsilon 0.5": {64: 0.479, 128: 0.500},
}

Train = Callable[[np.ndarray, np.ndarray, int], Any]  # (pixels, labels, seed) -> a release or a generator


def private(synthesize: Callable[..., Any], method: Any, epsilon: float, delta: float = 1e-5) -> Train:
    """Train by a method, with `sfumato.synthesize`; the candidates are public, so the ledger is thrown away."""

    def train(pixels: np.ndarray, labels: np.ndarray, seed: int) -> Any:
        from sfumato.run.run import Run

        with tempfile.TemporaryDirectory() as folder:
            return synthesize(
                method,
                (pixels, labels),
                Budget(epsilon, delta),
                Run(seed=seed),
                count=16,
                ledger=Path(folder) / "ledger.sqlite",
            )

    return train


def sgd(training: Any = None, device: str = "cpu") -> Train:
    """The row without privacy: the reference DC-GAN of this software (`reference.Training` is its schedule)."""
    return lambda pixels, labels, seed: _DCGAN(pixels, labels, seed, training, device)


@dataclass(frozen=True, eq=False)
class _DCGAN:
    """Trained when it is asked for images, once, since the reference hands out images and no generator."""

    pixels: np.ndarray
    labels: np.ndarray
    own_seed: int
    training: Any
    device: str

    def sample(self, n: int, labels: Any = None, *, seed: int = 0) -> Images:
        """`n` images, uniform over the classes."""
        from sfumato.evaluate.reference import reference

        classes = int(self.labels.max()) + 1
        pixels, labels = reference(
            self.pixels,
            self.labels,
            classes=classes,
            count=n,
            seed=self.own_seed,
            device=self.device,
            training=self.training,
        )
        return Images(pixels, labels, tuple(map(str, range(classes))))


def few(images: Batch, size: int, seed: int) -> tuple[Batch, Batch]:
    """`size` members and `size` non-members by one random split, with the classes equally often on both sides."""
    random = np.random.default_rng(seed)
    kinds = np.unique(images.labels)
    rows = [random.permutation(np.flatnonzero(images.labels == kind)) for kind in kinds]
    share = [size // len(kinds) + (i < size % len(kinds)) for i in range(len(kinds))]
    if any(len(r) < 2 * n for r, n in zip(rows, share, strict=True)):
        raise ValueError(f"Expected at least {2 * max(share)} images of each class, half of them members.")
    ins = np.concatenate([r[:n] for r, n in zip(rows, share, strict=True)])
    outs = np.concatenate([r[n : 2 * n] for r, n in zip(rows, share, strict=True)])
    return images[ins], images[outs]


def dpaf_table_xvii(
    trainers: Mapping[str, Train],
    images: Any,
    *,
    sizes: Sequence[int] = (64, 128),
    samples: int = 20_000,
    seeds: Sequence[int] = (0,),
    space: Space | None = None,
    device: str = "cpu",
) -> dict[str, dict[int, dict[str, Any]]]:
    """Train on 64 and on 128 images, attack by GAN-Leaks full black box, as many non-members as members.

    `trainers` are the rows: a name ("SGD", "epsilon 1", ...) and how to train. `images` are public, with labels. The
    scores of several seeds are joined, each seed with a split of its own: a single split of 64 has an interval of
    about 0.1 around its AUC. The published number stands beside ours where the row has its name; it is of CelebA-Gender
    at 64 x 64 pixels, by another generator.
    """
    everything = batch(images)
    table = {}
    for name, train in trainers.items():
        table[name] = {n: _cell(name, train, everything, n, samples, seeds, space, device) for n in sizes}
    return table


def _cell(
    name: str,
    train: Train,
    images: Batch,
    size: int,
    samples: int,
    seeds: Sequence[int],
    space: Space | None,
    device: str,
) -> dict[str, Any]:
    ins = []
    outs = []
    trained: Any = None
    for seed in seeds:
        members, others = few(images, size, seed)
        trained = train(members.pixels, members.labels, seed)
        drawn = getattr(trained, "generator", trained).sample(samples, seed=seed)
        pool = Batch(drawn.pixels, drawn.labels)
        ins.append(black_box(members, pool, space, device))
        outs.append(black_box(others, pool, space, device))
    # Runs differ in how near their images are on the whole; only the ranks within a run are the attack's.
    shift = [np.median(np.concatenate(pair)) for pair in zip(ins, outs, strict=True)]
    one, two = (np.concatenate([x - s for x, s in zip(side, shift, strict=True)]) for side in (ins, outs))
    ceiling = ceiling_of(getattr(trained, "statement", None))
    row = assess(one, two, ceiling, note=f"{len(seeds)} trainings of {size}")
    return row | {"published_auc": DPAF_TABLE_XVII.get(name, {}).get(size)}
