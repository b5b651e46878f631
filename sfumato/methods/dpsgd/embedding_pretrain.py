"""A draft: images of a cheap release, on which a network learns before its first private step.

    released   the mean embedding of DP-MERF, once, with a share of the budget
    draft      images of a small generator that is fitted to it: post-processing, as free as public images
    then       ordinary steps of the network on them, before those of DP-SGD with the rest of the budget

After DP-FETA (Li et al. 2025), which begins with noisy mean images of each class. A draft shows what the classes look
like, which DP-SGD learns slowly; DP-SGD adds what an embedding cannot hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from sfumato.data.public import PublicImages
from sfumato.engine.generator_dpsgd import BudgetShare
from sfumato.methods.embedding.dp_merf import DPMERF, UNIT_BALL
from sfumato.methods.embedding.mean_embedding import EMBEDDING

if TYPE_CHECKING:
    from sfumato.methods.dpsgd.dpdm import DPDM
    from sfumato.privacy.barrier import Barrier
    from sfumato.run.run import Run

IMAGES = 20_000
DEVIATION = (
    "Before the first private step come ordinary ones on a draft, made of one released embedding; the paper has none."
)
PROVENANCE = "a draft made of values that were released before"


class Rehearsal:
    """A run whose steps are not kept: they are made again, the same ones, when the run is resumed."""

    def __init__(self, run: Run, name: str) -> None:
        self.run = run
        self.name = name
        self.device = run.device
        self.seed = run.seed
        self.once = run.once

    def generator(self, name: str, step: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
        """Public randomness of its own."""
        return self.run.generator(f"{self.name} {name}", step, device)

    def steps(self, total: int, **state: Any) -> Iterator[int]:
        """Step numbers, with progress and a look at Ctrl-C."""
        self.run.progress.start(self.name, total)
        for step in self.run.rounds(total):
            yield step
            self.run.progress.advance(step + 1, self.name)
            self.run.check()


def parts(share: float) -> dict[str, BudgetShare]:
    """The release of a draft that gets this share of the squared mu; none at 0."""
    return {EMBEDDING: BudgetShare(UNIT_BALL, share)} if share else {}


def told(share: float) -> tuple[str, ...]:
    """What a plan says of it among the deviations from the paper."""
    return (DEVIATION,) if share else ()


def check_draft(method: DPDM) -> None:
    """Refuse settings that make no sense."""
    if not 0 <= method.draft < 1 or method.draft_features % 2:
        raise ValueError(
            f"Expected draft from 0 to below 1 and draft_features even, found {method.draft}, {method.draft_features}."
        )
    if method.draft and not method.public_steps:
        raise ValueError("Expected public_steps above 0 with draft: a draft is there to learn from, found 0.")


def draft(method: DPDM, barrier: Barrier, run: Run) -> PublicImages:
    """The images, as many as the network will look at."""
    sketch = DPMERF(labels=method.labels, features=method.draft_features, steps=method.draft_steps, batch=100, width=64)
    net = sketch.learn(barrier, Rehearsal(run, "draft"))  # type: ignore[arg-type]  # the barrier is inside
    count = min(IMAGES, method.public_steps * method.public_batch)
    return PublicImages(net.sample(count, seed=run.seed), PROVENANCE)
