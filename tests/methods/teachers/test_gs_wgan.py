"""GS-WGAN: the paper's claim, what its draws really cost, both repairs, and that the gradients carry a signal."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfumato import Budget, DataSpec, Plan, Relation, load
from sfumato.accounting.claims import gs_wgan, gs_wgan_fix_a, gs_wgan_sound
from sfumato.data.labels import LabelPrior
from sfumato.methods.teachers.ensemble import LOSSES
from sfumato.methods.teachers.gs_wgan import GRADIENT, GSWGAN
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import crossing
from tests.made_up import arrays
from tests.methods.test_contract import learn

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
OFFICIAL = {"teachers": 1000, "sigma": 1.07, "batch": 32, "steps": 20_000}
TINY = {
    "teachers": 6,
    "steps": 3,
    "batch": 4,
    "teacher_batch": 2,
    "warmup": 1,
    "hidden": 16,
    "width": 8,
    "latent": 4,
    "critic_width": 2,
    "critic_hidden": 4,
}


def test_the_claim_is_9_99_and_the_truth_330():
    assert gs_wgan(1000, 1.07, 32, 20_000)["epsilon"] == pytest.approx(9.99, abs=0.01)
    assert gs_wgan_sound(1000, 1.07, 32, 20_000) == pytest.approx(330, abs=2)
    assert gs_wgan_fix_a(1000, 1.07, 32, 20_000) == pytest.approx(7.56, abs=0.01)


def test_the_plan_of_the_official_settings_prints_both_and_keeps_its_own():
    plan = GSWGAN(**OFFICIAL).plan(MNIST, Budget(10.0))
    assert plan.paper["epsilon"] == pytest.approx(9.99, abs=0.01)
    assert plan.paper["official_draws_sound"] == pytest.approx(330, abs=2)
    event = plan.events()[0]
    assert (event.sigma, event.bound, event.rate, event.times) == (2.14, pytest.approx(1.0), 1e-3, 640_000)
    # Drawn by coins, a critic that is not asked says nothing: the answer moves by C, not by 2C.
    assert plan.epsilon() == pytest.approx(3.15, abs=0.01) and plan.epsilon() < gs_wgan_fix_a(1000, 1.07, 32, 20_000)


def test_images_that_share_a_draw_are_one_event():
    apart, together = (GSWGAN(**OFFICIAL | {"sigma": 0.0, "fix": fix}).plan(MNIST, Budget(10.0)) for fix in "ab")
    events = [plan.events()[0] for plan in (apart, together)]
    assert [e.times for e in events] == [640_000, 20_000]
    assert events[1].bound == pytest.approx(math.sqrt(32) * events[0].bound)
    # With the noise that fix a needs, fix b would cost far more than the budget.
    cheap = apart.facts["sigma"][GRADIENT] / 2
    with pytest.raises(ValueError, match="at least .* times as large"):
        GSWGAN(**OFFICIAL | {"sigma": cheap, "fix": "b"}).plan(MNIST, Budget(10.0))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
def test_every_budget_is_met_and_used(epsilon, relation):
    plan = GSWGAN(labels=LabelPrior("private", fraction=0.1)).plan(MNIST, Budget(epsilon, relation=relation))
    assert 0.99 * epsilon < plan.epsilon() <= epsilon
    assert set(plan.crossings) == {GRADIENT, "labels"} and plan.crossings[GRADIENT].held


def test_asking_all_critics_is_no_worse_than_asking_one():
    # Signal over noise of one query: N critics of length C in place of one.
    one, everyone = (GSWGAN(share=share).plan(MNIST, Budget(1.0)).facts["sigma"][GRADIENT] for share in (0.0, 1.0))
    assert 1000 / everyone >= 1 / one


@pytest.mark.parametrize("fix", ["a", "b"])
@pytest.mark.parametrize("unit", [True, False])
def test_no_critic_moves_an_answer_by_more_than_is_charged(fix, unit):
    method, m = GSWGAN(fix=fix, unit=unit, batch=4), 4
    found = {
        "huge": torch.full((m, 64), 1e30),
        "tiny": torch.full((m, 64), -1e-30),
        "broken": torch.full((m, 64), float("nan")),
        "some": torch.randn(m, 64),
    }

    class TeacherBlock:
        def directions(self, x, y):
            return torch.stack(list(found.values()))

    rows = method.answers(TeacherBlock(), torch.Generator(), torch.zeros(m, 1, 8, 8), torch.zeros(m, dtype=torch.long))
    terms = method.bound.project(rows.flatten(0, 1)).flatten(1)
    assert len(terms) == (len(found) if fix == "b" else len(found) * m)
    gap = torch.cdist(terms, terms).max()
    limit = method.bound.sensitivity(Relation.REPLACE_ONE)
    assert gap <= limit
    assert not unit or gap > 0.99 * limit  # attained by opposite gradients
    assert torch.linalg.vector_norm(terms, dim=1).max() <= method.bound.norm * (1 + 1e-9)


@pytest.mark.parametrize(
    "bad",
    [
        {"teachers": 0},
        {"fix": "c"},
        {"share": 1.5},
        {"clip": 0.0},
        {"sigma": -1.0},
        {"ema_decay": 1.0},
        {"generator": "conv", "width": 10},
        {"critic_learning_rate": 0.0},
        {"loss": "square"},
        {"penalty": -1.0},
        {"precision": "bfloat16"},
    ],
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        GSWGAN(**bad)


@pytest.mark.parametrize(
    "switch",
    [
        {"fix": "b"},
        {"unit": False},
        {"share": 1.0},
        {"blur": 1.0},
        {"sigma": 30.0},
        {"every": 3},
        {"loss": "logistic", "critic_norm": True, "precision": "bfloat16"},
    ],
)
def test_every_switch_works(switch):
    net, images, run, _ = learn(GSWGAN(**TINY | switch), load(arrays()))
    assert run.odometer.complete and images.pixels.shape == (12, 1, 8, 8)
    assert all(torch.isfinite(p).all() for p in net.state_dict().values())


def test_critics_are_trained_at_public_times(monkeypatch):
    taught = []
    monkeypatch.setattr(GSWGAN, "teach", lambda self, *given, first: taught.append(first))
    learn(GSWGAN(**TINY | {"steps": 7, "every": 3}), load(arrays()))
    assert taught == [True, False, False]  # before steps 0, 3 and 6


def two_halves():
    """Two classes: dark all over, and bright on the left."""
    images = np.random.default_rng(0).integers(0, 40, (400, 8, 8), dtype=np.uint8)
    labels = np.arange(400) % 2
    images[labels == 1, :, :4] += 210
    return load((images, labels))


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_point_towards_the_data(loss):
    box = two_halves()
    method = GSWGAN(
        teachers=20, batch=8, critic_width=4, critic_hidden=16, teacher_batch=8, critic_learning_rate=5e-3, loss=loss
    )
    sure = crossing(method.bound, 1e-6, times=8, held=True)
    barrier = Barrier(box, box.spec, Odometer(Plan("sum", {}, box.spec, Budget(1.0), {GRADIENT: sure})))
    critics = barrier.hold(method.critics(box.spec), 20)
    fakes, asked = torch.full((8, 1, 8, 8), 0.5) + 0.02 * torch.randn(8, 1, 8, 8), torch.arange(8) % 2
    for _ in range(60):  # parts are drawn anew each time: after 30 one run in twenty would fall short
        barrier.train(critics, fakes, asked)
    found = barrier.release(GRADIENT, PartitionSum(critics, method.answers, method.bound, (64,), 8), fakes, asked)
    found = found.view(8, 8, 8)
    assert found[asked == 1][..., :4].mean() > 0.3 and found[asked == 1][..., 4:].mean() < -0.3
    assert found[asked == 0].mean() < -0.3
