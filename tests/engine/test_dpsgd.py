"""DP-SGD through the barrier: bounded, sampled, divided by a public number, and resumed."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from sfumato import Budget, Run
from sfumato.engine.dpsgd import DPSGD, GRADIENT, DPSGDConfig
from sfumato.engine.gradients.per_example import bound_for, per_example
from sfumato.errors import Interrupted
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Plan, crossing, within
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
        return Plan("test", {}, data.spec, Budget(3.0), {"gradient": config.crossing(data.spec, noise)})

    return within(Budget(3.0), at) if multiplier is None else at(multiplier)


def train(data, config, plan, run=None, **options):
    net, run = small(), run or Run(device="cpu", odometer=Odometer(plan))
    barrier = Barrier(data, data.spec, run.odometer)
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


def test_it_is_resumed_where_it_stopped(tmp_path):
    class Stop(Silent):
        run = None

        def advance(self, done, note=""):
            if done == 3 and note:
                self.run._stop.set()

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
