"""Behind the barrier: what a method cannot reach, and sums that do not depend on who else is there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sfumato import Budget, OverBudget, load
from sfumato.engine.gradients.per_example import per_example
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.inside import Inside, Lot
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import crossing
from sfumato.privacy.samplers import Poisson
from tests.made_up import arrays, box, plan


def pixels(images, labels):
    return images.flatten(1)


def test_a_method_finds_no_road_behind_its_barrier():
    data = box()
    barrier = Barrier(data, data.spec, odometer := Odometer(plan(data.spec)))
    reached = [getattr(barrier, name) for name in dir(barrier) if not name.startswith("__")]
    assert not any(isinstance(found, Inside | Odometer | torch.Tensor | np.ndarray) for found in reached)
    assert not hasattr(barrier, "__dict__") and type(barrier.noise).__name__ == "NoiseFacts"
    for name, value in (("noise", 1), ("_inside", 1), ("plan", 1)):
        with pytest.raises(AttributeError):
            setattr(barrier, name, value)
    with pytest.raises(TypeError):
        barrier.plan.crossings["sum"] = crossing(Bound(1.0), 1e-9)
    with pytest.raises(TypeError):
        odometer.used["sum"] = 0


def test_a_count_that_somebody_set_back_stops_the_run():
    data = box()
    barrier = Barrier(data, data.spec, odometer := Odometer(plan(data.spec, q=crossing(Bound(1.0), 1.0, times=3))))
    query = BoundedSum(pixels, Bound(1.0), (64,))
    barrier.release("q", query)
    odometer._used["q"] = 0
    with pytest.raises(OverBudget, match="something other than the barrier"):
        barrier.release("q", query)


def test_the_ledger_knows_what_the_barrier_returned():
    data = box()
    odometer = Odometer(plan(data.spec, q=crossing(Bound(1.0), 1.0)))
    answer = Barrier(data, data.spec, odometer).release("q", BoundedSum(pixels, Bound(1.0), (64,)))
    assert odometer.returned(answer) and not odometer.returned(answer + 1e-9)
    again = Odometer(odometer.plan)
    again.load_state_dict(odometer.state_dict())
    assert again.returned(answer) and again.used == {"q": 1}


@pytest.mark.parametrize("private", [True, False])
def test_a_page_has_one_shape_whatever_was_drawn(private):
    data = load(arrays(300), private_count=private, records=300 if private else None)
    seen = set()
    query = BoundedSum(lambda images, labels: seen.add(len(images)) or pixels(images, labels), Bound(1.0), (64,))
    made = plan(data.spec, Budget(1.0), q=crossing(Bound(1.0), 1.0, Poisson(0.2), 40))
    barrier = Barrier(data, data.spec, Odometer(made))
    for _ in range(40):
        barrier.release("q", query)
    assert seen == {96}  # 60 expected, and three standard deviations, in blocks of 32


class Chosen(Lot):
    """Everyone, each at the place of its own number."""

    def __init__(self, missing):
        self._missing = missing

    def units(self, crossing, name, use, count, noise):
        return np.setdiff1d(np.arange(count), self._missing)

    def placed(self, pages, units, ordered, noise):
        found = np.full((1, pages.rows), -1)
        found[0, units] = units
        return found


def test_a_missing_record_takes_its_own_term_and_leaves_the_others_to_the_bit():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))

    def loss(net, images, labels):
        return nn.functional.cross_entropy(net(images), labels, reduction="none")

    query, data = per_example(net, loss, 1.0, batch=30), load(arrays(30))
    made = plan(data.spec, Budget(1.0), q=crossing(query.bound, 1e-9, times=31))
    whole = {}
    for missing in (None, *range(30)):
        heard = []
        lot = Chosen([] if missing is None else [missing])
        inner = Inside(
            data, data.spec, Odometer(made), lot=lot, heard=lambda name, total, heard=heard: heard.append(total)
        )
        inner.release("q", query)
        whole[missing] = heard[0]
    gaps = torch.stack([whole[None] - whole[i] for i in range(30)])
    assert (gaps.norm(dim=1) <= query.bound.sensitivity(made.budget.relation)).all()
    assert torch.allclose(gaps.sum(0), whole[None], atol=1e-4)


def test_far_more_records_than_declared_are_added_one_by_one():
    torch.manual_seed(0)
    net = nn.Linear(64, 1)

    def loss(net, images, labels):
        return net(images.flatten(1))[:, 0]

    query = per_example(net, loss, 1.0, batch=2)
    data = load(arrays(300), private_count=True, records=2)
    made = plan(data.spec, Budget(1.0), q=crossing(query.bound, 1e-9))
    calls = []
    inner = behind(Barrier(data, data.spec, Odometer(made)))
    real = type(query).rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(query), "rows", lambda self, *given: calls.append(1) or real(self, *given))
        total = inner.release("q", query)
    assert query.bound.most == 104 < 300 and calls
    images, labels = arrays(300)
    exact = query.rows(torch.from_numpy(images).float() / 255, torch.from_numpy(labels)).sum(0)
    assert torch.allclose(total.cpu(), exact, atol=1e-3)


@pytest.mark.parametrize("way", ["ghost", "vmap"])
def test_sums_of_pages_add_up_to_the_bit_however_they_are_dealt_out(way):
    """Each of several ranks has some of the pages; float sums must not show which."""
    data = box(320)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Tanh(), nn.Linear(5, 1))
    query = per_example(net, lambda net, images, labels: net(images)[:, 0], clip=0.3, batch=320, way=way)
    sums = behind(Barrier(data, data.spec, Odometer(plan(data.spec)), microbatch=32)).sums
    pages = np.arange(320).reshape(10, 32)
    whole = sums.total("sum", query, pages, 320, ())
    for size in (2, 3, 4):
        shares = [sums.total("sum", query, pages[rank::size], 320, ()) for rank in range(size)]
        assert torch.equal(sum(shares), whole)
