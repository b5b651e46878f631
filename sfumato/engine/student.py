"""The student generator of the PATE family: noisy votes become a direction, the direction a step.

    votes      V = sum_i v_i + N(0, sigma^2), released                         (DataLens: Algorithm 3, line 7)
    direction  g = +1 where V >= beta N, -1 where V <= -beta N, 0 elsewhere    (Algorithm 3, line 10; rule "sign")
    target     x = G(z) + gamma g                                              (Algorithm 1, line 16)
    loss       || G(z) - x ||^2                                                (Algorithm 1, line 18)

Everything here is post-processing of released votes, so other rules, smoothing, several steps a query, replay and
averaging cost no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.engine.ema import EMA, finished, repeatable
from sfumato.networks.generator import Generator
from sfumato.networks.labels import allot

if TYPE_CHECKING:
    from sfumato.run.run import Run

RULES = ("sign", "soft", "tanh", "shrunk")
SIGMAS = 3  # a blur reaches so many of its own widths
Batch = dict[str, Tensor]  # latents, labels and target of some images


def latents_and_labels(net: Generator, batch: int, run: Run, step: int) -> tuple[Tensor, Tensor]:
    """Latents and labels of a step's fake images, in the public proportions of the labels as far as they go."""
    random = run.generator("fakes", step)
    z = net.latents(batch, random)
    return z.to(run.device), allot(batch, net.label_weights, random).to(run.device)


def direction(
    votes: Tensor, *, teachers: float, sigma: float, threshold: float, blur: float = 0.0, rule: str = "sign"
) -> Tensor:
    """Where each pixel of a batch of images should move, from its noisy votes (m, c, h, w).

    With v the blurred votes, s the deviation of the noise in them (sigma at no blur) and a = threshold * teachers:

        sign    the sign of v where |v| >= a s / sigma, else 0: the paper's, at no blur
        soft    v / s: linear, every vote counts
        tanh    tanh(a v / s^2): posterior mean of a direction of +-1 whose votes are +-a, both as likely
        shrunk  sign(v) max(|v| / s - a / sigma, 0): posterior mode under a Laplace prior of scale sigma^2 / a
    """
    if rule not in RULES:
        raise ValueError(f"Expected rule={' or rule='.join(RULES)}, found rule={rule}.")
    if not (teachers > 0 and sigma > 0 and threshold >= 0 and blur >= 0):
        raise ValueError(
            f"Expected teachers and sigma above 0, threshold and blur of at least 0, found "
            f"{teachers=}, {sigma=}, {threshold=}, {blur=}."
        )
    if rule == "tanh" and not threshold:
        raise ValueError("Expected a threshold above 0 for rule=tanh, which takes it for the size of agreement.")
    smooth, noise = _smoothed(votes.double(), blur)
    agreed = threshold * teachers
    if rule == "sign":
        moved = (smooth >= agreed * noise).double() - (smooth <= -agreed * noise).double()
    elif rule == "soft":
        moved = smooth / (sigma * noise)
    elif rule == "tanh":
        moved = torch.tanh(agreed * smooth / (sigma * noise).square())
    else:
        moved = smooth.sign() * (smooth.abs() / (sigma * noise) - agreed / sigma).clamp(min=0)
    return moved.float()


def _smoothed(votes: Tensor, blur: float) -> tuple[Tensor, Tensor]:
    """The votes after a blur, and the deviation of the noise in each pixel, in sigmas."""
    if not blur:
        return votes, votes.new_ones(())
    rows, columns = (smoothing(size, blur, votes.device) for size in votes.shape[2:])
    return rows @ votes @ columns.T, spread(rows)[:, None] * spread(columns)


def smoothing(size: int, blur: float, device: torch.device | None = None) -> Tensor:
    """The matrix of a Gaussian blur over `size` pixels, reflected at both ends; each row adds up to 1."""
    reach = min(math.ceil(SIGMAS * blur), size - 1)
    if not reach:
        return torch.eye(size, dtype=torch.float64, device=device)
    offsets = torch.arange(-reach, reach + 1, device=device)
    kernel = torch.exp(-0.5 * (offsets.double() / blur).square())
    kernel /= kernel.sum()
    places = (torch.arange(size, device=device)[:, None] + offsets).abs()
    places = (size - 1) - ((size - 1) - places).abs()
    return (F.one_hot(places, size) * kernel[:, None]).sum(1)


def spread(matrix: Tensor) -> Tensor:
    """The standard deviation of each result of a linear map on independent noise of deviation 1."""
    deviations: Tensor = torch.linalg.vector_norm(matrix, dim=1)
    return deviations


class Student:
    """A generator that is moved by directions, with its optimiser, its average and the batches it remembers.

    Each query is followed by one step towards a target, `scale` times the direction away from the image as it was. The
    last `replay` queries are kept; each step takes one of them in as well, in turn. `ema_decay` is that of the weights'
    moving average. With `total` the learning rate falls along a cosine to nothing after so many queries.
    """

    def __init__(
        self,
        net: Generator,
        *,
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.5, 0.999),
        ema_decay: float = 0.0,
        replay: int = 0,
        scale: float = 1e-3,
        total: int | None = None,
    ) -> None:
        if replay < 0 or not (learning_rate > 0 and scale > 0) or (total is not None and total < 1):
            raise ValueError(
                "Expected learning_rate and scale above 0, total of at least 1, replay of at least 0, "
                f"found {learning_rate=}, {scale=}, {total=}, {replay=}."
            )
        self.net = net.train()
        self.learning_rate = learning_rate
        self.scale = scale
        self.total = total
        self.replay = replay
        self.optimiser = torch.optim.Adam(net.parameters(), lr=learning_rate, betas=betas)
        self.ema = EMA(net, ema_decay) if ema_decay else None
        self.memory: list[Batch] = []
        self.queries = 0

    @torch.no_grad()
    def fakes(self, z: Tensor, labels: Tensor) -> Tensor:
        """The images to ask the teachers about, as the next `step` with the same latents and labels has them."""
        with repeatable():
            images: Tensor = self.net(z, labels)
        return images

    def of_every_class(self, z: Tensor) -> Tensor:
        """An image of each class for every latent: (m, classes, c, h, w)."""
        classes = len(self.net.classes)
        labels = torch.arange(classes, device=z.device).repeat(len(z))
        images = self.fakes(z.repeat_interleave(classes, 0), labels)
        return images.view(len(z), classes, *images.shape[1:])

    def step(self, z: Tensor, labels: Tensor, direction: Tensor) -> None:
        """Move the images of `z` and `labels` along `direction`."""
        self.optimiser.param_groups[0]["lr"] = self.learning_rate * self._pace()
        batch = {"z": z, "labels": labels, "target": self.fakes(z, labels) + self.scale * direction.to(z)}
        self._descend([batch, *self._past()])
        self.queries += 1
        if self.replay:
            self.memory = [*self.memory, batch][-self.replay :]

    def _pace(self) -> float:
        return 1.0 if self.total is None else 0.5 + 0.5 * math.cos(math.pi * min(1.0, self.queries / self.total))

    def _past(self) -> list[Batch]:
        """One of the remembered batches, in turn; none at the beginning."""
        return [self.memory[self.queries % len(self.memory)]] if self.memory else []

    def _descend(self, batches: list[Batch]) -> None:
        """One step of the optimiser on all of the batches."""
        self.optimiser.zero_grad(set_to_none=True)
        with repeatable():
            losses = [(self.net(batch["z"], batch["labels"]) - batch["target"]).square().sum() for batch in batches]
            torch.stack(losses).sum().backward()
        self.optimiser.step()
        if self.ema:
            self.ema.update(self.net)

    def finished(self, random: torch.Generator | None = None) -> Generator:
        """A copy with the averaged weights, settled on latents drawn from `random`, in eval mode."""
        return finished(self.net, self.ema, random)

    def state_dict(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {
            "net": self.net.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "ema": self.ema and self.ema.state_dict(),
            "memory": list(self.memory),
            "queries": self.queries,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint of a student with the same settings."""
        self.net.load_state_dict(state["net"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.ema:
            self.ema.load_state_dict(state["ema"])
        self.memory = [dict(batch) for batch in state["memory"]]
        self.queries = int(state["queries"])
