"""What a method did with its parts, again on other records."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import Budget, DataLens, DataSpec, Relation
from sfumato.audit.recording.recording_barrier import Opened, Trained, learn, made_up
from sfumato.audit.recording.replay import Placed, Replay, record_pairs
from sfumato.privacy.partitions import inside

SPEC = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))
METHOD = DataLens(teachers=6, topk=10, steps=6, batch=4, latent=4)
RECORDS = made_up(SPEC, np.random.default_rng(0))


@pytest.fixture(scope="module")
def recorded():
    plan = METHOD.plan(SPEC, Budget(4.0))
    return learn(METHOD.small(), plan, RECORDS), plan


def test_all_that_was_done_with_the_parts_is_written_down_in_order(recorded):
    seen, _ = recorded
    first, *_, last = seen.barrier.asked
    kinds = [type(action) for action in last.before]
    assert kinds[0] is Opened and kinds.count(Trained) > 3 + 2 and last.before[4] is first
    assert seen.error is None and seen.weights is not None


def test_a_replay_on_the_same_records_and_key_ends_in_the_same_state(recorded):
    seen, plan = recorded
    last = seen.barrier.asked[-1]
    real, replay = inside(last.query.held), Replay(last, plan)
    replay.parts = lambda data, relation: type(real)(  # the secret key in place of the fixed one
        last.before[0].model, real.parts, data, SPEC, relation, real._key, "cpu"
    )
    parts = replay.parts(RECORDS.stored(), Relation.ADD_REMOVE)
    replay._again(parts)
    states, again = real._store.state_dict(), parts._store.state_dict()
    assert all((states[b][n] == again[b][n]).all() for b in states for n in states[b])


def test_one_record_moves_one_part_and_at_least_one_pair_moves_it(recorded):
    seen, plan = recorded
    replay = Replay(seen.barrier.asked[-1], plan)
    moved = []
    for pair in replay.pairs(np.random.default_rng(1)):
        one, two = replay.teachers(pair.one), replay.teachers(pair.two)
        moved.append(sum(a.tobytes() != b.tobytes() for a, b in zip(one, two, strict=True)))
    assert set(moved) <= {0, 1} and sum(moved) >= 5


def test_neighbours_of_every_kind_are_there():
    kinds = {(pair.kind.split()[0], pair.relation) for pair in record_pairs(SPEC, np.random.default_rng(2))}
    assert kinds == {
        ("removed", Relation.ADD_REMOVE),
        ("replaced", Relation.REPLACE_ONE),
        ("relabelled", Relation.REPLACE_ONE),
    }


def test_made_up_records_are_known_by_their_content():
    digests = RECORDS.stored().digests
    assert len({bytes(d) for d in digests}) == len(RECORDS.labels)
    twice = made_up(SPEC, np.random.default_rng(0)).stored().digests
    assert np.array_equal(digests, twice)


def test_each_set_of_records_is_played_once(recorded):
    seen, plan = recorded
    replay, placed = Replay(seen.barrier.asked[0], plan), Placed(RECORDS, Relation.ADD_REMOVE)
    assert replay.total(placed) is replay.total(placed)
