"""Bugs of noise that is correlated between steps: in who takes turns, and in what is charged for a term."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting import accountant
from sfumato.accounting.budget import Budget, Relation
from sfumato.audit.checks.column_norm import column_of
from sfumato.audit.checks.inclusion import Ear
from sfumato.audit.gallery import engine
from sfumato.audit.gallery.common import SPEC, Bug, noise, odometer, vector_pairs
from sfumato.audit.games.turns_game import play_turns
from sfumato.audit.recording.replay import named_records
from sfumato.audit.recording.subject import Array, Inclusion, Subject
from sfumato.data.private import PrivateImages
from sfumato.privacy.banded import Banded
from sfumato.privacy.cycle import cycles_of
from sfumato.privacy.inside import Inside
from sfumato.privacy.mechanisms import BandedGaussian
from sfumato.privacy.plan import Crossing, Plan
from sfumato.privacy.samplers import CyclicPoisson

GRADIENT = "gradient"
MATRIX = Banded(4, 0.875)
USES = 8  # of a run
UNITS = 200


class _Redrawn(Inside):
    """A barrier that splits the records anew when a cycle begins."""

    def classes(self, name: str, sampler: CyclicPoisson) -> NDArray[np.int64]:
        """Of this cycle."""
        if sampler.turn(self.odometer.used[name]) == 0:
            cycles_of(self.odometer).pop(name, None)
            self._classes.clear()
        return super().classes(name, sampler)


def _crossing(mechanism: BandedGaussian, rate: float) -> Crossing:
    return engine.free(engine.linear(), mechanism=mechanism, sampler=CyclicPoisson(rate, MATRIX.bands))


def redrawn(bug: bool) -> Subject:
    """Records are split into classes once for each cycle, or once for good."""
    rate = 0.4
    crossing = _crossing(BandedGaussian(1.0, MATRIX), rate)
    names, _ = named_records(SPEC, [i.to_bytes(8, "big") for i in range(UNITS)])

    def draw(uses: int) -> list[NDArray[np.int64]]:
        inside = (_Redrawn if bug else Inside)(
            PrivateImages(SPEC, names), SPEC, odometer({GRADIENT: crossing}), noise=noise()
        )
        return [inside.taking_part(GRADIENT, inside.odometer.charge(GRADIENT)) for _ in range(uses)]

    return Subject(name="classes", inclusion=Inclusion(draw, UNITS, rate, cycle=MATRIX.bands))


@dataclass(frozen=True)
class _Forgetful(BandedGaussian):
    """Correlated noise that is charged for like any other."""

    def column_norm(self, uses: int) -> float:
        """As if the answers themselves had noise Z."""
        return 1.0


def forgotten(bug: bool) -> Subject:
    """A term is charged with its own norm, or with that of all that it adds to C x."""
    crossing = _crossing((_Forgetful if bug else BandedGaussian)(1.0, MATRIX), 0.9)
    plan = Plan("gallery", {}, SPEC, Budget(1.0), {GRADIENT: crossing})
    query = engine.linear()
    norm = query.bound.norm
    column = column_of(GRADIENT, plan, Ear(query.bound).query, MATRIX.bands)

    def play(present: bool, runs: int) -> Array:
        return play_turns(GRADIENT, plan, norm if present else 0.0, norm, USES, runs)

    return Subject(
        name="column norm",
        declared={relation: crossing.event(relation, USES).sensitivity for relation in Relation},
        pairs=vector_pairs(engine.D),
        exact=lambda data: column[:, None] * engine.total(query, data),
        play=play,
        profile=accountant.profile([crossing.event(Relation.ADD_REMOVE, USES)]),
    )


BUGS = (
    Bug("B48", "classes that take turns drawn anew in each cycle", redrawn, ("inclusion classes",), level=0),
    Bug("B49", "a column norm left out", forgotten, ("sensitivity", "end to end"), level=2, runs=8000),
)
