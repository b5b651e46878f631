"""Pre-training: ordinary steps on public images before the first private step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sfumato.engine.gradients.per_example import Loss
from sfumato.engine.match import warm_cosine
from sfumato.errors import InputError
from sfumato.record_rng import drawing

if TYPE_CHECKING:
    from sfumato.data.public import PublicImages
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

TOLD = "{} ordinary steps on public images, where some are given, come before the first private one and cost nothing"


def public_facts(steps: int) -> dict[str, str]:
    """What a plan says of so many steps."""
    return {"public": TOLD.format(steps)} if steps else {}


def public_pretrain(
    net: nn.Module,
    loss: Loss,
    public: PublicImages | None,
    spec: DataSpec,
    run: Run,
    *,
    steps: int,
    batch: int = 256,
    learning_rate: float = 1e-3,
    noise_multiplicity: int = 1,
    bfloat16: bool = False,
) -> None:
    """Adam on the loss that the private steps will use; nothing where there are no public images.

    Labels count where the public classes are those of the private data; elsewhere an image has none (-1). All
    randomness is the run's, so that a resumed run starts from the same weights.
    """
    if public is None or not steps:
        return
    images, labels = known(public, spec)
    optimiser = torch.optim.Adam(net.parameters(), lr=learning_rate)
    draw = drawing(lambda name, step: run.generator(f"public {name}", step), noise_multiplicity)
    run.progress.start("public images", steps)
    for step in run.rounds(steps):
        optimiser.param_groups[0]["lr"] = learning_rate * warm_cosine(step, steps)
        rows = torch.randint(len(images), (batch,), generator=run.generator("public", step))
        rows = rows.repeat_interleave(noise_multiplicity)
        x = images[rows].to(run.device).float().div(255)
        y = labels[rows].to(run.device)
        drawn = (t.to(run.device) for t in draw(step)(len(rows)))
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(torch.device(run.device).type, torch.bfloat16, enabled=bfloat16):
            losses = loss(net, x, y, *drawn)
        losses.float().mean().backward()
        optimiser.step()
        run.progress.advance(step + 1, "public")
        run.check()
    optimiser.zero_grad(set_to_none=True)


def known(public: PublicImages, spec: DataSpec) -> tuple[Tensor, Tensor]:
    """Public pixels and labels in the terms of the private data."""
    images = public.images
    if images.pixels.shape[1:] != spec.shape or not len(images):
        shapes = ["x".join(map(str, shape)) for shape in (spec.shape, images.pixels.shape[1:])]
        raise InputError(
            f"Expected public images of {shapes[0]}, as the private ones are, found {shapes[1]}; see --size and --grey."
        )
    labels = torch.from_numpy(images.labels).long()
    same = tuple(images.classes) == tuple(spec.classes)
    return torch.from_numpy(images.pixels), labels if same else torch.full_like(labels, -1)
