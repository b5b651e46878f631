"""Held parts: each unit in one part, no part in another's numbers, and nothing out but bounded noisy sums."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from sfumato import Budget, DataSpec, OverBudget, Relation, load
from sfumato.data.private import records
from sfumato.privacy import block_store, partitions
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum, IntegerBound
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.partitions import Partitions, PartitionSum, inside, part_of
from sfumato.privacy.plan import Plan, crossing
from sfumato.privacy.samplers import Poisson
from sfumato.types import Unit
from tests.made_up import arrays

SPEC = DataSpec("arrays", 60, (1, 8, 8), ("0", "1", "2"))
KEY = bytes(range(32))
IDS = [i.to_bytes(8, "big") for i in range(6000)]


class Sums:
    """A team that adds up the images and labels it has seen, and what was public about it."""

    def __init__(self, count):
        self.seen = torch.zeros(count, 64)
        self.times = torch.zeros(count)

    def update(self, images, labels, *public):
        self.seen += images.flatten(2).sum(1) + labels.sum(1, keepdim=True) + sum(public)
        self.times += 1

    def state_dict(self):
        return {"seen": self.seen, "times": self.times}

    def load_state_dict(self, state):
        self.seen.copy_(state["seen"])
        self.times.copy_(state["times"])


class Recipe:
    teacher_batch = 4

    def __init__(self, size=3):
        self.size = size

    def block(self, parts, device):
        return self.size

    def make(self, count, random, device):
        return Sums(count)


def parts(data, relation=Relation.ADD_REMOVE, count=10, spec=SPEC, size=3):
    return Partitions(Recipe(size), count, None if data is None else records(data), spec, relation, KEY, "cpu")


def states(made):
    """The state of each part, one after the other."""
    return torch.cat([s["seen"] for s in made._store.state_dict().values()])


def signs(team, random, *public):
    return (team.seen - team.seen.mean(1, keepdim=True)).sign().to(torch.int8)[:, None]


def barrier(data, times=5, sampler=None, bound=None, spec=SPEC):
    made = crossing(bound or IntegerBound(64), 1e-6 if sampler is None else 5.0, sampler, times, held=True)
    plan = Plan("test", {}, spec, Budget(1.0), {"votes": made})
    return Barrier(data, spec, Odometer(plan))


def test_every_record_is_in_one_part_and_is_read_there_alone():
    images, labels = arrays()
    made = parts(load((images, labels)))
    rows = np.concatenate([made._order[a:b] for a, b in zip(made._starts[:-1], made._starts[1:], strict=True)])
    assert sorted(rows.tolist()) == list(range(len(images)))


@pytest.mark.parametrize("relation", list(Relation))
def test_a_changed_record_changes_one_part_alone(relation):
    images, labels = arrays()
    other = images.copy()
    other[7] = 255 - other[7]
    one, two = (parts(load((x, labels)), relation) for x in (images, other))
    for made in (one, two):
        for _ in range(30):
            made.train()
    changed = (states(one) != states(two)).any(1).sum()
    # Under replace-one a record keeps its place; else the old content left one part and the new one came to another.
    assert changed == 1 if relation is Relation.REPLACE_ONE else 1 <= changed <= 2


def test_a_missing_record_changes_one_part_alone():
    images, labels = arrays()
    one, two = parts(load((images, labels))), parts(load((np.delete(images, 7, 0), np.delete(labels, 7))))
    for made in (one, two):
        for _ in range(30):
            made.train()
    assert (states(one) != states(two)).any(1).sum() == 1


def test_a_missing_person_changes_one_part_alone():
    images, labels = arrays()
    people = np.arange(len(images)) // 2
    spec = DataSpec("people", 30, (1, 8, 8), ("0", "1", "2"), Unit.PERSON)
    whole, fewer = (
        Partitions(
            Recipe(),
            5,
            partitions.Records(records(load((i, y)))._pixels, y, p, records(load((i, y))).digests),
            spec,
            Relation.ADD_REMOVE,
            KEY,
            "cpu",
        )
        for i, y, p in ((images, labels, people), (images[2:], labels[2:], people[2:] - 1))
    )
    for made in (whole, fewer):
        for _ in range(60):
            made.train()
    assert (states(whole) != states(fewer)).any(1).sum() == 1


def test_all_records_of_a_part_come_round():
    images, labels = arrays()
    made = parts(load((images, labels)), count=1, size=1)
    for _ in range(15):  # 15 updates of 4 draws are all 60 records
        made.train()
    expected = images.reshape(60, -1).astype(np.float64).sum(0) / 255 + labels.sum()
    # The label is added once for each of the 4 draws' sum, so once a record.
    assert np.allclose(states(made)[0].numpy(), expected, rtol=1e-5)


def test_the_size_of_blocks_does_not_matter():
    images, labels = arrays()
    one, two = (parts(load((images, labels)), size=size) for size in (3, 10))
    for made in (one, two):
        for _ in range(5):
            made.train(0.5)
    assert torch.equal(states(one), states(two))


def test_an_empty_part_votes_nothing_and_changes_nobody():
    images, labels = arrays()
    few = load((images[:2], labels[:2]))
    made = parts(few, count=10)
    made.train()
    handle = partitions.hide(made)
    ones = PartitionSum(handle, lambda team, random: torch.ones(len(team.seen), 1, 64), IntegerBound(64), (64,))
    occupied = int((np.diff(made._starts) > 0).sum())
    assert occupied <= 2
    assert torch.equal(made.total(ones, 1, None, ()), torch.full((1, 64), float(occupied), dtype=torch.float64))


def test_wild_terms_of_one_part_stay_within_the_ballot():
    made = parts(load(arrays()))
    handle = partitions.hide(made)

    def wild(team, random, value):
        rows = torch.zeros(len(team.seen), 1, 64)
        rows[0] = value
        return rows

    for value in (torch.nan, torch.inf, 1e30, -7.0):
        total = made.total(PartitionSum(handle, wild, IntegerBound(5), (64,)), 1, None, (value,))
        assert torch.isfinite(total).all()
        assert torch.linalg.vector_norm(total) <= 4 * 5**0.5  # four blocks have one such part each


def test_each_question_is_one_use():
    it = barrier(load(arrays()), times=5)
    teachers = it.hold(Recipe(), 10)
    it.train(teachers)
    three = PartitionSum(
        teachers, lambda team, random: signs(team, random).expand(-1, 3, -1), IntegerBound(64), (64,), queries=3
    )
    assert it.release("votes", three).shape == (3, 64)
    assert it.used == {"votes": 3}
    with pytest.raises(OverBudget):
        it.release("votes", three)
    assert it.used == {"votes": 3}


def test_a_question_to_parts_needs_a_crossing_of_parts():
    it = barrier(load(arrays()))
    teachers = it.hold(Recipe(), 10)
    with pytest.raises(ValueError, match="as planned"):
        it.release("votes", BoundedSum(lambda i, y: i.flatten(1), IntegerBound(64), (64,)))
    with pytest.raises(ValueError, match="as planned"):
        it.release("votes", PartitionSum(teachers, signs, Bound(8.0), (64,)))


def test_a_handle_shows_nothing():
    teachers = barrier(load(arrays())).hold(Recipe(), 10)
    shown = {name for name in dir(teachers) if not name.startswith("__")}
    assert shown == {"parts"} and teachers.parts == 10
    with pytest.raises(AttributeError):
        teachers.other = 1


def test_parts_are_drawn_anew_for_each_question():
    it = barrier(load(arrays()), times=4000, sampler=Poisson(0.3))
    made = inside(teachers := it.hold(Recipe(), 10))
    everyone = int((np.diff(made._starts) > 0).sum())
    seen = []
    original = made.total

    def spy(query, use, taking_part, public):
        seen.append(taking_part.clone())
        return original(query, use, taking_part, public)

    made.total = spy
    ask = PartitionSum(
        teachers, lambda team, random: torch.ones(len(team.seen), 2000, 1), IntegerBound(64), (1,), queries=2000
    )
    it.release("votes", ask)
    drawn = seen[0].float()
    assert everyone > 0 and drawn.shape == (10, 2000)
    assert drawn.mean().item() == pytest.approx(0.3, abs=0.015)
    together = (drawn[0] * drawn[1]).mean().item()
    assert together == pytest.approx(0.09, abs=0.03)


def test_a_blind_barrier_answers_with_noise_alone():
    it = barrier(None)
    teachers = it.hold(Recipe(), 10)
    it.train(teachers)
    answer = it.release("votes", PartitionSum(teachers, signs, IntegerBound(64), (64,)))
    assert torch.equal(answer, torch.zeros(1, 64, dtype=torch.float64))  # next to no noise, and nothing else


@pytest.mark.parametrize("where", ["device", "host", "disk"])
def test_states_may_lie_anywhere(where, monkeypatch):
    free = {"device": {"cpu": 1e12}, "host": {"cpu": 1e12}, "disk": {"cpu": 0.0}}[where]
    calls = []

    def room(device):
        calls.append(device)
        # The first question is about the device, and the next ones about the host.
        return 0.0 if where != "device" and len(calls) == 1 else free["cpu"]

    monkeypatch.setattr(block_store, "_free", room)
    made = parts(load(arrays()))
    for _ in range(3):
        made.train(0.25)
    kept = made.state_dict()
    monkeypatch.undo()
    plain = parts(load(arrays()))
    for _ in range(3):
        plain.train(0.25)
    assert torch.equal(states(made), states(plain))
    again = parts(load(arrays()), size=5)
    again.load_state_dict(kept)
    again.train(0.25)
    plain.train(0.25)
    assert torch.equal(states(again), states(plain))


class Some(Sums):
    """A team that can be asked in part, and counts how many were."""

    asked = 0

    def some(self, which):
        few = Some(len(which))
        few.seen = self.seen[which]
        return few


class SomeRecipe(Recipe):
    def make(self, count, random, device):
        return Some(count)


def test_only_drawn_parts_are_asked_and_the_sum_is_the_same():
    made = Partitions(SomeRecipe(10), 10, records(load(arrays())), SPEC, Relation.ADD_REMOVE, KEY, "cpu")
    made.train()
    drawn = torch.zeros(10, 3, dtype=torch.bool)
    drawn[[1, 4, 7], [0, 0, 2]] = True
    counts = []

    def ask(team, random):
        counts.append(len(team.seen))
        return signs(team, random).expand(-1, 3, -1)

    def ask_all(team, random):
        return signs(team, random).expand(-1, 3, -1)

    query = PartitionSum(partitions.hide(made), ask, IntegerBound(64), (64,), queries=3)
    plain = parts(load(arrays()), size=10)
    plain.train()
    expected = plain.total(
        PartitionSum(partitions.hide(plain), ask_all, IntegerBound(64), (64,), queries=3), 1, drawn, ()
    )
    assert torch.equal(made.total(query, 1, drawn, ()), expected) and expected.any()
    assert counts == [4]


def test_each_unit_is_in_exactly_one_part_and_parts_are_even():
    numbers = part_of(IDS, 40, KEY)
    assert numbers.min() == 0 and numbers.max() == 39
    assert stats.chisquare(np.bincount(numbers, minlength=40)).pvalue > 1e-6


def test_removing_one_unit_moves_nobody_else():
    whole, fewer = part_of(IDS, 400, KEY), part_of(IDS[:100] + IDS[101:], 400, KEY)
    assert np.array_equal(np.delete(whole, 100), fewer)


def test_changing_one_unit_touches_at_most_two_parts():
    changed = list(IDS)
    changed[7] = b"someone else"
    assert (part_of(IDS, 400, KEY) != part_of(changed, 400, KEY)).sum() <= 1


def test_the_key_decides():
    assert (part_of(IDS, 400, KEY) != part_of(IDS, 400, bytes(32))).mean() > 0.9


def test_all_images_of_a_person_share_a_part():
    people = [b"ann", b"bob", b"ann", b"ann"]
    numbers = part_of(people, 1000, KEY)
    assert numbers[0] == numbers[2] == numbers[3]


def test_parts_must_be_positive():
    with pytest.raises(ValueError, match="parts"):
        part_of(IDS, 0, KEY)
