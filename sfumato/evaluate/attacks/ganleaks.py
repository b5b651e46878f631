"""GAN-Leaks (Chen, Yu, Zhang and Fritz, CCS 2020): a member is nearer to what the generator makes.

    full black box      -min_j |x - g_j| over generated samples g_j
    partial black box   -min_z |x - G(z, y)|^2, searched without derivatives
    white box           the same, by gradients
    calibrated          the score less that under a reference generator trained without x

Latents are searched with the candidate's own label.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfumato.evaluate.attacks.subject import Batch, Subject
from sfumato.evaluate.distances import nearest
from sfumato.evaluate.features import Space, pixels

POOL = 64  # latents each search starts from
PULL = 1e-3  # weight of keeping |z|^2 near its expectation (the paper's third loss)


def black_box(candidates: Batch, synthetic: Batch, space: Space | None = None, device: str = "cpu") -> np.ndarray:
    """Minus the distance to the nearest synthetic image, in pixels or in a public feature space."""
    space = space or pixels(candidates.pixels.shape[1:])
    return -nearest(space(candidates.pixels), space(synthetic.pixels), 1, device)[0][:, 0]


def calibrated(subject: Subject, space: Space | None = None) -> tuple[np.ndarray, np.ndarray, str]:
    """Scores of members and others less those under the reference generator; without one, under reference images."""
    if subject.reference_generator is not None:
        images = subject.reference_generator.sample(len(subject.synthetic), seed=subject.seed)
        base = Batch(images.pixels, images.labels)
        note = "against a generator trained without the members"
    else:
        base = subject.reference
        note = "against real images that were not trained on, for want of such a generator"
    scores = [
        black_box(c, subject.synthetic, space, subject.device) - black_box(c, base, space, subject.device)
        for c in (subject.members, subject.others)
    ]
    return scores[0], scores[1], note


def _start(generator: Any, target: Tensor, labels: Tensor, random: torch.Generator) -> Tensor:
    """For each candidate the best of a pool of latents, with its own label."""
    pool = torch.randn(POOL, generator.latent, generator=random).to(target.device)
    with torch.no_grad():
        losses = torch.stack([_loss(generator, z.expand(len(target), -1), labels, target) for z in pool])
    return pool[losses.argmin(0)].clone()


def _loss(generator: Any, z: Tensor, labels: Tensor, target: Tensor) -> Tensor:
    """Mean squared error of each, with a weak pull of z to where the generator was trained."""
    error: Tensor = (generator(z, labels) - target).flatten(1).square().mean(1)
    return error + PULL * ((z.square().sum(1) / z.shape[1]) - 1).square()


def search(generator: Any, target: Tensor, labels: Tensor, random: torch.Generator, budget: int = 300) -> Tensor:
    """Without derivatives: one parent, eight children a round, a step that follows success (1/5 rule). Losses."""
    children = 8
    best = _start(generator, target, labels, random)
    with torch.no_grad():
        losses = _loss(generator, best, labels, target)
        step = torch.full((len(target), 1), 0.5, device=target.device)
        for _ in range(max(1, (budget - POOL) // children)):
            tried = best + step * torch.randn(children, *best.shape, generator=random).to(target.device)
            errors = _loss(generator, tried.flatten(0, 1), labels.repeat(children), target.repeat(children, 1, 1, 1))
            errors, which = errors.view(children, -1).min(0)
            better = errors < losses
            best = torch.where(better[:, None], tried[which, torch.arange(len(best))], best)
            losses = torch.minimum(losses, errors)
            step = (step * torch.where(better[:, None], 1.3, 0.85)).clamp(1e-3, 2.0)
    return losses


def descend(
    generator: Any, target: Tensor, labels: Tensor, random: torch.Generator, steps: int = 100, optimiser: str = "adam"
) -> Tensor:
    """By gradients over z, from the best of a pool: Adam (each candidate by itself) or L-BFGS (a batch at once)."""
    z = _start(generator, target, labels, random).requires_grad_(True)
    best = torch.full((len(target),), torch.inf, device=target.device)

    def losses() -> Tensor:
        nonlocal best
        each = _loss(generator, z, labels, target)
        best = torch.minimum(best, each.detach())
        return each.sum()

    if optimiser == "lbfgs":
        method: Any = torch.optim.LBFGS([z], max_iter=steps, history_size=20, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            (z.grad,) = torch.autograd.grad(total := losses(), z)
            return total

        method.step(closure)
    else:
        method = torch.optim.Adam([z], lr=0.1)
        for _ in range(steps):
            (z.grad,) = torch.autograd.grad(losses(), z)
            method.step()
    with torch.no_grad():
        losses()
    return best


def latent_scores(
    generator: Any,
    candidates: Batch,
    find: Callable[..., Tensor],
    device: str = "cpu",
    seed: int = 0,
    chunk: int = 100,
    **options: Any,
) -> np.ndarray:
    """Minus the least loss that `find` (search or descend) reaches for each candidate."""
    random = torch.Generator().manual_seed(seed)
    classes = len(getattr(generator, "classes", ("",)))
    scores = []
    weights = [(p, p.requires_grad) for p in generator.parameters()]
    generator = generator.to(device).eval().requires_grad_(False)
    try:
        for i in range(0, len(candidates), chunk):
            part = candidates[slice(i, i + chunk)]
            target = torch.from_numpy(np.ascontiguousarray(part.pixels)).to(device).float() / 255
            labels = torch.from_numpy(part.labels).long().to(device)
            scores.append(_over_labels(generator, target, labels, classes, find, random, options).cpu().numpy())
    finally:
        for parameter, flag in weights:
            parameter.requires_grad_(flag)
    return -np.concatenate(scores).astype(float)


def _over_labels(
    generator: Any,
    target: Tensor,
    labels: Tensor,
    classes: int,
    find: Callable[..., Tensor],
    random: torch.Generator,
    options: dict[str, Any],
) -> Tensor:
    """With the candidate's own label; where it has none, the best over all."""
    if bool((labels >= 0).all()):
        return find(generator, target, labels, random, **options)
    tried = [find(generator, target, torch.full_like(labels, c), random, **options) for c in range(classes)]
    return torch.stack(tried).min(0).values
