"""PATE's student: its plan, its votes one unit at a time, and a whole run down to a folder that verifies."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from sfumato import Budget, DataSpec, InputError, Relation, Run, load
from sfumato.accounting.pate import gnmax_events
from sfumato.api import budget_of, verify
from sfumato.audit import check
from sfumato.classify import PATE, Classifier, TrainedClassifier
from sfumato.classify.pate import VOTES
from sfumato.data import load_public
from sfumato.data.public import PublicImages
from sfumato.data.random_process import NAME
from sfumato.errors import Interrupted
from sfumato.flow.train_classifier import accuracy, train_classifier
from sfumato.flow.verbs_audit import check_classifier
from sfumato.methods import names
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.odometer import Odometer
from sfumato.run.progress import Silent
from sfumato.types import Images, Unit
from tests.made_up import box

SPEC = DataSpec("set", 60_000, (1, 28, 28), tuple("0123456789"))
TINY = {
    "network": "linear",
    "teacher": "linear",
    "teachers": 6,
    "queries": 20,
    "batch": 8,
    "updates": 3,
    "teacher_batch": 4,
    "student_steps": 5,
}
SOUND = ("gnmax", "lnmax")


def halves(n=120, size=8, seed=0):
    """Images whose upper half is bright or dark."""
    random = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    images = random.integers(0, 60, (n, 1, size, size), dtype=np.uint8)
    images[labels == 1, :, : size // 2] += 150
    return images, labels


def public(seed=1, n=120):
    images, labels = halves(n, seed=seed)
    return PublicImages(Images(images, np.zeros(n, np.int64), ("unknown",)), "made up for a test"), labels


def learned(method, data, plan, shown=None, **run):
    made = Run(**({"device": "cpu", "odometer": Silenced(plan)} | run))
    return method.learn(Barrier(data, plan.data, made.odometer), made, shown)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
@pytest.mark.parametrize("aggregation", SOUND)
def test_the_noise_is_the_least_for_the_queries_under_both_relations(aggregation, epsilon, relation):
    plan = PATE(aggregation=aggregation).plan(SPEC, Budget(epsilon, relation=relation))
    (event,) = plan.events()
    assert 0.999 * epsilon < plan.epsilon() <= epsilon and event.held and event.times == 1000
    assert event.patterns == ((2, 1),)
    assert event.sensitivity == pytest.approx({"gnmax": math.sqrt(2), "lnmax": 2.0}[aggregation])
    assert plan.paper["epsilon"] > epsilon and "depends on the votes" in plan.paper["note"]


def test_gnmax_is_charged_as_the_formula_says():
    plan = PATE(queries=300).plan(SPEC, Budget(2.0))
    (formula,) = gnmax_events(plan.facts["sigma"], 300)
    (event,) = plan.events()
    assert (event.sigma, event.times, event.sensitivity) == (formula.sigma, formula.times, formula.sensitivity)


def test_a_classifier_of_one_class_has_one_count_to_turn():
    plan = PATE().plan(DataSpec("s", 600, (1, 8, 8), ("a",)), Budget(1.0))
    assert plan.events()[0].patterns == ((1, 1),)


def test_too_much_noise_and_too_few_records_are_warned_of():
    said = " ".join(PATE(teachers=50, queries=5000).plan(SPEC, Budget(1.0)).warnings)
    assert "more than half of 50 votes" in said
    assert any(
        "A teacher has about" in w for w in PATE().plan(DataSpec("s", 60, (1, 8, 8), ("a", "b")), Budget(1.0)).warnings
    )


def counts(data, plan, method):
    """The exact counts behind the first answers."""
    heard = []
    run = Run(device="cpu", odometer=Silenced(plan))
    barrier = Barrier(
        data, plan.data, run.odometer, heard=lambda name, total: heard.append(total.clone()), noise=Fixed()
    )
    method.learn(barrier, run, public()[0])
    return torch.cat(heard)


@pytest.mark.parametrize("relation", list(Relation))
def test_one_unit_changes_one_vote(relation):
    method = PATE(**TINY)
    images, labels = halves(60)
    other, turned = images.copy(), labels.copy()
    other[7], turned[7] = 255 - other[7], 1 - turned[7]
    usual, again = load((images, labels)), load((other, turned))
    if relation is Relation.ADD_REMOVE:
        again = load((np.delete(images, 7, 0), np.delete(labels, 7)))
    plan = method.plan(usual.spec, Budget(5.0, relation=relation))
    one, two = (counts(data, plan, method) for data in (usual, again))
    assert one.shape == (20, 2) and torch.equal(one.sum(1), torch.full((20,), one[0].sum().item()).double())
    assert float((one - two).abs().max()) <= 1 and float((one - two).abs().sum(1).max()) <= 2


def test_a_teacher_never_sees_anothers_records():
    """Every record but those of one part is changed, and its votes stay."""
    method = PATE(**TINY)
    images, labels = halves(60)
    plan = method.plan(load((images, labels)).spec, Budget(5.0, relation=Relation.REPLACE_ONE))

    def states(pixels):
        run = Run(device="cpu", odometer=Silenced(plan))
        data = load((pixels, labels))
        barrier = Barrier(data, plan.data, run.odometer, noise=Fixed())
        held = barrier.hold(method.ensemble(plan.data, run), 6)
        for _ in range(3):
            barrier.train(held)
        from sfumato.privacy.partitions import inside

        parts = inside(held)
        return parts._store.state_dict()["0"]["weight"], parts._order, parts._starts

    weight, order, starts = states(images)
    kept = order[starts[2] : starts[3]]
    changed = 255 - images
    changed[kept] = images[kept]
    again, *_ = states(changed)
    assert torch.equal(weight[2], again[2]) and not torch.equal(weight[1], again[1])


@pytest.mark.parametrize("aggregation", SOUND)
def test_it_passes_its_audit(aggregation):
    report = check(PATE(**TINY, aggregation=aggregation))
    assert report.verdict == "pass", report.failed
    checks = {row.check for row in report.rows}
    assert {
        "blind barrier",
        "fixed tape",
        "draws = events",
        "votes: teachers moved",
        "votes: noise distribution",
    } <= checks


SPECS = {
    "public count": DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2")),
    "private count": DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"), count_public=False),
    "persons": DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"), Unit.PERSON),
}


@pytest.mark.parametrize("spec", list(SPECS))
def test_the_whole_command_passes_its_audit(spec):
    report = check_classifier(PATE(**TINY), spec=SPECS[spec])
    assert report.verdict == "pass", report.failed


@pytest.mark.parametrize("aggregation", SOUND)
def test_with_little_noise_the_student_learns_what_the_teachers_saw(aggregation):
    images, labels = halves(240)
    data = load((images, labels))
    method = PATE(**TINY | {"queries": 120, "updates": 30, "student_steps": 200, "student_learning_rate": 0.01})
    shown, truth = public()
    net = learned(method, data, method.plan(data.spec, Budget(1000.0)), shown)
    found = net(torch.from_numpy(shown.images.pixels).float() / 255).argmax(1).numpy()
    assert (found == truth).mean() > 0.95


def test_without_data_it_does_the_same_and_learns_nothing():
    data, method = box(), PATE(**TINY)
    plan = method.plan(data.spec, Budget(3.0))
    seen, blind = (learned(method, d, plan) for d in (data, None))
    assert [p.shape for p in seen.parameters()] == [p.shape for p in blind.parameters()]


def test_public_images_that_do_not_fit_are_refused_before_anything_is_spent(tmp_path):
    few = PublicImages(Images(np.zeros((5, 1, 8, 8), np.uint8), np.zeros(5, np.int64)), "made up")
    wide = PublicImages(Images(np.zeros((50, 1, 9, 9), np.uint8), np.zeros(50, np.int64)), "made up")
    data = box()
    for shown, words in ((few, "at least 20 public images"), (wide, "public images of 1x8x8")):
        with pytest.raises(InputError, match=words):
            train_classifier(PATE(**TINY), data, Budget(1.0), Run(device="cpu"), public=shown)
    assert not budget_of(data)["spent"]


def test_it_is_no_generator_and_chooses_no_labels():
    plan = PATE().plan(SPEC, Budget(1.0))
    assert PATE.name not in names() and plan.labels["kind"] == "none"
    said = {section.title: section for section in PATE().explain(PATE().plan(SPEC, Budget(10.0)))}
    assert "MAY NOT BE RELEASED" in said["The epsilon that looks at the votes"].sentences[0]
    (_, torn), *_, (_, sure) = said["The epsilon that looks at the votes"].rows
    assert sure < torn / 2


@pytest.mark.parametrize("wrong", [{"teacher": "cnn"}, {"aggregation": "max"}, {"queries": 0}, {"groups": 5}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=f"Expected {next(iter(wrong))}"):
        PATE(**wrong)


@pytest.mark.parametrize("aggregation", SOUND)
def test_a_whole_run_on_fashion_mnist_is_stated_and_verifies(tmp_path, aggregation):
    """A subset, few teachers, seconds: the folder is whole, its statement true, and its card speaks of votes."""
    train = load_public("fashion-mnist", "a public set", split="train").images
    test = load_public("fashion-mnist", "a public set", split="test").images
    data = load((train.pixels[:2000], train.labels[:2000]))
    shown = PublicImages(Images(test.pixels[:500], test.labels[:500], test.classes), "test images of Fashion-MNIST")
    method = PATE(teachers=20, queries=200, updates=10, student_steps=100, aggregation=aggregation)
    command = f"sfumato train-classifier scans --by pate --epsilon 100 --public q --provenance x {sets(method)}"
    out = tmp_path / "out"
    made = train_classifier(
        method, data, Budget(100.0), Run(device="cpu"), public=shown, out=out, ledger=tmp_path / "l", command=command
    )
    verdict = verify(out)
    assert verdict.ok, verdict.rows
    statement = json.loads((out / "privacy.json").read_text())
    (event,) = statement["mechanisms"]["events"]
    assert (
        event["times"] == 200
        and event["mechanism"] == {"gnmax": "discrete-gaussian", "lnmax": "discrete-laplace"}[aggregation]
    )
    assert statement["declared_public"]["public_data"]["provenance"] == "test images of Fashion-MNIST"
    assert statement["audit"]["verdict"] == "pass" and "public images, by teachers" in (out / "README.md").read_text()
    assert (
        accuracy(made, PublicImages(Images(test.pixels[500:1500], test.labels[500:1500], tuple("0123456789")), "x"))
        > 0.4
    )
    assert TrainedClassifier.load(out).digest() == made.digest()


def sets(method):
    usual = PATE().settings()
    return " ".join(f"--set {name}={value}" for name, value in method.settings().items() if usual[name] != value)


def test_without_public_images_they_are_made_up_and_the_statement_says_so(tmp_path):
    made = train_classifier(PATE(**TINY), box(), Budget(3.0), Run(device="cpu", seed=4), out=tmp_path / "out")
    told = made.statement["declared_public"]["public_data"]
    assert told["name"] == NAME and "made up from seed 4" in told["provenance"] and told["records"] == 20
    assert verify(tmp_path / "out").ok


def test_a_public_network_of_the_teachers_is_told():
    method = PATE(**TINY | {"teacher": "features"})
    told = method.public_facts(method.build(SPEC), None, 0)["provenance"]
    assert "made up from seed 0" in told and "features of the public network efficientnet-lite0" in told


def test_a_stopped_run_is_resumed_and_paid_once(tmp_path):
    class Stop(Silent):
        def advance(self, done, note=""):
            if done == 2 and note:
                raise KeyboardInterrupt

    data, method = box(), PATE(**TINY)
    with pytest.raises(Interrupted, match="go on with resume=") as stopped:
        train_classifier(method, data, Budget(1.0), Run(device="cpu", every=0.0, progress=Stop()), out=tmp_path / "out")
    name = str(stopped.value).rpartition("=")[2]
    train_classifier(method, data, Budget(1.0), Run(device="cpu"), out=tmp_path / "out", resume=name)
    assert verify(tmp_path / "out").ok and budget_of(box())["spent"] == pytest.approx(1.0, abs=1e-3)


def test_what_was_stopped_goes_on_with_the_same_teachers(tmp_path):
    class Stop(Silent):
        def advance(self, done, note=""):
            if done == 1:
                self.run._stop.set()

    data, method, shown = load(halves(60)), PATE(**TINY | {"queries": 24}), public()[0]
    plan, progress = method.plan(data.spec, Budget(1000.0)), Stop()
    progress.run = run = Run(device="cpu", folder=tmp_path, odometer=Silenced(plan), progress=progress)
    with pytest.raises(Interrupted):
        method.learn(Barrier(data, data.spec, run.odometer), run, shown)
    again = Run(device="cpu", folder=tmp_path, odometer=Silenced(plan))
    barrier = Barrier(data, data.spec, again.odometer)
    method.learn(barrier, again, shown)
    assert behind(barrier).odometer.used[VOTES] == 24


def test_both_ways_share_their_networks():
    ours, theirs = PATE().build(SPEC), Classifier().build(SPEC)
    assert ours.architecture == theirs.architecture


class Silenced(Odometer):
    """Next to no noise has no epsilon to be shown."""

    def epsilon(self):
        return 0.0


class Fixed:
    """No noise, and keys that are the same in every run: two runs differ by their records alone."""

    source = sampler = "none"

    def take(self, count):
        return bytes(count)

    def discrete_gaussian(self, sigma, shape):
        return np.zeros(shape, np.int64)
