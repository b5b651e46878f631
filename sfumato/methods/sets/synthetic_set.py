"""What methods share that optimise a fixed synthetic set: its first images, its descent, and the distances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.engine.public_pretrain import known
from sfumato.networks.image_set import ImageSet

OPTIMISERS = ("adam", "sgd")  # of pixels

if TYPE_CHECKING:
    from sfumato.data.public import PublicImages
    from sfumato.methods.sets.convnets import ConvNet
    from sfumato.privacy.plan import Plan
    from sfumato.run.run import Run
    from sfumato.types import DataSpec


def unamplified(plan: Plan, batch: int) -> tuple[str, ...]:
    """A warning of a batch in which every record takes part."""
    if batch < plan.data.records:
        return ()
    return (f"batch={batch} reaches the number of units, {plan.data.records}: all take part, without amplification.",)


def repeated(plan: Plan, each: int) -> str:
    """What is to be known of a set of a fixed size before more images are asked for than it has."""
    whole = each * len(plan.data.classes)
    return f"The set has {whole:,} distinct images, {each:,} of each class: a larger --count repeats them."


def fresh(
    spec: DataSpec, each: int, weights: Sequence[float] | None, run: Run, public: PublicImages | None = None
) -> ImageSet:
    """A set of public images, whatever their labels, or else of grey noise: `each` images of every class."""
    points = ImageSet(spec.shape, spec.classes, each, weights)
    if public is None:
        points.start(run.generator("points"))
    else:
        points.put(public_draw(public, spec, each * len(spec.classes), run))
    return points.to(run.device)


def public_draw(public: PublicImages, spec: DataSpec, count: int, run: Run) -> Tensor:
    """So many public images in [0, 1], by public chance."""
    pixels, _ = known(public, spec)
    return pixels[torch.randint(len(pixels), (count,), generator=run.generator("public"))].float() / 255


class PixelDescent:
    """Descent on the pixels of a set, which stay in [0, 1].

    Adam's learning rate falls to 0 over `total` steps; that of `sgd`, with momentum 1/2, stays, as in the official
    codes of Private-Set and NDPDC.
    """

    def __init__(self, points: ImageSet, learning_rate: float, total: int, optimiser: str = "adam") -> None:
        self.points = points
        self.learning_rate = learning_rate
        self.total = total
        self.falls = optimiser == "adam"
        self.optimiser: torch.optim.Optimizer = (
            torch.optim.Adam([points.images], lr=learning_rate, betas=(0.5, 0.99))
            if self.falls
            else torch.optim.SGD([points.images], lr=learning_rate, momentum=0.5)
        )

    def step(self, loss: Tensor, t: int) -> None:
        """Step `t` down `loss`."""
        if self.falls:
            self.optimiser.param_groups[0]["lr"] = self.learning_rate * (1 - t / self.total)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        self.points.restrain()

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return self.optimiser.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint of the same run."""
        self.optimiser.load_state_dict(dict(state))


def set_loss(net: ConvNet, points: ImageSet) -> Tensor:
    """Cross-entropy of a classifier on the whole set, classes weighted by their public shares."""
    images, labels = points.everything()
    shares = torch.tensor(points.label_weights, device=images.device, dtype=images.dtype)
    losses = F.cross_entropy(net(images), labels, reduction="none")
    return (losses.view(len(shares), -1).mean(1) * shares).sum() / shares.sum()


def gradient_gap(mine: Sequence[Tensor], theirs: Tensor) -> Tensor:
    """Sum over layers, and over the rows of their matrices, of one minus a cosine; biases are left out.

    `mine` are gradients by parameter and `theirs` is all of another in one vector.

    >>> one = [torch.tensor([[3.0, 0.0], [0.0, 1.0]]), torch.ones(5)]
    >>> gradient_gap(one, torch.tensor([1.0, 0.0, 1.0, 0.0, *[9.0] * 5]))  # one row agrees, one is orthogonal
    tensor(1.)
    """
    pairs = zip(mine, theirs.split([g.numel() for g in mine]), strict=True)
    rows = [(g.flatten(1), t.view_as(g).flatten(1)) for g, t in pairs if g.dim() > 1]
    return torch.stack([(1 - F.cosine_similarity(g, t.to(g), dim=1, eps=1e-6)).sum() for g, t in rows]).sum()


def study(net: ConvNet, points: ImageSet, *, steps: int, learning_rate: float) -> None:
    """Plain gradient descent of a classifier on the set."""
    for _ in range(steps):
        slopes = torch.autograd.grad(set_loss(net, points), list(net.parameters()))
        with torch.no_grad():
            for p, slope in zip(net.parameters(), slopes, strict=True):
                p.sub_(slope, alpha=learning_rate)


def shortened(rows: Tensor, norm: float) -> Tensor:
    """Rows above a norm brought down to it, as the barrier does with those of private images."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows * (norm / norms.clamp(min=norm))
