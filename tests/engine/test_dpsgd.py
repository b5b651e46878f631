"""DP-SGD through the barrier: bounded, sampled, divided by a public number, and resumed."""

from __future__ import annotations

import hashlib

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from sfumato import Budget, Run
from sfumato.accounting.calibrate import noise_within
from sfumato.engine.dpsgd import DPSGD, GRADIENT, DPSGDConfig
from sfumato.engine.gradients.per_example import bound_for, per_example
from sfumato.errors import Interrupted
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.cycle import Cycle
from sfumato.privacy.noise import Noise
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Plan, crossing, events_of
from sfumato.privacy.samplers import Poisson
from sfumato.run.progress import Silent
from tests.made_up import box


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))


def loss(net, images, labels):
    return cross_entropy(net(images), labels, reduction="none")


def planned(data, config, multiplier=None):
    def at(noise):
        return {"gradient": config.crossing(data.spec, noise)}

    budget = Budget(3.0)
    if multiplier is None:
        multiplier = noise_within(lambda z: events_of(at(z), budget.relation), budget.epsilon, budget.delta)
    return Plan("test", {}, data.spec, budget, at(multiplier))


def train(data, config, plan, run=None, noise=None, **options):
    net, run = small(), run or Run(device="cpu", odometer=Odometer(plan))
    barrier = Barrier(data, data.spec, run.odometer, noise=noise(run.odometer) if noise else None)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    sgd = DPSGD(net, loss, run, config, optimiser, **options)
    for _ in sgd.steps():
        sgd.step(barrier.release(GRADIENT, sgd.query) / config.batch)
        sgd.average()
    return sgd


def test_the_plan_is_poisson_with_a_slack_for_rounding():
    data, config = box(), DPSGDConfig(steps=10, batch=20, clip=0.5)
    plan = planned(data, config)
    event = plan.events()[0]
    assert event.rate == 20 / 60 and event.times == 10 and 2.9 < plan.epsilon() <= 3.0
    assert 0.5 * 1.001 < event.sensitivity < 0.5 * 1.002
    assert event.sigma == pytest.approx(plan.crossings["gradient"].mechanism.multiplier * 0.5)


def test_a_whole_batch_needs_no_sampling():
    assert DPSGDConfig(1, 60).crossing(box().spec, 1.0).sampler.rate == 1.0


def test_without_noise_it_is_clipped_gradient_descent():
    data, config = box(), DPSGDConfig(steps=1, batch=60, clip=0.3)
    before = small()
    net = train(data, config, planned(data, config, 1e-7)).net
    images, labels = torch.from_numpy(_pixels(data)), torch.from_numpy(_labels(data))
    total = torch.zeros(195, dtype=torch.float64)
    for x, y in zip(images, labels, strict=True):
        grads = torch.autograd.grad(loss(before, x[None], y[None])[0], list(before.parameters()))
        row = torch.cat([g.flatten() for g in grads]).double()
        total += row * min(1.0, 0.3 / float(row.norm()))
    moved = torch.cat([(a - b).detach().flatten() for a, b in zip(before.parameters(), net.parameters(), strict=True)])
    assert torch.allclose(moved.double(), 0.1 * total / 60, atol=1e-6)


def _pixels(data):
    from sfumato.data.private import records

    return records(data).read(slice(None)).astype("float32") / 255


def _labels(data):
    from sfumato.data.private import records

    return records(data).labels


def test_an_empty_sample_is_a_step():
    data = box()
    plan = Plan(
        "test", {}, data.spec, Budget(3.0), {"gradient": crossing(bound_for(1.0, 1), 2.0, Poisson(1e-9), times=3)}
    )
    net = train(data, DPSGDConfig(3, 1), plan).net
    assert any(not torch.equal(a, b) for a, b in zip(net.parameters(), small().parameters(), strict=True))


def test_a_sum_without_slack_is_refused():
    data = box()
    plan = Plan("test", {}, data.spec, Budget(3.0), {"gradient": crossing(bound_for(1.0, 0), 2.0)})
    with pytest.raises(ValueError, match="slack"):
        Barrier(data, data.spec, Odometer(plan)).release("gradient", per_example(small(), loss, 1.0))


def test_people_are_clipped_as_a_whole():
    data = box(person=[i // 3 for i in range(60)])
    config = DPSGDConfig(steps=1, batch=20, clip=0.05)
    net = train(data, config, planned(data, config, 1e-7)).net
    moved = torch.cat([(a - b).detach().flatten() for a, b in zip(small().parameters(), net.parameters(), strict=True)])
    assert moved.norm() <= 0.1 * 0.05 * (1 + 1e-3)  # twenty people, each at most the clip, divided by twenty


class Stop(Silent):
    """Asks for an end after some steps."""

    run = None
    after = 3

    def advance(self, done, note=""):
        if done == self.after and note:
            self.run._stop.set()


def test_it_is_resumed_where_it_stopped(tmp_path):
    data, config = box(), DPSGDConfig(steps=6, batch=60, clip=0.3)
    plan = planned(data, config, 1e-7)
    whole = train(data, config, plan, ema_decay=0.9, pace=lambda step: 1 - step / 6)
    progress = Stop()
    progress.run = run = Run(device="cpu", folder=tmp_path, odometer=Odometer(plan), progress=progress)
    with pytest.raises(Interrupted):
        train(data, config, plan, run, ema_decay=0.9, pace=lambda step: 1 - step / 6)
    again = Run(device="cpu", folder=tmp_path, odometer=Odometer(plan))
    resumed = train(data, config, plan, again, ema_decay=0.9, pace=lambda step: 1 - step / 6)
    assert again.odometer.complete and resumed.ema.count == whole.ema.count == 6
    for a, b in zip(whole.net.parameters(), resumed.net.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    for name, average in whole.ema.weights.items():
        assert torch.allclose(average, resumed.ema.weights[name], atol=1e-6)


class Tape(Noise):
    """Secret bytes that are a function of the count of an odometer: a run that goes on draws what it would have."""

    def __init__(self, odometer):
        super().__init__()
        self._odometer, self._at, self._drawn = odometer, None, 0

    def take(self, count):
        now = tuple(self._odometer.used.values())
        self._drawn = self._drawn + 1 if now == self._at else 0
        self._at = now
        return hashlib.shake_256(f"{now}/{self._drawn}".encode()).digest(count)


@pytest.mark.parametrize("after", [1, 3, 5])
def test_correlated_noise_goes_on_where_it_stopped(after, tmp_path):
    data, config = box(), DPSGDConfig(steps=9, batch=12, clip=0.3, bands=4)
    plan = planned(data, config, 1.0)
    whole = train(data, config, plan, noise=Tape)
    progress = Stop()
    progress.after = after
    progress.run = run = Run(device="cpu", folder=tmp_path, odometer=Odometer(plan), progress=progress)
    with pytest.raises(Interrupted):
        train(data, config, plan, run, noise=Tape)
    again = Run(device="cpu", folder=tmp_path, odometer=Odometer(plan))
    resumed = train(data, config, plan, again, noise=Tape)
    for a, b in zip(whole.net.parameters(), resumed.net.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_run_that_forgot_its_noises_would_be_another_one():
    data, config = box(), DPSGDConfig(steps=9, batch=12, clip=0.3, bands=4)
    plan = planned(data, config, 1.0)
    odometer = Odometer(plan)
    barrier = Barrier(data, data.spec, odometer, noise=Tape(odometer))
    query = per_example(small(), loss, 0.3, batch=12)
    answers = [barrier.release(GRADIENT, query) for _ in range(5)]
    state = {"used": {"gradient": 4}, "answers": [], "cycles": {"gradient": Cycle(bytes(32)).state_dict()}}
    forgetful = Odometer(plan)
    forgetful.load_state_dict(state)
    other = Barrier(data, data.spec, forgetful, noise=Tape(forgetful)).release(GRADIENT, query)
    assert not torch.equal(other, answers[4])


def test_bands_are_classes_that_take_turns_and_one_band_is_none():
    data = box()
    one, four = (DPSGDConfig(steps=10, batch=5, bands=bands).crossing(data.spec, 1.0) for bands in (1, 4))
    assert one == DPSGDConfig(steps=10, batch=5).crossing(data.spec, 1.0) and str(one.sampler) == "Poisson(0.0833333)"
    assert (four.cycle, four.sampler.rate, four.share) == (4, 4 * 5 / 60, 5 / 60)
    with pytest.raises(ValueError, match="Expected a rate between 0 and 1"):
        DPSGDConfig(steps=10, batch=20, bands=4).crossing(data.spec, 1.0)


def test_correlated_noise_leaves_less_in_the_sum_of_all_steps():
    config = DPSGDConfig(steps=200, batch=5, bands=16)
    assert DPSGDConfig(steps=200, batch=5).noise_of_sums == DPSGDConfig(steps=200, batch=5).column_norm == 1.0
    assert config.noise_of_sums * config.column_norm < 0.4
