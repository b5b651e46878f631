"""Kernel votes: what one record can change, the settings, and that the votes lead to the data."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfumato import Budget, DataSpec, KernelVotes, Relation, Run, load
from sfumato.data.labels import LabelPrior
from sfumato.methods.teachers.kernel_votes import UNIT, VOTES
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.recipes import find
from tests.made_up import arrays
from tests.methods.teachers.test_gs_wgan import two_halves
from tests.methods.test_contract import TINY, learn

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))


@pytest.mark.parametrize("relation", list(Relation))
def test_one_record_turns_one_vote_over(relation):
    plan = KernelVotes().plan(MNIST, Budget(1.0, relation=relation))
    (event,) = plan.events()
    assert event.sensitivity == UNIT.bound(784).sensitivity(Relation.REPLACE_ONE)
    assert (
        event.sensitivity == pytest.approx(2 * UNIT.bound(784).norm, rel=1e-5)
        and event.times == plan.facts["queries"] == 4000
    )
    # Rounding makes a vote of length 64 a little longer.
    assert 64 < UNIT.bound(784).norm < 1.1 * 64
    mu = event.sensitivity * math.sqrt(4000) / event.sigma
    assert plan.profile().mu == pytest.approx(mu, rel=1e-4) and 0.999 < plan.epsilon() <= 1.0


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("epsilon", [0.2, 10.0])
def test_every_budget_is_met_and_used(epsilon, relation):
    plan = KernelVotes(labels=LabelPrior("private", fraction=0.1)).plan(MNIST, Budget(epsilon, relation=relation))
    assert 0.99 * epsilon < plan.epsilon() <= epsilon and set(plan.crossings) == {VOTES, "labels"}


def test_no_teacher_moves_a_sum_by_more_than_is_charged():
    wild = torch.stack([torch.full((64,), 1e30), torch.full((64,), -1e30), torch.full((64,), float("nan"))])
    rows = UNIT.bound(64).project(UNIT.encode(wild[:, None], torch.Generator().manual_seed(0)).flatten(0, 1)).double()
    limit = UNIT.bound(64).sensitivity(Relation.REPLACE_ONE)
    assert 0.8 * limit < torch.cdist(rows, rows).max() <= limit
    assert (rows[2] == 0).all()


@pytest.mark.parametrize(
    "bad",
    [{"teachers": 0}, {"frequencies": 0}, {"bandwidth": 0.0}, {"octaves": -1.0}, {"width": 10}, {"fakes": 0}],
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match=f"Expected {next(iter(bad))}"):
        KernelVotes(**bad)


@pytest.mark.parametrize("switch", [{"octaves": 0.0}, {"finish": 0}, {"batch": 1}, {"precision": "float32"}])
def test_every_switch_works(switch):
    net, images, run, _ = learn(KernelVotes(**TINY["kernel-votes"] | switch), load(arrays()))
    assert run.odometer.complete and images.pixels.shape == (12, 1, 8, 8)
    assert all(torch.isfinite(p).all() for p in net.state_dict().values())


def test_more_teachers_than_records_is_fine_and_said():
    spec = DataSpec("few", 60, (1, 8, 8), ("0", "1", "2"))
    assert "fewer teachers" in KernelVotes(teachers=100).plan(spec, Budget(2.0)).warnings[0]
    net, *_ = learn(KernelVotes(**TINY["kernel-votes"] | {"teachers": 100}), load(arrays()))
    assert all(torch.isfinite(p).all() for p in net.state_dict().values())


def test_the_defaults_are_those_of_a_recipe():
    assert find("datalens-ours-mnist-10").make() == KernelVotes()


def test_it_learns_with_little_noise():
    method = KernelVotes(
        teachers=20,
        teacher_batch=8,
        frequencies=200,
        batch=16,
        steps=10,
        fits=20,
        finish=100,
        fakes=64,
        latent=8,
        width=8,
    )
    box = two_halves()
    run = Run(device="cpu", odometer=Odometer(method.plan(box.spec, Budget(1000.0))))
    images = method.learn(Barrier(box, box.spec, run.odometer), run).sample(100, seed=0)
    pixels = images.pixels[:, 0] / 255
    bright = pixels[images.labels == 1]
    assert np.mean(bright[..., :4]) > np.mean(bright[..., 4:]) + 0.3
    assert np.mean(pixels[images.labels == 0]) < np.mean(bright[..., :4]) - 0.3
