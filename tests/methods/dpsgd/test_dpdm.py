"""DPDM: its plan, its loss, what a record may do to a step, and that it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfumato import DPDM, Budget, DataSpec, InputError, Relation, Run, Unit, audit, load
from sfumato.data.labels import LabelPrior
from sfumato.data.public import PublicImages
from sfumato.engine.generator_dpsgd import GeneratorDPSGD
from sfumato.engine.gradients.per_example import per_example
from sfumato.engine.public_pretrain import known, public_pretrain
from sfumato.methods.dpsgd.dpsgd_method import CORRELATED
from sfumato.methods.dpsgd.embedding_pretrain import DEVIATION, PROVENANCE, embedding_images
from sfumato.networks.diffusion import DiffusionGenerator
from sfumato.record_rng import drawing, normal, record_keys, uniform
from sfumato.types import Images
from tests.explicit import halves, learned, told_apart

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
TINY = {"width": 8, "depth": 1, "sampler_steps": 2, "noise_multiplicity": 2, "batch": 60}


def draw(step=0, noise_multiplicity=2):
    return drawing(lambda name, at: torch.Generator().manual_seed(at), noise_multiplicity)(step)


def network(classes=("a", "b", "c")):
    torch.manual_seed(0)
    net = DiffusionGenerator((1, 8, 8), classes, width=8, multipliers=(1, 2), sampler_steps=2)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.05 * torch.randn(p.shape))
    return net


@pytest.mark.parametrize(("epsilon", "steps", "noise"), [(1, 1000, 8.206), (10, 2000, 1.708)])
def test_the_noise_of_a_plan(epsilon, steps, noise):
    plan = DPDM(steps=steps, batch=4096).plan(MNIST, Budget(epsilon))
    assert plan.facts["noise"] == pytest.approx(noise, rel=2e-3) and plan.warnings == ()
    assert 0.999 * epsilon < plan.epsilon() <= epsilon < plan.paper["epsilon"] < 1.2 * epsilon
    event = plan.events()[0]
    assert event.rate == 4096 / 60_000 and event.times == steps


@pytest.mark.parametrize("relation", list(Relation))
def test_an_embedding_takes_its_share_of_the_budget(relation):
    budget = Budget(1.0, relation=relation)
    plain, half = (DPDM(steps=1000, embedding_share=share).plan(MNIST, budget) for share in (0.0, 0.5))
    assert set(plain.crossings) == {"gradient"} and set(half.crossings) == {"embedding", "gradient"}
    assert half.crossings["embedding"].times == 1 and half.epsilon() <= 1.0
    assert set(half.deviations) - set(plain.deviations) == {DEVIATION}
    # Half of the squared mu is left for the gradients, whose noise grows by the root of two, nearly.
    assert half.facts["noise"] == pytest.approx(math.sqrt(2) * plain.facts["noise"], rel=0.05)


def test_an_embedding_is_released_once_and_its_images_are_the_same_each_time():
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.odometer import Odometer

    data = load(halves())
    method = DPDM(**TINY, steps=1, embedding_share=0.5, embedding_features=40, embedding_steps=3)
    barrier = Barrier(data, data.spec, Odometer(method.plan(data.spec, Budget(5.0))))
    run = Run(device="cpu")
    first = embedding_images(method, barrier, run)
    again = embedding_images(method, barrier, run)
    assert first.provenance == PROVENANCE and first.images.classes == data.spec.classes
    assert np.array_equal(first.images.pixels, again.images.pixels)
    assert barrier.used["embedding"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"embedding_share": 1.0},
        {"embedding_share": -0.1},
        {"embedding_features": 3},
        {"embedding_share": 0.1, "public_steps": 0},
    ],
)
def test_embeddings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=f"Expected {list(wrong)[-1]} "):
        DPDM(**wrong)


def test_copies_cost_nothing_and_replace_one_costs_more():
    one, many = (DPDM(steps=100, noise_multiplicity=k).plan(MNIST, Budget(1.0)) for k in (1, 32))
    other = DPDM(steps=100).plan(MNIST, Budget(1.0, relation=Relation.REPLACE_ONE))
    assert one.crossings == many.crossings and other.facts["noise"] > 1.5 * one.facts["noise"]


def test_a_private_histogram_takes_its_part():
    plan = DPDM(steps=100, labels=LabelPrior("private", fraction=0.1)).plan(MNIST, Budget(1.0))
    bare = DPDM(steps=100).plan(MNIST, Budget(1.0))
    assert bare.facts["noise"] < plan.facts["noise"] < 1.15 * bare.facts["noise"] and plan.epsilon() <= 1.0


def test_a_small_set_gives_a_quarter_of_itself_and_a_warning():
    plan = DPDM().plan(DataSpec("few", 200, (1, 8, 8), ("a", "b")), Budget(1.0))
    assert plan.facts["batch"] == 50 and "larger batch" in plan.warnings[0]


def test_the_loss_is_the_weighted_square_of_karras():
    method, net = DPDM(**TINY, P_mean=-1.0, P_std=0.8), network()
    images, labels = torch.rand(6, 1, 8, 8), torch.arange(6) % 3
    keys, copy = draw()(6)
    own = record_keys(images, keys)
    u = (copy + uniform(own, ())) / 2
    sigma = (-1.0 + 0.8 * math.sqrt(2) * torch.erfinv(2 * u - 1)).exp()
    clean = images * 2 - 1
    found = net.denoise(clean + sigma[:, None, None, None] * normal(own, (1, 8, 8), 2), sigma, labels)
    exact = (sigma**2 + 0.25) / (0.5 * sigma) ** 2 * (found - clean).square().sum((1, 2, 3))
    assert torch.allclose(method.loss(net, images, labels, keys, copy), exact, rtol=1e-3)


def test_levels_of_copies_lie_in_slices_of_their_law():
    levels = []

    class Spy(torch.nn.Module):
        def seen(self, images):
            return images

        def denoise(self, x, sigma, labels):
            levels.append(sigma.log())
            return x

    keys, copy = draw(noise_multiplicity=4)(4000)
    DPDM(noise_multiplicity=4).loss(
        Spy(), torch.rand(1000, 1, 4, 4).repeat_interleave(4, 0), torch.zeros(4000).long(), keys, copy
    )
    found = levels[0].view(1000, 4)
    assert (found.diff(dim=1) > 0).all()
    assert found.mean().item() == pytest.approx(-1.2, abs=0.02) and found.std().item() == pytest.approx(1.2, rel=0.03)


def test_gradients_go_the_fast_way_and_neighbours_move_the_sum_by_the_clip_at_most():
    net, method = network(), DPDM(**TINY, drop=0.3, guidance=1.5)
    query = per_example(net, method.loss, 0.7, batch=6, noise_multiplicity=2, draw=draw())
    images, labels = torch.rand(6, 1, 8, 8), torch.arange(6) % 3
    whole = query.total(images, labels)
    assert list(query._chosen.values()) == ["ghost"]
    moved = []
    for i in range(6):
        kept = torch.arange(6) != i
        moved.append(float((whole - query.total(images[kept], labels[kept])).norm()))
    assert max(moved) <= query.bound.sensitivity(Relation.ADD_REMOVE) and min(moved) > 0.69
    changed = images.clone()
    changed[2] = 1 - changed[2]
    assert (whole - query.total(changed, labels)).norm() <= query.bound.sensitivity(Relation.REPLACE_ONE)
    rows = query.rows(images, labels)
    assert torch.allclose(rows.sum(0), whole, atol=1e-4)


def test_labels_are_left_out_as_often_as_asked():
    seen = []

    class Spy(torch.nn.Module):
        def seen(self, images):
            return images

        def denoise(self, x, sigma, labels):
            seen.append(labels)
            return x

    keys, copy = draw(noise_multiplicity=1)(2000)
    DPDM(noise_multiplicity=1, drop=0.25).loss(Spy(), torch.rand(2000, 1, 4, 4), torch.ones(2000).long(), keys, copy)
    assert (seen[0] == -1).float().mean().item() == pytest.approx(0.25, abs=0.03) and set(seen[0].tolist()) == {-1, 1}


@pytest.mark.slow
def test_it_learns():
    net = learned(
        DPDM(
            steps=70,
            batch=60,
            noise_multiplicity=2,
            width=16,
            depth=2,
            sampler_steps=6,
            learning_rate=5e-3,
            attention=0,
        )
    )
    assert told_apart(net) > 0.8


def public_images(classes=("0", "1"), size=8):
    images, labels = halves(40, size)
    return PublicImages(Images(images[:, None], labels, classes), "made up")


def test_pre_training_uses_labels_only_where_classes_agree():
    spec = DataSpec("arrays", 60, (1, 8, 8), ("0", "1"))
    assert known(public_images(), spec)[1].tolist() == [0, 1] * 20
    assert set(known(public_images(("cat", "dog")), spec)[1].tolist()) == {-1}
    with pytest.raises(InputError, match="1x8x8"):
        known(public_images(size=6), spec)


def test_pre_training_is_ordinary_and_repeatable():
    spec, method = DataSpec("arrays", 60, (1, 8, 8), ("0", "1")), DPDM(**TINY)

    def start(steps, public):
        net = network(("0", "1"))
        public_pretrain(net, method.loss, public, spec, Run(device="cpu"), steps=steps, batch=8)
        keys, copy = draw(5)(40)
        images, labels = (torch.from_numpy(a) for a in halves(40))
        with torch.no_grad():
            return float(method.loss(net, images[:, None] / 255, labels, keys, copy).mean())

    before, after, again = start(0, public_images()), start(25, public_images()), start(25, public_images())
    assert after < 0.8 * before and after == again and start(25, None) == before


def test_public_images_are_seen_at_every_noise_level(monkeypatch):
    """The levels of a law are dealt out among copies: one copy alone would be shown the lowest of them only."""
    seen, loss = set(), DPDM.loss

    def watched(method, net, images, labels, keys, copy):
        seen.update(copy.tolist())
        return loss(method, net, images, labels, keys, copy)

    monkeypatch.setattr(DPDM, "loss", watched)
    monkeypatch.setattr(GeneratorDPSGD, "steps", lambda sgd: iter(()))
    learned(DPDM(**TINY | {"noise_multiplicity": 3}, steps=1, public_steps=1, public_batch=4), public=public_images())
    assert seen == {0, 1, 2}


def test_public_images_change_the_first_weights_and_nothing_of_the_plan():
    method = DPDM(**TINY, steps=1, public_steps=3, public_batch=4)
    with_them, without = learned(method, public=public_images()), learned(method)
    assert not np.array_equal(with_them.sample(4).pixels, without.sample(4).pixels)
    assert "public" in method.plan(MNIST, Budget(1.0)).facts


@pytest.mark.parametrize(
    "bad",
    [
        {"steps": 0},
        {"noise_multiplicity": 0},
        {"width": 12},
        {"sampler": "none"},
        {"clip": 0.0},
        {"ema_decay": 1.0},
        {"drop": 1.0},
        {"guidance": 2.0},
        {"sampler_steps": 1},
        {"sigma_data": 0.0},
        {"P_std": 0.0},
        {"P_mean": 20.0},
    ],
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        DPDM(**bad)


@pytest.mark.parametrize("relation", Relation)
def test_correlated_noise_costs_what_the_library_says_of_one_release_a_cycle(relation):
    """Banded factorisation by hand: n / b Poisson-subsampled Gaussians whose sensitivity is the norm of a column."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    plan = DPDM(steps=2000, batch=1024, bands=32).plan(MNIST, Budget(10.0, relation=relation))
    crossing = plan.crossings["gradient"]
    c = np.cumprod([1.0, *((k - 1 + crossing.mechanism.matrix.power) / k for k in range(1, 32))])
    sensitivity = np.linalg.norm(c) * crossing.bound.norm * (1 + crossing.bound.slack)
    added = NeighboringRelation.ADD_OR_REMOVE_ONE
    one = pld.from_gaussian_mechanism(
        crossing.mechanism.std(crossing.bound) / sensitivity,
        sampling_prob=32 * 1024 / 60_000,
        value_discretization_interval=1e-3,
        neighboring_relation=added if relation is Relation.ADD_REMOVE else NeighboringRelation.REPLACE_ONE,
    )
    assert one.self_compose(63).get_epsilon_for_delta(1e-5) == pytest.approx(plan.epsilon(), rel=2e-3)


def test_a_quarter_of_the_work_has_nearly_the_noise_of_the_whole():
    """At epsilon 10, 2,000 steps: sums of gradients of batch 1,024 with 16 bands, beside those of batch 4,096."""
    large, small, banded = (
        DPDM(steps=2000, batch=batch, bands=bands).plan(MNIST, Budget(10.0)).facts
        for batch, bands in ((4096, 1), (1024, 1), (1024, 16))
    )
    assert small["noise"] / 1024 == pytest.approx(1.695 * large["noise"] / 4096, rel=5e-3)
    assert banded["noise_of_sums"] / 1024 == pytest.approx(1.089 * large["noise"] / 4096, rel=5e-3)


def test_bands_are_no_more_than_a_set_has_batches_and_a_plan_says_so():
    plan = DPDM(steps=50, batch=10, bands=32).plan(DataSpec("few", 60, (1, 8, 8), ("a", "b")), Budget(10))
    assert plan.facts["bands"] == plan.crossings["gradient"].cycle == 5
    assert CORRELATED in plan.deviations and CORRELATED not in DPDM().plan(MNIST, Budget(10)).deviations
    assert "bands" not in DPDM().plan(MNIST, Budget(10)).facts


def test_correlated_noise_passes_the_audit():
    report = audit.check(DPDM(steps=40, batch=4, bands=8))
    assert report.verdict == "pass", [f for f in report.rows if not f.ok]
    checks = {f.check.rpartition(": ")[2] for f in report.rows}
    assert {"column norm", "inclusion classes", "paired partition", "noise correlation"} <= checks


@pytest.mark.slow
@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("relation", Relation)
def test_correlated_noise_passes_all_levels(relation, unit):
    spec = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"), unit=unit)
    report = audit.check(
        DPDM(steps=40, batch=4, bands=8), spec=spec, budget=Budget(4.0, relation=relation, unit=unit), level=2
    )
    assert report.verdict == "pass", [f for f in report.rows if not f.ok]
