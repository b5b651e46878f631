"""One suite over the method table: what every method must keep, whoever wrote it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from sfumato import Budget, DataSpec, OverBudget, Relation, Run, load
from sfumato.data.labels import LabelPrior
from sfumato.errors import Interrupted
from sfumato.methods import find, names
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.odometer import Odometer
from sfumato.run.progress import Recorder
from tests.made_up import arrays

# The smallest settings that still do everything; a new method brings its own line.
TINY = {
    "datalens": {
        "teachers": 6,
        "topk": 10,
        "steps": 6,
        "batch": 4,
        "teacher_batch": 2,
        "warmup": 1,
        "hidden": 16,
        "width": 8,
        "latent": 4,
        "critic_width": 2,
        "critic_hidden": 4,
        "threshold": 0.01,
    },
    "dp-hp": {"order": 2, "groups": 3, "steps": 6, "batch": 4, "latent": 4, "width": 8},
    "dp-mepf": {"network": "random", "grid": 1, "steps": 6, "batch": 4, "latent": 4, "width": 8},
    "dp-merf": {"features": 40, "steps": 6, "batch": 4, "latent": 4, "width": 8},
    "dp-moments": {"coefficients": 9},
    "dp-nf": {"steps": 5, "batch": 12, "layers": 2, "width": 8},
    "dp-ntk": {"hidden": 2, "steps": 6, "batch": 4, "latent": 4, "width": 8},
    "dp-sinkhorn": {"steps": 6, "batch": 12, "fakes": 6, "blur": 1.0, "rounds": 1, "latent": 4, "width": 8},
    "dp-swd": {"slices": 6, "bins": 4, "steps": 6, "batch": 4, "latent": 4, "width": 8},
    "dp-vae": {"steps": 5, "batch": 12, "latent": 3, "width": 8},
    "dpaf": {
        "epochs": 0.9,
        "batch": 10,
        "mu": 2,
        "critic_width": 2,
        "features": 4,
        "width": 2,
        "latent": 4,
        "hidden": 4,
        "learning_rate": 0.05,
        "critic_learning_rate": 0.05,
        "replay": 2,
        "fakes": 8,
        "moves": 2,
        "matching": 1.0,
    },
    "dpd-fvae": {
        "sites": 4,
        "steps": 6,
        "site_batch": 2,
        "local_steps": 1,
        "warmup": 1,
        "latent": 3,
        "hidden": 4,
        "learning_rate": 0.05,
    },
    "dpdm": {
        "steps": 5,
        "batch": 12,
        "noise_multiplicity": 2,
        "width": 8,
        "depth": 1,
        "sampler_steps": 2,
        "embedding_share": 0.2,
        "embedding_features": 20,
        "embedding_steps": 2,
        "public_steps": 2,
        "public_batch": 4,
    },
    "dpgan": {
        "steps": 6,
        "batch": 12,
        "fakes": 4,
        "critic_steps": 2,
        "latent": 4,
        "width": 8,
        "critic_width": 4,
        "generator": "conv",
        "learning_rate": 0.05,
        "critic_learning_rate": 0.05,
    },
    "g-pate": {
        "teachers": 6,
        "dimensions": 3,
        "bins": 4,
        "threshold": 0.0,
        "steps": 6,
        "batch": 4,
        "teacher_batch": 2,
        "warmup": 1,
        "generator": "conv",
        "width": 8,
        "latent": 4,
        "critic_width": 2,
        "critic_hidden": 4,
    },
    "gs-wgan": {
        "teachers": 6,
        "steps": 6,
        "batch": 4,
        "teacher_batch": 2,
        "warmup": 1,
        "hidden": 16,
        "width": 8,
        "latent": 4,
        "critic_width": 2,
        "critic_hidden": 4,
    },
    "kernel-votes": {
        "frequencies": 20,
        "teachers": 6,
        "teacher_batch": 2,
        "batch": 4,
        "steps": 6,
        "fits": 2,
        "finish": 3,
        "fakes": 5,
        "width": 8,
        "latent": 4,
    },
    "ndpdc": {"each": 2, "steps": 6, "batch": 12, "width": 4, "depth": 1},
    "p3gm": {"steps": 5, "batch": 12, "latent": 3, "width": 8, "components": 2, "rounds": 2},
    "pate-gan": {
        "teachers": 6,
        "steps": 6,
        "batch": 4,
        "teacher_batch": 2,
        "warmup": 1,
        "hidden": 16,
        "width": 8,
        "latent": 4,
        "critic_width": 2,
        "critic_hidden": 4,
        "student_width": 4,
    },
    "pearl": {"frequencies": 20, "steps": 6, "batch": 4, "latent": 4, "width": 8},
    "private-evolution": {"each": 4, "rounds": 6},
    "private-set": {"each": 2, "rounds": 2, "outer": 3, "batches": 1, "inner": 2, "batch": 12, "width": 4, "depth": 1},
    "sfumato": {
        "labeller_steps": 4,
        "patches": 2,
        "mirrored": True,
        "features": 40,
        "scattering": 0.5,
        "generator": "leaves",
        "generators": 2,
        "steps": 6,
        "batch": 12,
        "width": 8,
    },
}
# Methods that train nothing draw nothing before they sample. They are stopped while they measure: in the first
# crossing, and in the second.
MEASURED_ALONE = {"dp-moments": ("mean", "covariance")}
VARIANTS = {
    "uniform": LabelPrior("uniform"),
    "declared": LabelPrior("declared", weights=(0.5, 0.3, 0.2)),
    "private": LabelPrior("private", fraction=0.3),
}
# Declared shares take the way of uniform ones; one method has them in the default run, all of them in the slow one.
CASES = [
    pytest.param(
        name,
        kind,
        id=f"{name}-{kind}",
        marks=[pytest.mark.slow] if kind == "declared" and name != "dp-merf" else [],
    )
    for name in names()
    for kind in VARIANTS
]
SPEC = DataSpec("arrays", 60, (1, 8, 8), ("0", "1", "2"))
BUDGET = Budget(2.0)


def make(name, kind="uniform"):
    return find(name)(**TINY[name], labels=VARIANTS[kind])


class Taped:
    """Behind a barrier: answers from a fixed tape, while a real one still does all its work."""

    def __init__(self, inner, tape):
        self.inner, self.spec, self.odometer, self._tape, self.shapes = inner, inner.spec, inner.odometer, tape, []
        self.noise = inner.noise

    def hold(self, *given):
        return self.inner.hold(*given)

    def train(self, held, *public):
        self.inner.train(held, *public)

    def release(self, name, query, *public):
        shape = tuple(self.inner.release(name, query, *public).shape)
        self.shapes.append((name, shape))
        use = self.odometer.used[name]
        random = np.random.default_rng([self._tape, use, *name.encode()])
        return torch.from_numpy(random.normal(5.0, 3.0, shape))


@cache
def planned(method):
    """Its plan, made once: a plan is never changed, and some take a second."""
    return method.plan(SPEC, BUDGET)


def learn(method, data, tape=None, run=None, plan=None):
    """Everything that becomes visible when `method` learns: weights, images, progress, shapes of releases."""
    plan = plan or planned(method)
    odometer = run.odometer if run and run.odometer else Odometer(plan)
    run = run or Run(device="cpu", progress=Recorder(), odometer=odometer)
    barrier = Barrier(data, SPEC, odometer, microbatch=16, tick=run.tick)
    taped = None if tape is None else Taped(behind(barrier), tape)
    net = method.learn(Barrier.before(taped) if taped else barrier, run)
    images = net.sample(12, seed=3)
    return net, images, run, taped


@cache
def taped(method):
    """What a whole run on the arrays gives under the first tape: what others are compared with."""
    return learn(method, load(arrays()), tape=1)


def test_every_method_has_a_tiny_setting():
    assert set(TINY) == set(names())


@pytest.mark.parametrize("name", names())
def test_every_method_says_in_a_sentence_what_it_is_good_for(name):
    said = vars(find(name))["good_for"]  # by itself, not by its family
    assert said[0].isupper() and said.endswith(".") and ". " not in said and 50 <= len(said) <= 160


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_plan_needs_only_the_public_spec(name, kind, relation):
    plan = make(name, kind).plan(SPEC, replace(BUDGET, relation=relation))
    assert plan.epsilon() <= BUDGET.epsilon
    assert plan.crossings and plan.paper["note"]
    assert json.loads(json.dumps(plan.to_json(), allow_nan=False)) == plan.to_json()


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_method_finishes_against_a_blind_barrier(name, kind):
    net, images, run, _ = learn(make(name, kind), data=None)
    assert run.odometer.complete
    assert images.pixels.shape == (12, 1, 8, 8)
    assert all(torch.isfinite(p).all() for p in net.state_dict().values())


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_declared_crossings_are_those_used(name, kind):
    _, _, run, _ = learn(make(name, kind), load(arrays()))
    assert run.odometer.used == {n: c.times for n, c in run.odometer.plan.crossings.items()}


def neighbours():
    images, labels = arrays()
    changed_image, changed_label = images.copy(), labels.copy()
    changed_image[5] = 255 - changed_image[5]
    changed_label[5] = (changed_label[5] + 1) % 3
    constant = images.copy()
    constant[5] = 0  # zero variance, zero gradient: the classic cause of a NaN
    return {"image": (changed_image, labels), "label": (images, changed_label), "constant": (constant, labels)}


@pytest.mark.parametrize("change", ["image", "label", "constant"])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_under_one_tape_of_releases_neighbours_look_the_same(name, kind, change):
    method = make(name, kind)
    one, two = taped(method), learn(method, load(neighbours()[change]), tape=1)
    for (key, a), b in zip(one[0].state_dict().items(), two[0].state_dict().values(), strict=True):
        assert torch.equal(a, b), key
    assert np.array_equal(one[1].pixels, two[1].pixels) and np.array_equal(one[1].labels, two[1].labels)
    assert one[0].config() == two[0].config()
    assert one[2].progress.lines == two[2].progress.lines != []
    assert one[3].shapes == two[3].shapes


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_tape_is_what_matters(name, kind):
    method = make(name, kind)
    assert not np.array_equal(taped(method)[1].pixels, learn(method, load(arrays()), tape=2)[1].pixels)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_one_use_too_many_is_refused(name, kind):
    method = make(name, kind)
    plan = planned(method)
    for missing in plan.crossings:
        fewer = {n: (replace(c, times=c.times - 1) if n == missing else c) for n, c in plan.crossings.items()}
        with pytest.raises(OverBudget):
            learn(method, load(arrays()), plan=replace(plan, crossings=fewer))


class StopAfter(Recorder):
    """Asks the run to stop after some steps, as Ctrl-C would; of a method without steps, after pages of records."""

    def __init__(self, steps, crossings=()):
        super().__init__()
        self.left, self.run = 2 * steps if crossings else steps, None
        self.counted = crossings or "epsilon"

    def advance(self, done, note=""):
        super().advance(done, note)
        if note.startswith(self.counted):
            self.left -= 1
            if self.left == 0:
                self.run._stop.set()


@pytest.mark.parametrize("stop", [1, 4])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_resumed_run_equals_an_uninterrupted_one(name, kind, stop, tmp_path):
    method = make(name, kind)
    whole = taped(method)[0]

    def run(progress):
        made = Run(device="cpu", folder=tmp_path, progress=progress, odometer=Odometer(planned(method)))
        progress.run = made
        return made

    with pytest.raises(Interrupted):
        learn(method, load(arrays()), tape=1, run=run(StopAfter(stop, MEASURED_ALONE.get(name, ()))))
    resumed, _, again, _ = learn(method, load(arrays()), tape=1, run=run(Recorder()))
    assert again.odometer.complete
    assert again.progress.lines[0] != ("advance", 1, "")
    for (key, a), b in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b), key


@pytest.mark.parametrize("name", names())
def test_the_user_seed_decides_public_randomness(name):
    method = make(name)

    def weights(seed):
        run = Run(device="cpu", seed=seed, odometer=Odometer(planned(method)))
        return learn(method, None, tape=1, run=run)[0].state_dict()

    one, same, other = weights(0), weights(0), weights(1)
    assert all(torch.equal(one[k], same[k]) for k in one)
    drawn = any(not torch.equal(one[k], other[k]) for k in one)
    assert drawn == (name not in MEASURED_ALONE)


@pytest.mark.parametrize("name", names())
def test_an_image_does_not_depend_on_its_batch(name):
    net = learn(make(name), None)[0]
    z, labels = torch.randn(9, net.latent), torch.arange(9) % 3
    with torch.no_grad():
        together, alone = net(z, labels), torch.cat([net(z[i : i + 1], labels[i : i + 1]) for i in range(9)])
    assert torch.allclose(together, alone, atol=1e-5)
