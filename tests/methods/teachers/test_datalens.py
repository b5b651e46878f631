"""DataLens: its plan, its switches, and that its votes carry a signal."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfumato import Budget, DataSpec, Plan, Relation, load
from sfumato.data.labels import LabelPrior
from sfumato.engine.teachers.critics import Critics
from sfumato.methods.teachers.datalens import COMPRESSIONS, DataLens
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import crossing
from tests.made_up import arrays
from tests.methods.test_contract import learn

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
TINY = {
    "teachers": 6,
    "topk": 10,
    "steps": 3,
    "batch": 4,
    "teacher_batch": 2,
    "warmup": 1,
    "hidden": 16,
    "width": 8,
    "latent": 4,
    "critic_width": 2,
    "critic_hidden": 4,
    "threshold": 0.01,
}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    ("k", "sigma", "epsilon", "exact", "by_paper", "steps"),
    [(200, 5000, 1, 2245, 1301, 149), (350, 900, 10, 2315, 1793, 154), (700, 9000, 1, 2078, 1204, 138)],
)
def test_queries_that_a_budget_allows(k, sigma, epsilon, exact, by_paper, steps, relation):
    plan = DataLens(topk=k, sigma=sigma).plan(MNIST, Budget(epsilon, relation=relation))
    found = plan.to_json()
    assert (found["queries_max"], found["paper"]["queries_max"], found["steps"]) == (exact, by_paper, steps)
    assert plan.crossings["votes"].times == 15 * steps and plan.epsilon() <= epsilon
    event = plan.events()[0]
    assert event.sensitivity == 2 * math.sqrt(k) and event.sigma == sigma


def test_without_a_sigma_the_least_is_found_for_the_steps():
    plan = DataLens(steps=149).plan(MNIST, Budget(1.0))
    assert plan.facts["queries"] == 2235
    assert plan.facts["sigma"] == pytest.approx(4989, abs=2)
    assert 0.9999 < plan.epsilon() <= 1.0


def test_drawn_teachers_need_as_much_less_noise_as_they_are_fewer():
    everyone = DataLens(steps=87).plan(MNIST, Budget(1.0)).facts["sigma"]
    drawn = DataLens(steps=87, share=0.02).plan(MNIST, Budget(1.0)).facts["sigma"]
    assert drawn == pytest.approx(0.02 * everyone, rel=0.01)


@pytest.mark.parametrize("fixed", [0.0, 3000.0])
def test_a_private_label_histogram_takes_its_part(fixed):
    labels = LabelPrior("private", fraction=0.2)
    plan = DataLens(sigma=fixed, steps=50, labels=labels).plan(MNIST, Budget(1.0))
    votes, histogram = (plan.crossings[name].event(Relation.ADD_REMOVE) for name in ("votes", "labels"))
    assert plan.epsilon() <= 1.0
    assert histogram.mu**2 / (histogram.mu**2 + votes.mu**2) == pytest.approx(0.2, abs=0.01)


def test_a_budget_too_small_for_one_step_is_refused():
    with pytest.raises(ValueError, match="raise sigma"):
        DataLens(topk=200, sigma=300).plan(MNIST, Budget(1.0))


@pytest.mark.parametrize(
    "bad",
    [
        {"teachers": 0},
        {"order": "other"},
        {"share": 0.0},
        {"rule": "hard"},
        {"ema_decay": 1.0},
        {"batch": 1},
        {"sigma": -1.0},
        {"latent_distribution": "cauchy"},
        {"generator": "conv", "width": 10},
        {"compress": "zip"},
    ],
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        DataLens(**bad)


@pytest.mark.parametrize(
    "switch",
    [
        {"order": "paper"},
        {"fake_labels": "query"},
        {"starts": 3},
        {"mismatch": True, "critic_norm": False},
        *({"compress": compress} for compress in COMPRESSIONS),
        {"share": 0.5},
        {"rule": "soft"},
        {"rule": "tanh"},
        {"rule": "shrunk"},
        {"blur": 1.0},
        {"ema_decay": 0.9, "replay": 2},
        {"latent_distribution": "uniform"},
        {"generator": "conv"},
        {"moments": "bfloat16"},
        {"precision": "bfloat16"},
    ],
    ids=lambda switch: "-".join(f"{k}={v}" for k, v in switch.items()),
)
def test_every_switch_works(switch):
    net, images, run, _ = learn(DataLens(**TINY | switch), load(arrays()))
    assert run.odometer.complete
    assert images.pixels.shape == (12, 1, 8, 8)
    assert all(torch.isfinite(p).all() for p in net.state_dict().values())


def test_labels_of_the_teachers_own_choose_among_public_fakes_of_every_class():
    """What crosses into the private side is a fake of each class for every latent, and no label at all."""
    from sfumato.engine.teachers.stacked import Stacked

    shown = []
    update = Stacked.update

    def watched(block, images, labels, fakes, fake_labels=None):
        shown.append((fakes.shape, fake_labels))
        update(block, images, labels, fakes, fake_labels)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Stacked, "update", watched)
        learn(DataLens(**TINY), load(arrays()))
    assert {shape for shape, _ in shown} == {(TINY["batch"], 3, 1, 8, 8)}
    assert all(labels is None for _, labels in shown)


def test_more_teachers_than_records_is_fine_and_said():
    spec = DataSpec("few", 60, (1, 8, 8), ("0", "1", "2"))
    assert "fewer teachers" in DataLens(**TINY | {"teachers": 100}).plan(spec, Budget(2.0)).warnings[0]
    net, *_ = learn(DataLens(**TINY | {"teachers": 100}), load(arrays()))
    assert all(torch.isfinite(p).all() for p in net.state_dict().values())


def test_votes_point_towards_the_data():
    # Two classes, dark all over and bright on the left. Asked about grey images, teachers want the right half of the
    # bright ones and all of the dark ones darker than the left half of the bright ones.
    images = np.random.default_rng(0).integers(0, 40, (400, 8, 8), dtype=np.uint8)  # equal ones would share a part
    labels = np.arange(400) % 2
    images[labels == 1, :, :4] += 210
    box, votes = load((images, labels)), DataLens(topk=32).compression
    sure = crossing(votes.bound(64), 1e-6, times=8, held=True)
    barrier = Barrier(box, box.spec, Odometer(Plan("votes", {}, box.spec, Budget(1.0), {"votes": sure})))
    teachers = barrier.hold(Critics((1, 8, 8), 2, width=4, hidden=16, teacher_batch=8, norm=False), 40)
    fakes, asked = torch.full((8, 1, 8, 8), 0.5) + 0.02 * torch.randn(8, 1, 8, 8), torch.arange(8) % 2
    for _ in range(30):
        barrier.train(teachers, fakes, asked)
    query = PartitionSum(
        teachers, lambda team, random, x, y: votes.encode(team.directions(x, y), random), votes.bound(64), (64,), 8
    )
    found = barrier.release("votes", query, fakes, asked).view(8, 8, 8)
    left, right, dark = found[asked == 1][..., :4].mean(), found[asked == 1][..., 4:].mean(), found[asked == 0].mean()
    assert right < -2 and dark < -2 and left > max(right, dark) + 2
