"""Classes that take turns, with correlated noise: the canary of each run is a unit of its own, on its own coordinate.

The real classes, sampler and mechanism are at work. A block begins with the canary's turn; in y = C a its term stands
in the direction of c, and the likelihood of each block is added up.
"""

from __future__ import annotations

import numpy as np
import torch

from sfumato.accounting.budget import Relation
from sfumato.audit.games.end_to_end import likelihood
from sfumato.audit.recording.correlation import Plain
from sfumato.audit.recording.recording_barrier import opened
from sfumato.audit.recording.replay import named_records
from sfumato.audit.recording.subject import Array
from sfumato.data.private import PrivateImages
from sfumato.privacy.banded import ONE
from sfumato.privacy.inside import Inside
from sfumato.privacy.mechanisms import BandedGaussian
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Plan
from sfumato.privacy.samplers import CyclicPoisson


def play_turns(name: str, plan: Plan, term: float, gap: float, uses: int, runs: int) -> Array:
    """One statistic a run; `term` is the canary's, where it takes part, and `gap` what it differs by from its other."""
    records, _ = named_records(plan.data, [i.to_bytes(8, "big") for i in range(runs)])
    inside = Inside(PrivateImages(plan.data, records), plan.data, Odometer(opened(plan)))
    crossing = plan.crossings[name]
    assert isinstance(crossing.mechanism, BandedGaussian) and isinstance(crossing.sampler, CyclicPoisson)
    plain = Plain(crossing)
    y = np.stack([plain(_answered(inside, name, term, runs)) for _ in range(uses)])
    column = np.array(crossing.mechanism.matrix.coefficients) / ONE
    classes = inside.classes(name, crossing.sampler)
    scores = np.zeros(runs)
    for first in range(uses):
        own = classes == crossing.sampler.turn(first + 1)
        block = y[first : first + len(column), own]
        c = column[: len(block)]
        length = float(np.linalg.norm(c))
        along = c @ block / length
        if plan.budget.relation is Relation.ADD_REMOVE:
            sigma = crossing.mechanism.std(crossing.bound)
            along = likelihood(along, gap * length, sigma, crossing.sampler.rate)
        scores[own] += along
    return scores


def _answered(inside: Inside, name: str, term: float, runs: int) -> Array:
    """The noisy answer of the next use, in which those whose coin says so add their term."""
    crossing = inside.odometer.charge(name)
    value = torch.zeros(runs, dtype=torch.float64)
    value[inside.taking_part(name, crossing)] = np.rint(term / crossing.bound.grid) * crossing.bound.grid
    return inside.noisy(name, crossing, value).numpy()
