"""G-PATE: its accounting, the votes against a computation by hand, and that they carry a signal."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato import Budget, DataSpec, Plan, Relation, load
from sfumato.accounting.claims import g_pate_sound_mu
from sfumato.data.labels import LabelPrior
from sfumato.methods.teachers.ensemble import LOSSES
from sfumato.methods.teachers.g_pate import GPATE, HISTOGRAM, TEST
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import crossing
from tests.made_up import arrays
from tests.methods.teachers.test_gs_wgan import two_halves
from tests.methods.test_contract import learn

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
TINY = {
    "teachers": 6,
    "dimensions": 3,
    "bins": 4,
    "steps": 3,
    "batch": 4,
    "teacher_batch": 2,
    "warmup": 1,
    "hidden": 16,
    "width": 8,
    "latent": 4,
    "critic_width": 2,
    "critic_hidden": 4,
    "generator": "conv",
}


@pytest.mark.parametrize("relation", list(Relation))
def test_both_questions_are_charged_for_every_image(relation):
    plan = GPATE().plan(MNIST, Budget(1.0, relation=relation))
    answers, tests = (plan.crossings[name].event(relation) for name in (HISTOGRAM, TEST))
    assert (answers.sensitivity, tests.sensitivity) == (math.sqrt(20), math.sqrt(10))
    assert answers.times == tests.times == plan.facts["queries"] == 9600
    mu = g_pate_sound_mu(10, tests.sigma, answers.sigma, 9600)
    assert mu == pytest.approx(math.hypot(answers.mu, tests.mu))
    assert plan.profile().mu == pytest.approx(mu, rel=1e-5) and plan.epsilon() <= 1.0
    assert tests.sigma == pytest.approx(3 * answers.sigma)
    assert plan.paper["epsilon"] > 1.0 and "data-independent" in plan.paper["note"]


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("epsilon", [0.2, 10.0])
def test_every_budget_is_met_and_used(epsilon, relation):
    plan = GPATE(labels=LabelPrior("private", fraction=0.1)).plan(MNIST, Budget(epsilon, relation=relation))
    assert 0.99 * epsilon < plan.epsilon() <= epsilon and set(plan.crossings) == {HISTOGRAM, TEST, "labels"}


def test_without_the_test_the_histogram_has_all_of_the_budget():
    with_test, without = (GPATE(confident=c).plan(MNIST, Budget(1.0)) for c in (True, False))
    assert set(without.crossings) == {HISTOGRAM}
    ratio = with_test.facts["sigma"][HISTOGRAM] / without.facts["sigma"][HISTOGRAM]
    assert ratio == pytest.approx(math.sqrt((1 / 9 + 2) / 2), rel=1e-4)


@pytest.mark.parametrize(
    "bad",
    [
        {"teachers": 0},
        {"bins": 1},
        {"clip": 0.0},
        {"ratio": 0.0},
        {"threshold": 2.0},
        {"answer": "loud"},
        {"dimensions": 0},
        {"batch": 1},
    ],
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        GPATE(**bad)


@pytest.mark.parametrize(
    "switch",
    [
        {"confident": False},
        {"answer": "mean"},
        {"ema_decay": 0.9},
        {"loss": "logistic", "critic_norm": True},
        {"unit": False, "clip": 3e-4, "latent_distribution": "uniform"},
    ],
)
def test_every_switch_works(switch):
    net, images, run, _ = learn(GPATE(**TINY | switch), load(arrays()))
    assert run.odometer.complete and images.pixels.shape == (12, 1, 8, 8)
    assert all(torch.isfinite(p).all() for p in net.state_dict().values())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("answer", ["plurality", "mean"])
def test_votes_point_towards_the_data(answer, loss):
    box = two_halves()
    method = GPATE(
        teachers=20,
        batch=8,
        critic_width=4,
        critic_hidden=16,
        teacher_batch=8,
        loss=loss,
        dimensions=40,
        critic_learning_rate=5e-3,
    )
    votes, random = method.votes, torch.Generator().manual_seed(0)
    sure = {
        HISTOGRAM: crossing(votes.histogram, 1e-3, times=8, held=True),
        TEST: crossing(votes.confirmation, 1e-3, times=8, held=True),
    }
    barrier = Barrier(box, box.spec, Odometer(Plan("votes", {}, box.spec, Budget(1.0), sure)))
    teachers = barrier.hold(method.critics(box.spec), 20)
    fakes, asked = torch.full((8, 1, 8, 8), 0.5) + 0.02 * torch.randn(8, 1, 8, 8, generator=random), torch.arange(8) % 2
    for _ in range(60):
        barrier.train(teachers, fakes, asked)
    matrix = votes.matrix(64, random)
    query = PartitionSum(
        teachers, lambda team, random, x, y: votes.encode(team.directions(x, y), matrix), votes.histogram, (40, 10), 8
    )
    counts = barrier.release(HISTOGRAM, query, fakes, asked)
    agree = PartitionSum(
        teachers,
        lambda team, random, x, y, named: votes.agree(team.directions(x, y), matrix, named),
        votes.confirmation,
        (40,),
        8,
    )
    named = counts.argmax(-1)
    agreed = barrier.release(TEST, agree, fakes, asked, named)
    assert torch.equal(agreed, counts.amax(-1))  # without noise the test counts those of the leading bin
    found = votes.mean(counts / 20, matrix) if answer == "mean" else votes.decode(named, agreed >= 6, matrix)
    found = found.view(8, 8, 8)
    assert found[asked == 1][..., :4].mean() > found[asked == 1][..., 4:].mean() + 0.05
    assert found[asked == 0].mean() < -0.02
