"""What all generators share: a latent law, public proportions of labels, and sampling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.networks.labels import allot
from sfumato.types import Images

CHUNK = 250  # images made at once when sampling
LARGE = 2000  # the same on a GPU
Net = TypeVar("Net", bound=nn.Module)
LATENT_DISTRIBUTIONS = ("gaussian", "uniform")
BATCHES: ContextVar[int] = ContextVar("batches", default=16)  # of latents that statistics are settled on


@contextmanager
def settled_briefly() -> Iterator[None]:
    """A time in which one batch is enough: what is made then is thrown away."""
    before = BATCHES.set(1)
    try:
        yield
    finally:
        BATCHES.reset(before)


def channels_last(net: Net) -> Net:
    """The same network, with the channels of its maps innermost, which convolutions are fastest with."""
    to: Callable[..., Net] = net.to  # whose declared types leave this way of calling it out
    return to(memory_format=torch.channels_last)


class Generator(nn.Module, ABC):
    """(z, label) -> image in [0, 1]. In eval mode an image depends on its own (z, label) alone."""

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        latent: int,
        label_weights: Sequence[float] | None = None,
        latent_distribution: str = "gaussian",
        conditional: bool = True,
    ) -> None:
        super().__init__()
        if latent_distribution not in LATENT_DISTRIBUTIONS:
            raise ValueError(
                f"Expected latent_distribution {' or '.join(LATENT_DISTRIBUTIONS)}, found {latent_distribution=}."
            )
        self.shape = (int(shape[0]), int(shape[1]), int(shape[2]))
        self.classes = tuple(classes)
        self.latent = latent
        self.latent_distribution = latent_distribution
        self.conditional = conditional
        self.label_weights = list(label_weights or [1 / len(self.classes)] * len(self.classes))

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """All that is needed to build it again; public."""

    def _config(self, kind: str, **more: Any) -> dict[str, Any]:
        """What most kinds need, and more."""
        return {
            "kind": kind,
            "shape": list(self.shape),
            "classes": list(self.classes),
            "latent": self.latent,
            "label_weights": self.label_weights,
            "latent_distribution": self.latent_distribution,
            "conditional": self.conditional,
            **more,
        }

    @abstractmethod
    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """One image for each row of `z` and its label."""

    def settle(self, random: torch.Generator) -> None:  # noqa: B027 (nothing to do is a fine answer)
        """Measure whatever eval mode needs with the present weights, on latents drawn from `random`."""

    def condition(self, labels: Tensor, like: Tensor) -> Tensor:
        """One-hot labels, in the kind of `like`; zeros where images do not depend on labels."""
        return nn.functional.one_hot(labels, len(self.classes)).to(like) * self.conditional

    def latents(self, n: int, random: torch.Generator) -> Tensor:
        """`n` latents of the generator's law, drawn where `random` lives: N(0, 1), or uniform in [-1, 1]."""
        if self.latent_distribution == "uniform":
            return torch.rand(n, self.latent, generator=random, device=random.device).mul(2).sub(1)
        return torch.randn(n, self.latent, generator=random, device=random.device)

    def latents_for(self, labels: Tensor, random: torch.Generator) -> Tensor:
        """Latents for a sample with these labels, which matter only to a generator that goes through a list."""
        return self.latents(len(labels), random)

    @torch.no_grad()
    def pixels(self, z: Tensor, labels: Tensor) -> np.ndarray:
        """The images of these latents and labels as uint8, made a chunk at a time."""
        device = next(self.parameters()).device
        some = LARGE if device.type == "cuda" else CHUNK
        made = [
            self(z[i : i + some].to(device), labels[i : i + some].to(device)).mul(255).round().byte().cpu().numpy()
            for i in range(0, len(z), some)
        ]
        return np.concatenate(made) if made else np.zeros((0, *self.shape), dtype=np.uint8)

    def sample(self, n: int, labels: Sequence[int] | None = None, *, seed: int = 0) -> Images:
        """`n` images; labels in the generator's own proportions unless given."""
        random = torch.Generator().manual_seed(seed)
        chosen = allot(n, self.label_weights, random) if labels is None else torch.as_tensor(labels, dtype=torch.long)
        if len(chosen) != n or (n and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(self.classes)):
            raise ValueError(f"Expected {n} labels from 0 to {len(self.classes) - 1}.")
        return Images(self.pixels(self.latents_for(chosen, random), chosen), chosen.numpy(), self.classes)
