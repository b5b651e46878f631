"""Train several seeds of one classifier as one stacked network, on a fixed schedule that is never chosen by results.

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

from sfumato.evaluate.networks import build, channels_last, scaled
from sfumato.run.progress import Silent

LOOKS = 8  # times that test accuracy is taken on the way; the "epochs" among which the papers' protocol selects
CHUNK = {"cpu": 100, "cuda": 2000}  # test images at once; small enough for the cache of a processor


@dataclass(frozen=True)
class Schedule:
    """The schedule of a network; it does not depend on the data."""

    steps: int = 2000
    batch: int = 128
    rate: float = 2e-3  # the peak of the cycle
    decay: float = 5e-4


RECIPES = {
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
    recipe: Schedule | None = None,
    looks: int = LOOKS,
    progress: Silent | None = None,
) -> Trained:
    """Train one network for all seeds at once on uint8 images (n, channels, height, width); test as it goes."""
    recipe = recipe or RECIPES[name]
    progress = progress or Silent()
    channels, height, width = map(int, pixels.shape[1:])
    net = channels_last(build(name, (channels, height, width), classes, seeds), device)
    data = _on_device(pixels, labels, device)
    test = _on_device(test_pixels, test_labels, device)
    marks = {round(recipe.steps * (look + 1) / looks) for look in range(looks)} | {recipe.steps}
    accuracies = []
    logits = np.empty(0)
    progress.start(name, recipe.steps)
    with _fast(device):
        for done in _fit(net, data, seeds, recipe, device):
            progress.advance(done)
            if done in marks:
                logits = predict(net, test[0], len(seeds), device)
                accuracies.append((logits.argmax(-1) == np.asarray(test_labels)).mean(1))
    return Trained(name, logits, np.stack(accuracies, 1), net)


def _fit(
    net: nn.Module, data: tuple[Tensor, Tensor], seeds: Sequence[int], recipe: Schedule, device: str
) -> Iterator[int]:
    """The steps; yields how many are done."""
    pixels, labels = data
    batch = min(recipe.batch, len(pixels))
    optimiser = torch.optim.AdamW(net.parameters(), lr=recipe.rate, weight_decay=recipe.decay, fused=True)
    for step, rows in enumerate(batches(len(pixels), batch, seeds, recipe.steps)):
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * cycle((step + 1) / (recipe.steps + 1))
        rows = rows.to(device, non_blocking=True)
        net.train()
        with _autocast(device):
            logits = net(side_by_side(pixels[rows]))
        # The seeds share no parameter, so the gradient of the sum is the gradient of each.
        loss = F.cross_entropy(logits.float().flatten(0, 1), labels[rows].flatten(), reduction="sum") / batch
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
