"""Audits of DP-SGD: the engine's sums, a loss that says anything, and methods that get a step wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from sfumato import Budget, DataSpec, Method, Relation, Unit
from sfumato.audit import check
from sfumato.audit.gallery.engine import Untried
from sfumato.audit.games.whole_plan_game import canary
from sfumato.audit.recording.gradients import gradient_subject, jacobian, loud_subject
from sfumato.audit.recording.recording_barrier import learn, made_up
from sfumato.engine.dpsgd import DPSGD, DPSGDConfig
from sfumato.engine.gradients.clipping import Automatic, Flat
from sfumato.engine.gradients.per_example import assign, per_example
from sfumato.engine.gradients.topk import TopK
from sfumato.networks import ConvGenerator
from sfumato.privacy.mechanisms import Gaussian
from sfumato.record_rng import drawing, normal, record_keys
from tests.audit_work import recorded_work

SPEC = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))


class Unclipped(Flat):
    """Says that it clips."""

    def weights(self, squared):
        return torch.ones_like(squared)


class Quiet(Gaussian):
    """Declares one scale and draws another."""

    def __call__(self, value, bound, noise):
        return Gaussian(self.multiplier / 2)(value, bound, noise)


@dataclass(frozen=True, kw_only=True)
class Painter(Method):
    """A small generator, trained by DP-SGD to meet each image from a latent of its own; `wrong` plants a mistake."""

    wrong: str = ""
    clip: object = 1.0
    batch: int = 20
    noise_multiplicity: int = 1
    name: ClassVar[str] = "painter"

    @property
    def config(self):
        return DPSGDConfig(6, self.batch, Unclipped(1.0) if self.wrong == "not clipped" else self.clip)

    def crossings(self, spec, z):
        return {"gradient": self.config.crossing(spec, z)}

    def plan(self, spec, budget):
        plan = super().plan(spec, budget)
        made = plan.crossings["gradient"]
        quiet = replace(made, mechanism=Quiet(made.mechanism.multiplier))
        return replace(plan, crossings={"gradient": quiet if self.wrong == "half of the noise" else made})

    def learn(self, barrier, run, public=None):
        torch.manual_seed(run.seed)
        net = ConvGenerator(barrier.spec.shape, barrier.spec.classes, 4, 8)
        random, kept = run.generator("latents"), [torch.zeros(())]

        def latents(n):
            if self.wrong in ("draws by place", "shares its randomness"):
                return (torch.randn(n, 4, generator=random),)
            return (torch.arange(n) % self.noise_multiplicity,)

        def loss(net, images, labels, z):
            if z.dim() == 1:
                z = normal(record_keys(images, z), (4,))
            if self.wrong == "remembers":
                kept.append(kept[-1] + images.detach().float().mean())
            around = images.mean(0) if self.wrong == "mixes" else kept[-1] if self.wrong == "remembers" else 0.5
            if self.wrong == "smuggles":
                kept.append(images.mean())
            return (net(z, labels) - images + around).flatten(1).square().sum(1)

        query = self.config.query(net, loss, noise_multiplicity=self.noise_multiplicity, draw=latents)
        if self.wrong in ("mixes", "remembers"):
            query = replace(query, _chosen=Untried())
        optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in run.steps(6, net=net):
            assign(net, barrier.release("gradient", query) / self.batch)
            optimiser.step()
        if self.wrong == "shares its randomness":
            net.start.bias.data.add_(torch.randn(1, generator=random))
        if self.wrong == "smuggles":
            net.start.bias.data.add_(float(kept[-1]))
        return net


def failing(report):
    return {row.check for row in report.rows if not row.ok}


def asked_of(method, relation=Relation.ADD_REMOVE):
    plan = method.plan(SPEC, Budget(4.0, relation=relation))
    seen = learn(method, plan, made_up(SPEC, np.random.default_rng(0)))
    assert seen.error is None
    return seen.barrier.asked[0], plan


@pytest.mark.parametrize("clip", [0.5, Automatic(1.0), TopK(1.0, 0.7)], ids=["flat", "automatic", "top-k"])
def test_every_clip_passes_level_0(clip):
    report = check(Painter(clip=clip))
    assert report.verdict == "pass", report.failed
    found = [row.check for row in report.rows]
    assert found.count("gradient: sensitivity") == 2 and "gradient: private state" in found
    assert {"gradient: influence", "gradient: inclusion sizes", "gradient: noise support", "draws = events"} <= {*found}


def test_copies_everyone_and_persons_pass():
    assert check(Painter(noise_multiplicity=2)).verdict == "pass"
    spec = replace(SPEC, unit=Unit.PERSON)
    report = check(Painter(batch=60), spec=spec, budget=Budget(4.0, unit=Unit.PERSON))
    assert report.verdict == "pass", report.failed


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        ("mixes", {"gradient: influence"}),
        ("remembers", {"gradient: private state"}),
        ("not clipped", {"gradient: sensitivity"}),
        ("half of the noise", {"gradient: noise scale"}),
        ("smuggles", {"fixed tape", "blind barrier"}),
        ("draws by place", {"sums along a run"}),
        ("shares its randomness", {"fixed tape"}),
    ],
)
def test_a_mistake_is_caught(wrong, caught_by):
    report = check(Painter(wrong=wrong))
    assert caught_by <= failing(report), report.rows


@pytest.mark.parametrize("relation", list(Relation))
def test_an_honest_run_passes_every_level(relation):
    report = check(Painter(), budget=Budget(4.0, relation=relation), level=2, draws=20_000, runs=800)
    assert report.verdict == "pass", report.failed
    rows = {row.check: row.detail for row in report.rows}
    mu = "1.131" if relation is Relation.REPLACE_ONE else "1"  # noise is brought down to where mu is 1 or above
    assert f"claimed {mu};" in rows["gradient: step audit"]
    assert "allows no less than" in rows["whole plan"]  # against the curve of the sampled claim


def test_half_of_the_noise_is_refuted_at_every_level():
    report = check(Painter(wrong="half of the noise"), level=2, draws=5000, runs=2000)
    assert {"gradient: noise scale", "gradient: step audit", "whole plan"} <= failing(report)


def test_a_canary_has_a_gradient_of_full_norm_alone_in_its_direction():
    for relation, apart in ((Relation.ADD_REMOVE, 1.0), (Relation.REPLACE_ONE, 2.0)):
        asked, plan = asked_of(Painter(), relation)
        game = canary(plan, {"gradient": asked}, np.random.default_rng(0), 100)
        gap = game.exact("gradient", game.two) - game.exact("gradient", game.one)
        assert np.linalg.norm(gap) == pytest.approx(apart, rel=1e-4)
        assert game.used == {"gradient": 6} and plan.crossings["gradient"].sampler.rate == 1 / 3


def test_a_loss_that_says_anything_moves_the_sum_by_the_bound_at_most():
    asked, plan = asked_of(Painter())
    subject = loud_subject(asked, plan)
    moved = {
        (p.kind, p.relation): float(np.linalg.norm(subject.exact(p.one) - subject.exact(p.two)))
        for p in subject.pairs(np.random.default_rng(0))
    }
    assert moved["nan", Relation.ADD_REMOVE] == moved["infinite", Relation.ADD_REMOVE] == 0
    assert moved["turned", Relation.REPLACE_ONE] == pytest.approx(2, rel=1e-5)
    assert moved["lone", Relation.ADD_REMOVE] == pytest.approx(1, rel=1e-5)


def test_draws_stay_with_their_image_wherever_it_stands():
    asked, plan = asked_of(Painter(noise_multiplicity=3, wrong="draws by place"))
    made = made_up(SPEC, np.random.default_rng(1), 4)
    images, labels = torch.from_numpy(made.images).float() / 255, torch.from_numpy(made.labels)
    rows, turned = asked.frozen.rows(images, labels), asked.frozen.rows(images.flip(0), labels.flip(0))
    assert torch.allclose(rows, turned.flip(0), atol=1e-6) and asked.table[0].shape == (96, 4)
    assert not torch.allclose(asked.query.rows(images, labels), asked.query.rows(images, labels), atol=1e-6)
    assert gradient_subject(asked, plan).declared[Relation.ADD_REMOVE] == pytest.approx(1.001, abs=1e-3)


def test_derivatives_see_what_mixes():
    def mixing(net, images, labels):
        return net(images.flatten(1))[:, 0] * images.mean()

    net, images = torch.nn.Linear(64, 1), torch.rand(4, 1, 8, 8)
    labels = torch.zeros(4, dtype=torch.long)
    query = per_example(net, mixing, 1.0)
    assert jacobian(replace(query, _chosen=Untried()), images, labels).min() > 0
    assert not jacobian(query, images, labels).any()  # the engine has found another way, one example at a time
    apart = per_example(net, lambda net, images, labels: net(images.flatten(1))[:, 0] ** 2, 1.0)
    found = jacobian(apart, images, labels)
    assert found.diagonal().min() > 0 and found.sum() == found.diagonal().sum()


@dataclass(frozen=True, kw_only=True)
class Descending(Painter):
    """The same through the package's own loop, whose steps draw from the run's randomness."""

    def learn(self, barrier, run, public=None):
        torch.manual_seed(run.seed)
        net = ConvGenerator(barrier.spec.shape, barrier.spec.classes, 4, 8)

        def loss(net, images, labels, keys, copy):
            return (net(normal(record_keys(images, keys), (4,)), labels) - images).flatten(1).square().sum(1)

        draw = drawing(run.generator)
        sgd = DPSGD(net, loss, run, self.config, torch.optim.Adam(net.parameters()), draw=draw)
        for _ in sgd.steps():
            sgd.step(barrier.release("gradient", sgd.query) / self.batch)
        return net


def test_level0_of_the_packages_own_loop_is_small_for_real_shapes(monkeypatch):
    spec, budget = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789")), Budget(1.0)
    method = Descending(batch=256)
    units, crossings = recorded_work(monkeypatch, method, spec, budget, method.plan(spec, budget))
    assert 1 <= units <= 200 and 1 <= crossings <= 100  # whatever the number of records


class OwnSum:
    """A query of somebody's own that bounds and sums its terms; `spread` is how far it may be off."""

    by_class, shape = False, (64,)

    def __init__(self, bound, spread):
        self.bound, self._spread = bound, spread

    def answer_shape(self, classes):
        return self.shape

    def rows(self, images, labels, *public):
        flat = images.flatten(1).double()
        return flat / flat.norm(dim=1, keepdim=True).clamp(min=1)

    def total(self, images, labels, *public, there=None):
        terms = self.rows(images, labels) if there is None else self.rows(images, labels)[there]
        return terms.sum(0) * (1 + self._spread * len(terms))


OFF = {"gradient: sensitivity", "sums along a run", "forced paths", "paths agree"}


@pytest.mark.parametrize(("spread", "verdict"), [(0.0, "pass"), (0.01, "fail")])
def test_a_sum_of_somebodys_own_is_looked_at_too(spread, verdict):
    @dataclass(frozen=True, kw_only=True)
    class Own(Painter):
        def learn(self, barrier, run, public=None):
            bound = barrier.plan.crossings["gradient"].bound
            net = torch.nn.Linear(64, 1)
            torch.nn.init.constant_(net.bias, 0.0)
            net.weight.data = barrier.release("gradient", OwnSum(bound, spread)).float()[None]
            return net

    report = check(Own())
    assert report.verdict == verdict and failing(report) == (OFF if spread else set())
