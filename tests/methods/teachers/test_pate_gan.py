"""PATE-GAN: one count a label, a student that learns from it, and that votes tell real from fake."""

from __future__ import annotations

import inspect
import math

import pytest
import torch

from sfumato import Budget, DataSpec, Plan, Relation, Run, load
from sfumato.accounting.claims import pate_gan_independent, pate_gan_sound_mu
from sfumato.data.labels import LabelPrior
from sfumato.methods.teachers.pate_gan import PATEGAN, VOTES, YES_NO
from sfumato.methods.teachers.student_discriminator import StudentDiscriminator
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
    "steps": 3,
    "batch": 4,
    "teacher_batch": 2,
    "warmup": 1,
    "hidden": 16,
    "width": 8,
    "latent": 4,
    "critic_width": 2,
    "critic_hidden": 4,
    "student_width": 4,
}


@pytest.mark.parametrize("relation", list(Relation))
def test_one_record_changes_one_vote(relation):
    plan = PATEGAN().plan(MNIST, Budget(1.0, relation=relation))
    event = plan.events()[0]
    assert event.sensitivity == 1.0 and event.shifts == ((1, 1),)
    assert event.times == plan.facts["queries"] == 64_000
    assert event.mu == pytest.approx(pate_gan_sound_mu(64_000, event.sigma))
    assert plan.profile().mu == pytest.approx(event.mu, rel=1e-4) and 0.999 < plan.epsilon() <= 1.0


def test_noise_on_both_counts_would_cost_more():
    from sfumato.accounting.gaussian import epsilon_of

    one, both = pate_gan_sound_mu(1000, 40), math.sqrt(2) * pate_gan_sound_mu(1000, 40)
    assert epsilon_of(1e-5, one) == pytest.approx(3.34, abs=0.01)
    assert epsilon_of(1e-5, both) == pytest.approx(4.98, abs=0.01)


def test_the_claim_is_the_part_that_does_not_look_at_votes():
    plan = PATEGAN().plan(MNIST, Budget(1.0))
    each = math.sqrt(2) / plan.facts["sigma"][VOTES]
    assert plan.paper == pate_gan_independent(64_000, each) and "may not be released" in plan.paper["note"]


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("epsilon", [0.2, 10.0])
def test_every_budget_is_met_and_used(epsilon, relation):
    plan = PATEGAN(labels=LabelPrior("private", fraction=0.1)).plan(MNIST, Budget(epsilon, relation=relation))
    assert 0.99 * epsilon < plan.epsilon() <= epsilon and set(plan.crossings) == {VOTES, "labels"}


@pytest.mark.parametrize("vote", ["hard", "drawn"])
def test_votes_are_yes_or_no_whatever_a_teacher_says(vote):
    said = torch.tensor([[1e30, -1e30, float("nan"), float("inf")], [0.0, 2.0, -2.0, float("-inf")]])

    class TeacherBlock:
        def scores(self, x, y):
            return said

    seeded = torch.Generator().manual_seed(0)
    rows = PATEGAN(vote=vote, loss="logistic").votes(TeacherBlock(), seeded, torch.zeros(4, 1, 8, 8), torch.zeros(4))
    assert rows.shape == (2, 4, 1) and set(rows.unique().tolist()) <= {0, 1}
    assert rows[0, :, 0].tolist() == [1, 0, 0, 1]
    assert torch.equal(YES_NO.project(rows.flatten(0, 1)), rows.flatten(0, 1))


def test_drawn_votes_have_the_probability_of_the_score():
    class TeacherBlock:
        def scores(self, x, y):
            return torch.full((4000, 1), 1.0)

    method, seeded = PATEGAN(vote="drawn", loss="logistic"), torch.Generator().manual_seed(0)
    rows = method.votes(TeacherBlock(), seeded, torch.zeros(1, 1, 8, 8), torch.zeros(1))
    assert rows.float().mean().item() == pytest.approx(torch.sigmoid(torch.tensor(1.0)).item(), abs=0.03)


def test_the_student_sees_fake_images_alone():
    # Learning has no other argument: images and labels of fakes, and what was released about them.
    assert list(inspect.signature(StudentDiscriminator.learn).parameters) == [
        "self",
        "images",
        "labels",
        "real",
        "random",
    ]
    _, _, run, _ = learn(PATEGAN(**TINY), None)
    assert run.odometer.complete


@pytest.mark.parametrize(
    "bad",
    [
        {"teachers": 0},
        {"vote": "twice"},
        {"target": "loud"},
        {"fits": 0},
        {"replay": -1},
        {"student_learning_rate": 0.0},
        {"explore": -1.0},
        {"loss": "square"},
        {"vote": "hard"},
        {"critic_norm": True},
    ],
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        PATEGAN(**bad)


@pytest.mark.parametrize(
    "switch",
    [
        {"vote": "hard", "loss": "logistic"},
        {"vote": "drawn", "loss": "logistic", "target": "rank"},
        {"explore": 0.0},
        {"target": "share"},
        {"moves": 2},
        {"generator": "dcgan", "ema_decay": 0.0},
        {"replay": 0, "fits": 3},
    ],
)
def test_every_switch_works(switch):
    net, images, run, _ = learn(PATEGAN(**TINY | switch), load(arrays()))
    assert run.odometer.complete and images.pixels.shape == (12, 1, 8, 8)
    assert all(torch.isfinite(p).all() for p in net.state_dict().values())


def test_teachers_take_real_images_for_real():
    box = two_halves()
    method = PATEGAN(
        teachers=20,
        critic_width=4,
        critic_hidden=16,
        teacher_batch=8,
        critic_learning_rate=5e-3,
        vote="drawn",
        loss="logistic",
    )
    sure = crossing(YES_NO, 1e-3, times=8, held=True)
    barrier = Barrier(box, box.spec, Odometer(Plan("votes", {}, box.spec, Budget(1.0), {VOTES: sure})))
    teachers = barrier.hold(method.critics(box.spec), 20)
    random, labels = torch.Generator().manual_seed(0), torch.arange(8) % 2
    fakes = torch.rand(8, 1, 8, 8, generator=random)
    for _ in range(40):
        barrier.train(teachers, fakes, labels)
    asked = 0.15 * torch.rand(8, 1, 8, 8, generator=random)
    asked[labels == 1, ..., :4] += 0.82
    asked[4:] = fakes[4:]
    votes = barrier.release(VOTES, PartitionSum(teachers, method.votes, YES_NO, (1,), 8), asked, labels)[:, 0]
    assert votes[:4].mean() > votes[4:].mean() + 5 and votes.max() <= 20 and votes.min() >= 0


def test_relative_votes_do_not_fall_silent():
    """Whatever a teacher thinks of all fake images together, each vote is for the better ones of its label."""
    labels, random = torch.arange(12) % 3, torch.Generator().manual_seed(0)
    said = torch.randn(50, 12, generator=random)
    shift = torch.tensor([-40.0, 3.0, 900.0])[labels]  # sure of itself, and of each label in its own way

    class TeacherBlock:
        def scores(self, x, y):
            return said + shift

    rows = PATEGAN().votes(TeacherBlock(), random, torch.zeros(12, 1, 8, 8), labels)[..., 0]
    for label in range(3):
        own = said[:, labels == label]
        assert torch.equal(rows[:, labels == label].bool(), own > own.mean(1, keepdim=True))
    assert 0.3 < rows.float().mean() < 0.7


def test_it_learns_with_little_noise():
    """Fails with votes on real or fake, which teachers of images soon give to no image at all."""
    settings = {
        "teachers": 20,
        "steps": 80,
        "batch": 32,
        "teacher_batch": 8,
        "warmup": 20,
        "critic_width": 4,
        "width": 16,
        "critic_hidden": 16,
        "latent": 8,
        "student_width": 8,
        "critic_learning_rate": 3e-3,
        "ema_decay": 0.9,
    }
    box = two_halves()
    plan = PATEGAN(**settings).plan(box.spec, Budget(1000.0))
    run = Run(device="cpu")
    run.odometer = Odometer(plan)
    net = PATEGAN(**settings).learn(Barrier(box, box.spec, run.odometer), run)
    images = net.sample(100, seed=0)
    pixels = images.pixels[:, 0] / 255
    left, right = pixels[images.labels == 1][..., :4].mean(), pixels[images.labels == 1][..., 4:].mean()
    assert left > 0.65 and right < 0.35 and pixels[images.labels == 0].mean() < 0.35
