"""Noise that later uses take back in part: how much a term counts in what is charged for, measured by an impulse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfumato.audit.checks.inclusion import Ear
from sfumato.audit.recording.recording_barrier import opened
from sfumato.audit.recording.subject import Array, Finding
from sfumato.privacy.inside import Inside
from sfumato.privacy.mechanisms import BandedGaussian
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Plan

IMPULSE = 2.0**40  # in the steps of Z
NEAR = 1e-6  # what rounding to the grid may add to a coefficient of so large an impulse


class Impulse:
    """A noise source whose noise is large once, and nothing afterwards."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._height = IMPULSE

    def gaussian(self, shape: tuple[int, ...], spread: float, device: str | torch.device = "cpu") -> Tensor:
        height = self._height
        self._height = 0.0
        return torch.full(shape, height, dtype=torch.float64, device=device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def column_of(name: str, plan: Plan, query: Any, uses: int) -> Array:
    """c_0, c_1, ... as the noise of a real barrier has them: the inverse of what it adds after an impulse."""
    blind = Inside(None, plan.data, Odometer(opened(plan)))
    blind.noise = Impulse(blind.noise)  # type: ignore[assignment]
    e = np.array([float(blind.release(name, query).ravel()[0]) for _ in range(uses)])
    column = np.zeros(uses)
    column[0] = 1.0
    for t in range(1, uses):
        column[t] = -(column[:t] * e[t:0:-1]).sum() / e[0]
    return column


def columns(plan: Plan) -> Iterator[Finding]:
    """Of each crossing whose noise is correlated: no more bands than classes, no larger norm than is charged."""
    for name, crossing in plan.crossings.items():
        if not isinstance(crossing.mechanism, BandedGaussian):
            continue
        relation = plan.budget.relation
        column = column_of(name, plan, Ear(crossing.bound).query, 2 * crossing.cycle)
        norm = float(np.linalg.norm(column[: crossing.cycle]))
        charged = crossing.event(relation, 2 * crossing.cycle).sensitivity / crossing.event(relation, 1).sensitivity
        beyond = int((np.abs(column[crossing.cycle :]) > NEAR).sum())
        said = f"'{name}': a term counts {norm:.4g} times in C x, {charged:.4g} times is charged"
        said = f"{said}; {beyond} coefficients reach beyond the cycle of {crossing.cycle}"
        yield Finding("column norm", 0, norm <= charged * (1 + NEAR) and not beyond, said)
