"""One value of a whole sample: within its ball whatever the records do, and charged for all of the ball."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sfumato import Budget, Relation, Unit, load
from sfumato.accounting import accountant
from sfumato.accounting.events import Event
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import BatchBound, Bound, BoundedSum
from sfumato.privacy.noise import Noise
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import MOVED, crossing
from sfumato.privacy.ranks import Alone
from sfumato.privacy.samplers import Poisson
from tests.made_up import arrays, box, plan

TINY = 1e-9
BALL = BatchBound(1.0)


def mean(images, labels):
    return images.flatten(1).mean(0)


def barrier_of(data, bound=BALL, sampler=None, multiplier=TINY, times=1, **options):
    made = plan(data.spec, Budget(1.0, unit=data.spec.unit), q=crossing(bound, multiplier, sampler, times))
    return Barrier(data, data.spec, Odometer(made), **options)


def ask(data, query, **options):
    return barrier_of(data, query.bound, **options).release("q", query)


def test_the_value_is_that_of_all_records_at_once_for_any_microbatch():
    images, _ = arrays()
    expected = images.reshape(60, -1).mean(0) / 255
    query = BatchValue(mean, BatchBound(100.0), (64,))
    for m in (1, 7, 64):
        assert np.allclose(ask(box(), query, microbatch=m), expected, atol=1e-4)


def test_the_value_is_projected_as_a_whole():
    found = ask(box(), BatchValue(lambda images, labels: torch.full((2, 3), 7.0), BALL, (2, 3)))
    assert torch.linalg.vector_norm(found).item() == pytest.approx(1, abs=1e-5)
    assert torch.allclose(found, torch.full((2, 3), 6**-0.5, dtype=torch.float64), atol=1e-5)


TROUBLE = {
    "sign of a bit": lambda images, labels: (images[0, 0, 0, 0] > 0.5) * 2e9 - torch.full((5,), 1e9),
    "sign of the count": lambda images, labels: torch.full((5,), (-1e9) ** (len(images) % 2)),
    "nan": lambda images, labels: torch.full((5,), torch.nan) if len(images) % 2 else -torch.ones(5),
    "infinite": lambda images, labels: torch.full((5,), torch.inf) if len(images) % 2 else -torch.ones(5),
    "huge": lambda images, labels: images.flatten()[:5] * 1e38,
}


@pytest.mark.parametrize("kind", TROUBLE)
def test_no_neighbour_moves_it_by_more_than_the_ball_is_wide(kind):
    query = BatchValue(TROUBLE[kind], BALL, (5,))
    images, labels = arrays()
    other = images.copy()
    other[0] = 255 - other[0]
    whole, gone, swapped = (
        behind(barrier_of(load(data))).sums.value("q", query, np.arange(len(data[1])), ())
        for data in ((images, labels), (images[1:], labels[1:]), (other, labels))
    )
    for found, relation in ((gone, Relation.ADD_REMOVE), (swapped, Relation.REPLACE_ONE)):
        assert torch.isfinite(found).all()
        assert torch.linalg.vector_norm(whole - found) <= BALL.sensitivity(relation)


def test_the_worst_neighbours_are_as_far_apart_as_is_declared():
    # Not only an upper bound: a sum's sensitivity, half as much, would be wrong under add-remove.
    query = BatchValue(TROUBLE["sign of the count"], BALL, (5,))
    one, two = (behind(barrier_of(load(arrays(n=n)))).sums.value("q", query, np.arange(n), ()) for n in (59, 60))
    assert torch.linalg.vector_norm(one - two) > 0.9999 * BALL.sensitivity(Relation.ADD_REMOVE)
    assert torch.linalg.vector_norm(one - two) > 1.9 * Bound(1.0).sensitivity(Relation.ADD_REMOVE)


def test_an_empty_sample_is_a_release_of_noise_around_zero():
    called = []
    query = BatchValue(lambda images, labels: called.append(1), BALL, (500,))
    found = ask(box(), query, sampler=Poisson(1e-9), multiplier=3.0)
    assert not called and found.shape == (500,) and 2.5 < found.std() < 3.5
    blind = plan(q=crossing(BALL, 3.0))
    assert Barrier(None, blind.data, Odometer(blind)).release("q", query).shape == (500,)
    assert not called


def test_a_sample_is_drawn_by_its_rate():
    sizes = []

    def count(images, labels):
        sizes.append(len(images))
        return torch.zeros(1)

    barrier = barrier_of(box(), sampler=Poisson(0.3), times=200)
    for _ in range(200):
        barrier.release("q", BatchValue(count, BALL, (1,)))
    assert len(set(sizes)) > 5 and np.mean(sizes) == pytest.approx(18, abs=1)


def test_the_records_of_a_person_come_together():
    seen = []

    def count(images, labels):
        seen.append(len(images))
        return torch.zeros(1)

    data = box(person=np.arange(60) // 20)
    assert data.spec.unit is Unit.PERSON
    barrier = barrier_of(data, sampler=Poisson(0.5), times=30)
    for _ in range(30):
        barrier.release("q", BatchValue(count, BALL, (1,)))
    assert set(seen) <= {20, 40, 60} and len(set(seen)) > 1


@pytest.mark.parametrize("bound", [Bound(1.0), None])
def test_another_bound_is_refused(bound):
    with pytest.raises(ValueError, match=r"Expected bound=Ball"):
        BatchValue(mean, bound, (64,))


def test_a_crossing_of_a_sum_does_not_serve_a_value_nor_the_other_way_round():
    value, total = BatchValue(mean, BALL, (64,)), BoundedSum(lambda i, y: i.flatten(1), Bound(1.0), (64,))
    for query, planned in ((value, Bound(1.0)), (total, BALL)):
        with pytest.raises(ValueError, match="as planned"):
            barrier_of(box(), planned).release("q", query)


def test_a_value_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        ask(box(), BatchValue(mean, BALL, (3,)))


class Second(Alone):
    """A rank that is not the first."""

    def owns(self, block):
        return block != 0


def test_ranks_other_than_the_first_add_nothing():
    query = BatchValue(lambda images, labels: torch.ones(4), BALL, (4,))
    assert ask(box(), query, ranks=Second()).abs().max() < 1e-6
    assert torch.allclose(ask(box(), query, ranks=Alone()), torch.full((4,), 0.5, dtype=torch.float64), atol=1e-5)


def grid(profile, deltas=(1e-2, 1e-5)):
    return [profile.epsilon(d) for d in deltas]


@pytest.mark.parametrize("relation", list(Relation))
def test_without_sampling_it_is_a_gaussian_of_twice_the_norm(relation):
    # privacy.md 2.8: noise of 2 C sigma has multiplier sigma.
    event = crossing(BatchBound(0.5), 2 * 1.1, times=7).event(relation)
    plain = Event("gaussian", 1.1, 1.0, 1.0, Relation.ADD_REMOVE, times=7)
    assert grid(accountant.profile([event])) == pytest.approx(grid(accountant.profile([plain])), rel=1e-5)


@pytest.mark.parametrize("relation", list(Relation))
def test_sampled_it_is_a_sum_whose_terms_have_twice_the_norm(relation):
    event = crossing(BatchBound(0.5), 2 * 1.1, Poisson(0.01), 50).event(relation)
    plain = crossing(Bound(1.0), 1.1, Poisson(0.01), 50).event(relation)
    plain = replace(plain, sensitivity=plain.sensitivity / (1 + MOVED), bound=plain.bound / (1 + MOVED))
    assert event.bound == pytest.approx(plain.bound, rel=1e-12) and event.sigma == plain.sigma and not event.held
    assert grid(accountant.profile([event])) == pytest.approx(grid(accountant.profile([plain])), rel=1e-9)


def stick(one, two, epsilon, step):
    return np.maximum(one - np.exp(epsilon) * two, 0).sum() * step


@pytest.mark.parametrize(("a", "b", "c"), [(0, 1, -1), (-1, 1, -1), (1, 1, -1), (-1, 0, 1), (1, -1, -1), (0.3, 1, -1)])
def test_the_declared_pairs_dominate_any_three_points_of_the_ball(a, b, c):
    # f(S), f(S + x) and f(S + x') on a line through the ball; one use at epsilon 0.1, 0.5 and 1.
    q, sigma, step = 0.2, 2.0, 1e-3
    x = np.arange(-30, 30, step)
    normal = lambda at: np.exp(-0.5 * ((x - at) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))  # noqa: E731
    base, with_one, with_other = normal(a), *((1 - q) * normal(a) + q * normal(p) for p in (b, c))
    declared = {r: accountant.profile([crossing(BALL, sigma, Poisson(q)).event(r)]) for r in Relation}
    for epsilon in (0.1, 0.5, 1.0):
        add = max(stick(base, with_one, epsilon, step), stick(with_one, base, epsilon, step))
        swap = max(stick(with_one, with_other, epsilon, step), stick(with_other, with_one, epsilon, step))
        assert add <= declared[Relation.ADD_REMOVE].delta(epsilon) + 1e-7
        assert swap <= declared[Relation.REPLACE_ONE].delta(epsilon) + 1e-7


def test_noise_has_the_planned_scale():
    query = BatchValue(lambda images, labels: torch.zeros(20_000), BatchBound(0.5), (20_000,))
    found = ask(box(), query, multiplier=2.2, noise=Noise())
    assert found.std().item() == pytest.approx(1.1, rel=0.03)
