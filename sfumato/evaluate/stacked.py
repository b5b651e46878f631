"""Train several seeds of one classifier, on a GPU as one stacked network; the schedule is never chosen by results.

The schedule counts gradient steps, so that more synthetic images cost no more time. It is Adam with decoupled weight
decay under one cycle of the learning rate, which ends at zero: the last step is the result. There is no augmentation
and no class weighting. Every seed has its own initial weights and its own order of the images.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.evaluate.networks import build, channels_last, join, scaled
from sfumato.evaluate.utility import LOOKS
from sfumato.run.progress import Silent

DENSE = ("mlp", "logreg")  # without convolutions
CHUNK = {"cpu": 100, "cuda": 2000}  # test images at once; small enough for the cache of a processor


@dataclass(frozen=True)
class Schedule:
    """The schedule of a network; it does not depend on the data."""

    steps: int = 2000
    batch: int = 128
    rate: float = 2e-3  # the peak of the cycle
    decay: float = 5e-4


SCHEDULES = {
    "cnn": Schedule(rate=4e-3, decay=2e-2),
    "mlp": Schedule(rate=1e-3, decay=2e-2),
    "logreg": Schedule(rate=2e-3, decay=1e-2),
    "resnet": Schedule(rate=1e-2, decay=5e-2),
    "wrn": Schedule(rate=5e-3, decay=5e-2),
    "resnext": Schedule(rate=5e-3, decay=5e-2),
}


@dataclass(frozen=True, eq=False)
class Trained:
    """What training left: `accuracies` (seeds, looks) on the test images, and the last logits (seeds, n, classes)."""

    name: str
    logits: np.ndarray
    accuracies: np.ndarray
    network: nn.Module | None = field(default=None, repr=False)


def train(
    name: str,
    pixels: np.ndarray,
    labels: np.ndarray,
    test_pixels: np.ndarray,
    test_labels: np.ndarray,
    *,
    classes: int,
    seeds: Sequence[int],
    device: str = "cpu",
    schedule: Schedule | None = None,
    looks: int = LOOKS,
    progress: Silent | None = None,
) -> Trained:
    """Train one network for all seeds on uint8 images (n, channels, height, width); test as it goes.

    With a leading axis of seeds, (seeds, n, ...), each seed learns from images of its own.
    """
    schedule = schedule or SCHEDULES[name]
    progress = progress or Silent()
    channels, height, width = map(int, pixels.shape[-3:])
    # Grouped convolutions are slow on a processor: there three seeds in turn take half the time of three at once.
    turns = [[seed] for seed in seeds] if device == "cpu" and name not in DENSE else [list(seeds)]
    data = _on_device(pixels, labels, device)
    test = _on_device(test_pixels, test_labels, device)
    marks = {round(schedule.steps * (look + 1) / looks) for look in range(looks)} | {schedule.steps}
    progress.start(name, schedule.steps * len(turns))
    trained = []
    with _fast(device):
        for number, turn in enumerate(turns):
            net = channels_last(build(name, (channels, height, width), classes, turn), device)
            accuracies = []
            logits = np.empty(0)
            for done in _fit(net, _own(data, number, len(turns)), turn, schedule, device):
                progress.advance(number * schedule.steps + done)
                if done in marks:
                    logits = _told(predict(net, test[0], len(turn), device), name, done)
                    accuracies.append((logits.argmax(-1) == np.asarray(test_labels)).mean(1))
            trained.append(Trained(name, logits, np.stack(accuracies, 1), net))
    return _joined(trained, build(name, (channels, height, width), classes, seeds)) if len(turns) > 1 else trained[0]


def _own(data: tuple[Tensor, Tensor], number: int, turns: int) -> tuple[Tensor, Tensor]:
    """The images and labels of a turn: where seeds in turn have images of their own, those of its seed."""
    pixels, labels = data
    return (pixels[number][None], labels[number][None]) if turns > 1 and labels.dim() == 2 else data


def _joined(trained: list[Trained], whole: nn.Sequential) -> Trained:
    """Seeds that were trained in turn as if they had been trained at once."""
    states = [one.network.state_dict() for one in trained if one.network is not None]
    whole.load_state_dict({key: join([state[key] for state in states]) for key in states[0]})
    logits, accuracies = (np.concatenate([getattr(one, kind) for one in trained]) for kind in ("logits", "accuracies"))
    return Trained(trained[0].name, logits, accuracies, channels_last(whole, "cpu"))


def _told(logits: np.ndarray, name: str, done: int) -> np.ndarray:
    """The logits, if they are numbers: of others the largest would be the first, and its share an accuracy."""
    if not np.isfinite(logits).all():
        raise SfumatoError(
            f"Expected numbers from the classifier '{name}', found others after {done} steps: it cannot judge; "
            "try again, and with --device cpu if it stays so."
        )
    return logits


def _fit(
    net: nn.Module, data: tuple[Tensor, Tensor], seeds: Sequence[int], schedule: Schedule, device: str
) -> Iterator[int]:
    """The steps; yields how many are done."""
    pixels, labels = data
    count = labels.shape[-1]
    batch = min(schedule.batch, count)
    own = (torch.arange(len(seeds), device=device)[:, None],) if labels.dim() == 2 else ()
    optimiser = torch.optim.AdamW(net.parameters(), lr=schedule.rate, weight_decay=schedule.decay, fused=True)
    for step, rows in enumerate(batches(count, batch, seeds, schedule.steps)):
        for group in optimiser.param_groups:
            group["lr"] = schedule.rate * cycle((step + 1) / (schedule.steps + 1))
        rows = rows.to(device, non_blocking=True)
        net.train()
        with _autocast(device):
            logits = net(side_by_side(pixels[*own, rows]))
        # The seeds share no parameter, so the gradient of the sum is the gradient of each.
        loss = F.cross_entropy(logits.float().flatten(0, 1), labels[*own, rows].flatten(), reduction="sum") / batch
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        optimiser.step()
        yield step + 1


def cycle(done: float) -> float:
    """The learning rate as a share of its peak: up in a line for a fifth of the time, then down along a cosine.

    >>> [round(cycle(t), 6) for t in (0.0, 0.2, 0.6, 1.0)]
    [0.0, 1.0, 0.5, 0.0]
    """
    return done / 0.2 if done < 0.2 else 0.5 + 0.5 * math.cos(math.pi * (done - 0.2) / 0.8)


def batches(count: int, batch: int, seeds: Sequence[int], steps: int) -> Iterator[Tensor]:
    """Row numbers (seeds, batch) of each step: every seed goes through its own shuffles, full batches only."""
    random = [torch.Generator().manual_seed(seed + 1) for seed in seeds]
    whole = count // batch
    for step in range(steps):
        at = step % whole
        if at == 0:
            order = torch.stack([torch.randperm(count, generator=own) for own in random])
        yield order[:, at * batch : (at + 1) * batch]


def side_by_side(pixels: Tensor) -> Tensor:
    """(S, B, C, H, W) uint8 -> (B, S * C, H, W) in [-1, 1]."""
    seeds, count, channels, height, width = pixels.shape
    joined = pixels.transpose(0, 1).reshape(count, seeds * channels, height, width)
    return scaled(joined).contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def predict(net: nn.Module, pixels: Tensor | np.ndarray, seeds: int, device: str = "cpu") -> np.ndarray:
    """Logits (seeds, n, classes) of uint8 images, in float32."""
    pixels = torch.as_tensor(pixels)
    net.eval()
    logits = []
    chunk = CHUNK["cuda" if device.startswith("cuda") else "cpu"]
    for start in range(0, len(pixels), chunk):
        part = pixels[start : start + chunk].to(device)
        with _autocast(device):
            logits.append(net(side_by_side(part.expand(seeds, *part.shape))).float())
    return torch.cat(logits, 1).cpu().numpy()


def _on_device(pixels: np.ndarray, labels: np.ndarray, device: str) -> tuple[Tensor, Tensor]:
    return (
        torch.from_numpy(np.ascontiguousarray(pixels)).to(device),
        torch.from_numpy(np.ascontiguousarray(labels, dtype=np.int64)).to(device),
    )


def _autocast(device: str) -> torch.autocast:
    """bfloat16 where tensor cores make it pay."""
    return torch.autocast(device.split(":")[0], torch.bfloat16, enabled=device.startswith("cuda"))


@contextmanager
def _fast(device: str) -> Iterator[None]:
    """Let cuDNN look for the fastest kernels, as shapes are fixed; put the setting back."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = device.startswith("cuda")
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
