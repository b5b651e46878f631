"""The barrier: charged first, one way out, the right sum behind the noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato import Budget, OverBudget, Unit, load
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum, IntegerBound
from sfumato.privacy.noise import Noise
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import crossing
from sfumato.privacy.samplers import Poisson
from tests.made_up import arrays, box, plan

TINY = 1e-9  # so little noise that the sum shows


def pixels(images, labels):
    return images.flatten(1)


def votes(images, labels):
    return torch.nn.functional.one_hot(labels, 3)


def ask(data, query, sampler=None, microbatch=16, times=1, multiplier=TINY):
    made = plan(data.spec, Budget(1.0, unit=data.spec.unit), q=crossing(query.bound, multiplier, sampler, times))
    barrier = Barrier(data, data.spec, Odometer(made), microbatch=microbatch)
    return [barrier.release("q", query).numpy() for _ in range(times)]


def test_the_sum_is_the_sum_of_projected_terms_for_any_microbatch():
    images, _ = arrays()
    flat = images.reshape(60, -1) / 255
    expected = (flat / np.maximum(1, np.linalg.norm(flat, axis=1, keepdims=True))).sum(0)
    outs = [ask(box(), BoundedSum(pixels, Bound(1.0), (64,)), microbatch=m)[0] for m in (1, 7, 64)]
    assert np.allclose(outs[0], expected, atol=1e-4)
    assert np.allclose(outs[0], outs[1], atol=1e-6) and np.allclose(outs[0], outs[2], atol=1e-6)


def test_class_sums_are_kept_apart():
    images, labels = arrays()
    out = ask(box(), BoundedSum(pixels, Bound(100.0), (64,), by_class=True))[0]
    for c in range(3):
        assert np.allclose(out[c], (images[labels == c].reshape(-1, 64) / 255).sum(0), atol=1e-3)


def test_a_record_of_nan_changes_nothing_else():
    def poisoned(images, labels):
        rows = images.flatten(1).clone()
        rows[labels == 1] = torch.nan
        return rows

    out = ask(box(), BoundedSum(poisoned, Bound(1.0), (64,), by_class=True))[0]
    assert np.isfinite(out).all()
    assert np.abs(out[1]).max() < 1e-3 < np.abs(out[0]).max()


def test_a_person_contributes_one_bounded_term_however_many_images():
    person = np.array([0] * 50 + list(range(1, 11)))
    data = box_of_people(person)
    assert data.spec.unit is Unit.PERSON and data.spec.records == 11
    lone = ask(data, BoundedSum(lambda i, y: torch.ones(len(i), 1), Bound(1.0), (1,)))[0]
    assert lone[0] == pytest.approx(11, abs=1e-5)
    counts = ask(data, BoundedSum(votes, IntegerBound(1, low=0), (3,)), multiplier=1e-3)[0]
    assert counts.sum() == 11


def box_of_people(person):
    return box(person=person.astype(str))


def test_a_person_is_averaged_by_class_and_then_clipped():
    person = np.array([0] * 30 + [1] * 30)
    out = ask(box_of_people(person), BoundedSum(lambda i, y: torch.ones(len(i), 1), Bound(1.0), (1,), by_class=True))[0]
    assert np.allclose(out.sum(), 2, atol=1e-5)


def test_persons_in_small_microbatches_give_the_same_sum():
    person = np.arange(60) // 7
    outs = [ask(box_of_people(person), BoundedSum(pixels, Bound(1.0), (64,)), microbatch=m)[0] for m in (3, 100)]
    assert np.allclose(*outs, atol=1e-6)


def test_poisson_samples_fresh_units_each_time():
    query = BoundedSum(lambda i, y: torch.ones(len(i), 1), Bound(1.0), (1,))
    sizes = [round(float(v[0])) for v in ask(box(), query, Poisson(0.5), times=60)]
    assert len(set(sizes)) > 4 and 20 < np.mean(sizes) < 40


def test_empty_batches_release_noise():
    query = BoundedSum(pixels, Bound(1.0), (64,))
    outs = ask(box(n=3), query, Poisson(1e-6), times=3, multiplier=1.0)
    assert all(np.isfinite(o).all() and o.std() > 0.5 for o in outs)


def test_a_crossing_is_charged_before_a_record_is_read():
    data = box()
    barrier = Barrier(data, data.spec, odometer := Odometer(plan(data.spec)))
    seen = []
    query = BoundedSum(lambda i, y: seen.append(dict(odometer.used)) or i.flatten(1), Bound(1.0), (64,))
    barrier.release("sum", query)
    assert seen[0] == {"sum": 1}
    with pytest.raises(OverBudget, match="one more"):
        barrier.release("sum", query)
    assert len(seen) == 1


def test_an_unplanned_crossing_or_another_bound_is_refused():
    data = box()
    barrier = Barrier(data, data.spec, Odometer(plan(data.spec)))
    with pytest.raises(OverBudget, match="planned crossing"):
        barrier.release("other", BoundedSum(pixels, Bound(1.0), (64,)))
    with pytest.raises(ValueError, match="as planned"):
        barrier.release("sum", BoundedSum(pixels, Bound(2.0), (64,)))


def test_a_blind_barrier_answers_noise_of_the_same_shape():
    data = box()
    query = BoundedSum(pixels, Bound(1.0), (64,), by_class=True)
    made = plan(data.spec, q=crossing(Bound(1.0), 2.0))
    seeing, blind = (Barrier(d, data.spec, Odometer(made)).release("q", query) for d in (data, None))
    assert seeing.shape == blind.shape and seeing.dtype == blind.dtype
    assert 1.5 < blind.std() < 2.5


def test_one_draw_of_noise_for_each_event():
    class Counting(Noise):
        draws = 0

        def gaussian(self, shape, spread, device="cpu"):
            Counting.draws += 1
            return super().gaussian(shape, spread, device)

    data = box()
    odometer = Odometer(plan(data.spec, q=crossing(Bound(1.0), 1.0, times=5)))
    barrier = Barrier(data, data.spec, odometer, noise=Counting(), microbatch=4)
    for _ in range(5):
        barrier.release("q", BoundedSum(pixels, Bound(1.0), (64,)))
    assert Counting.draws == sum(e.times for e in odometer.plan.events(used=odometer.used)) == 5


def test_the_pace_of_a_private_count_is_not_shown():
    told = []
    data = box(private_count=True, records=100)
    barrier = Barrier(
        data, data.spec, Odometer(plan(data.spec)), tick=lambda name, part: told.append(part), microbatch=8
    )
    barrier.release("sum", BoundedSum(pixels, Bound(1.0), (64,)))
    assert set(told) == {None}


def test_neighbours_differ_by_at_most_the_sensitivity():
    images, labels = arrays()
    other = images.copy()
    other[17] = 255 - other[17]
    query = BoundedSum(pixels, Bound(1.0), (64,), by_class=True)
    one, two = (ask(load((x, labels)), query)[0] for x in (images, other))
    assert 0 < np.linalg.norm(one - two) <= 2.0 + 1e-6
