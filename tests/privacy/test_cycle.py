"""What correlated noise keeps from use to use: once for a crossing, with its counts, and out of a method's reach."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato import Budget, Relation
from sfumato.errors import OverBudget
from sfumato.privacy.banded import Banded
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.cycle import Cycle, cycles_of
from sfumato.privacy.mechanisms import BandedGaussian
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.partitions import identities, part_of
from sfumato.privacy.plan import Crossing, Plan
from sfumato.privacy.samplers import CyclicPoisson
from tests.made_up import box

BOUND = Bound(1.0)
QUERY = BoundedSum(lambda images, labels: images.flatten(1), BOUND, (64,))


def started(data, relation=Relation.ADD_REMOVE):
    crossing = Crossing(BOUND, BandedGaussian(1.0, Banded(4, 0.5)), CyclicPoisson(0.5, 4), 40)
    odometer = Odometer(Plan("test", {}, data.spec, Budget(1.0, relation=relation), {"sum": crossing}))
    return Barrier(data, data.spec, odometer), odometer, crossing


def test_the_key_is_drawn_once_and_units_keep_their_class():
    barrier, odometer, crossing = started(box())
    barrier.release("sum", QUERY)
    key = cycles_of(odometer)["sum"].key
    inside = behind(barrier)
    classes = inside.classes("sum", crossing.sampler)
    for _ in range(39):
        barrier.release("sum", QUERY)
        assert cycles_of(odometer)["sum"].key == key
    known = identities(inside.sums.data, inside.spec, Relation.ADD_REMOVE)
    assert np.array_equal(classes, part_of(known, 4, key)) and set(classes) <= {0, 1, 2, 3}
    assert np.array_equal(inside.classes("sum", crossing.sampler), classes)


def test_two_runs_have_keys_of_their_own():
    keys = set()
    for _ in range(2):
        barrier, odometer, _ = started(box())
        barrier.release("sum", QUERY)
        keys.add(cycles_of(odometer)["sum"].key)
    assert len(keys) == 2


def test_those_who_take_part_are_of_the_class_whose_turn_it_is():
    barrier, odometer, crossing = started(box())
    inside = behind(barrier)
    for use in range(12):
        odometer.charge("sum")
        members = inside.taking_part("sum", crossing)
        assert set(inside.classes("sum", crossing.sampler)[members]) <= {use % 4}


def test_persons_have_one_class_for_all_of_their_records():
    barrier, odometer, crossing = started(box(person=[i // 3 for i in range(60)]))
    odometer.charge("sum")
    inside = behind(barrier)
    assert len(inside.classes("sum", crossing.sampler)) == inside.sums.units == 20


def test_positions_count_under_replace_one():
    barrier, _, crossing = started(box(), Relation.REPLACE_ONE)
    inside = behind(barrier)
    classes = inside.classes("sum", crossing.sampler)
    key = cycles_of(inside.odometer)["sum"].key
    assert np.array_equal(classes, part_of([i.to_bytes(8, "big") for i in range(60)], 4, key))


def test_a_checkpoint_brings_key_and_noises_back():
    barrier, odometer, _ = started(box())
    for _ in range(6):
        barrier.release("sum", QUERY)
    state = odometer.state_dict()
    again = Odometer(odometer.plan)
    again.load_state_dict(state)
    one, two = (cycles_of(o)["sum"] for o in (odometer, again))
    assert one.key == two.key and len(two.past) == 3
    assert all(torch.equal(a, b) for a, b in zip(one.past, two.past, strict=True))


def test_a_run_does_not_go_on_without_them():
    barrier, odometer, _ = started(box())
    state = odometer.state_dict()
    del state["cycles"]
    odometer.load_state_dict(state)  # nothing was used, and so nothing is lost
    barrier.release("sum", QUERY)
    for lost in ({"cycles": {}}, {}):
        with pytest.raises(OverBudget, match="with the classes and noises of"):
            Odometer(odometer.plan).load_state_dict({"used": {"sum": 1}, "answers": []} | lost)


def test_an_odometer_does_not_show_what_is_kept():
    barrier, odometer, _ = started(box())
    barrier.release("sum", QUERY)
    shown = [value for value in vars(odometer).values() if isinstance(value, dict)]
    assert not any(isinstance(value, Cycle) for kept in (vars(odometer), *shown) for value in kept.values())
