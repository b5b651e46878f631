"""Encoders that stay with the data: one for each part of the records, trained there without noise, never seen outside.

An encoder is a small dense network, (image, class) -> hidden numbers -> mean and log variance of a latent. Those of a
block of parts lie stacked in one tensor a layer. What leaves a part is the gradient of a public decoder, averaged over
a batch of the part's own records: one term, which the barrier clips and adds up.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.engine.gradients import ghost
from sfumato.networks.label_embedding import known
from sfumato.networks.vae import VAEGenerator
from sfumato.record_rng import normal, record_keys

Loss = Callable[[VAEGenerator, Tensor, Tensor, Tensor, Tensor], Tensor]  # decoder, z, images, labels, kl -> (n,)
ROOM = 2**28  # bytes of the gradients of a block
BETAS = (0.9, 0.999)  # of Adam


@dataclass(frozen=True)
class LocalEncoders:
    """Public: what an encoder is, and how it learns."""

    decoder: VAEGenerator = field(repr=False)
    loss: Loss
    hidden: int
    learning_rate: float
    local_steps: int
    teacher_batch: int

    def block(self, parts: int, device: str) -> int:
        """How many parts make a block, by the size of the gradients that they give."""
        numbers = sum(p.numel() for p in self.decoder.parameters())
        return max(1, min(parts, ROOM // (8 * numbers)))

    def make(self, count: int, random: torch.Generator, device: str) -> EncoderBlock:
        """Encoders before they have seen a record."""
        inputs = math.prod(self.decoder.shape) + len(self.decoder.classes)
        sizes = ((inputs, self.hidden), (self.hidden, 2 * self.decoder.inner))
        layers = [torch.randn(count, *size, generator=random) / math.sqrt(size[0]) for size in sizes]
        return EncoderBlock(self, [layer.to(device) for layer in layers])


class EncoderBlock:
    """The encoders of some parts, Adam's moments, and the batch that each part looked at last."""

    def __init__(self, model: LocalEncoders, layers: list[Tensor]) -> None:
        self.model = model
        self.decoder = copy.deepcopy(model.decoder).to(layers[0].device).requires_grad_(True)
        self.layers = layers
        self.first = [torch.zeros_like(w) for w in layers]
        self.second = [torch.zeros_like(w) for w in layers]
        self.time = torch.zeros((), dtype=torch.int64)
        seen = (len(layers[0]), model.teacher_batch)
        self.images = torch.zeros(*seen, *model.decoder.shape, device=layers[0].device)
        self.labels = torch.zeros(*seen, dtype=torch.int64, device=layers[0].device)

    def update(self, images: Tensor, labels: Tensor, theta: Tensor, key: Tensor) -> None:
        """Steps of each encoder on records of its own part, against the decoder `theta`."""
        self.images.copy_(images)
        self.labels.copy_(labels)
        self._load(theta)
        for _ in range(self.model.local_steps):
            with torch.enable_grad():
                layers = [w.detach().requires_grad_() for w in self.layers]
                loss = self._losses(layers, key).sum() / self.model.teacher_batch
                slopes = torch.autograd.grad(loss, layers)
            self._descend(slopes)

    def slopes(self, theta: Tensor, key: Tensor) -> Tensor:
        """(parts, P): the gradient of the decoder on each part's batch."""
        self._load(theta)
        with torch.enable_grad():
            records, _ = ghost.record(self.decoder, lambda: self._losses(self.layers, key) / self.model.teacher_batch)
        terms = ghost.terms(records, len(self.images), self.model.teacher_batch)
        return torch.cat([terms[name].rows() for name, _ in self.decoder.named_parameters()], 1)

    def _load(self, theta: Tensor) -> None:
        weights = list(self.decoder.parameters())
        with torch.no_grad():
            for p, piece in zip(weights, theta.split([p.numel() for p in weights]), strict=True):
                p.copy_(piece.view(p.shape))

    def _losses(self, layers: list[Tensor], key: Tensor) -> Tensor:
        """(parts x batch,): minus the lower bound of each record's likelihood, by its part's encoder."""
        images = self.images.flatten(0, 1)
        labels = self.labels.flatten()
        told = torch.cat([images.flatten(1) * 2 - 1, known(labels, len(self.decoder.classes), images)], 1)
        hidden = F.silu(told.view(*self.labels.shape, -1) @ layers[0])
        mean, spread = (hidden @ layers[1]).flatten(0, 1).chunk(2, 1)
        spread = spread.clamp(-10, 10)
        z = mean + torch.exp(spread / 2) * normal(record_keys(images, key.to(labels)), mean.shape[1:])
        kl = (mean.square() + spread.exp() - 1 - spread).sum(1) / 2
        return self.model.loss(self.decoder, z, images, labels, kl)

    def _descend(self, slopes: tuple[Tensor, ...]) -> None:
        """A step of Adam in each part; a slope that is no number counts as zero."""
        self.time += 1
        one, two = (1 - beta ** int(self.time) for beta in BETAS)
        for w, m, v, slope in zip(self.layers, self.first, self.second, slopes, strict=True):
            g = slope.nan_to_num(0, 0, 0)
            m.lerp_(g, 1 - BETAS[0])
            v.lerp_(g.square(), 1 - BETAS[1])
            w.sub_(self.model.learning_rate * (m / one) / ((v / two).sqrt() + 1e-8))

    def state_dict(self) -> dict[str, Tensor]:
        """All that changes. Private."""
        lists = {"layers": self.layers, "first": self.first, "second": self.second}
        stacked = {f"{name}-{i}": t for name, each in lists.items() for i, t in enumerate(each)}
        return stacked | {"time": self.time, "images": self.images, "labels": self.labels}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state_dict` of a block of the same kind and size."""
        for name, value in self.state_dict().items():
            value.copy_(state[name])
