"""The game of DPAF on public images before the first private step: Trans(D) and Trans(G+D) of the paper.

The steps are those of `DPAF.learn`; what is asked there of the barrier is computed here, without noise.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sfumato.engine.adversarial import Labelled, public_batch

if TYPE_CHECKING:
    from sfumato.methods.gan.dpaf.dpaf import DPAFStep
    from sfumato.run.run import Run


def public_game(step: DPAFStep, images: Labelled, run: Run) -> None:
    """`public_steps` of them; the generator forgets them again unless `public_generator`."""
    players = step.players
    before = copy.deepcopy({"net": players.net.state_dict(), "optimiser": players.optimiser.state_dict()})
    turns = players.turns.state_dict()
    noise = step.noise
    step.noise = 0.0
    for i in run.rounds(step.method.public_steps):
        t = -1 - i  # randomness of its own
        step.critic.lower.turn(t)
        A = step.remember(_aggregates(step, _some(step, images, "aggregate", step.config.batch, run, t)))
        for n in step.moves(t):
            fakes = players.fakes(step.method.fakes, run, n)
            v, of_fakes = step.upper_step(A, fakes, run, n)
            if n == step.moves(t)[0] and step.config.lower_learns(t):
                for name, layers in step.lower.items():
                    length, along = layers.scaled(v, fakes)
                    records = _some(step, images, name, layers.batch, run, t)
                    with torch.no_grad():
                        total = layers.query.total(*records, along)
                    layers.step(length * total, of_fakes, fakes)
            if players.turns.due():
                step.generator_step(run, n)
        run.check()
    step.noise = noise
    step.forget()
    players.turns.load_state_dict(turns)
    if not step.method.public_generator:
        players.net.load_state_dict(before["net"])
        players.optimiser.load_state_dict(before["optimiser"])


def _some(step: DPAFStep, images: Labelled, name: str, count: int, run: Run, t: int) -> Labelled:
    """Public images in the place of the records that a crossing would sample."""
    return public_batch(images, count, step.critic.lower.classes, run.generator(f"public {name}", t), run.device)


@torch.no_grad()
def _aggregates(step: DPAFStep, records: Labelled) -> Tensor:
    """What the barrier would answer of them, without noise."""
    images, labels = records
    rows = step.sums.rows(images, labels).double()
    place = labels if step.sums.by_class else torch.zeros_like(labels)
    return rows.new_zeros(len(step.critic.shares), *step.sums.shape).index_add_(0, place, rows)
