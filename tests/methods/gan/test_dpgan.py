"""DPGAN: its plan, its switches, and that it learns what images look like."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from sfumato import DPGAN, Budget, DataSpec, InputError, Relation, Run, load
from sfumato.data.labels import LabelPrior
from sfumato.data.public import PublicImages
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.recipes import find
from sfumato.recipes.dpgan import CONFIGURATIONS, FAMILY
from sfumato.types import Images
from tests.made_up import arrays
from tests.methods.test_contract import BUDGET, SPEC, learn

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
TINY = {
    "steps": 4,
    "batch": 12,
    "fakes": 4,
    "critic_steps": 2,
    "latent": 4,
    "width": 8,
    "critic_width": 8,
    "generator": "conv",
}


def test_the_revision_s_noise_meets_its_budget():
    # Their configuration: batch 128, 450 000 steps, sigma 1 for epsilon 10 by Renyi DP; exact accounting needs less.
    plan = DPGAN(batch=128, steps=450_000, critic_steps=50).plan(MNIST, Budget(10.0))
    event = plan.events()[0]
    assert plan.facts["sigma"] == pytest.approx(0.9643, abs=1e-3) and plan.facts["generator_steps"] == 9000
    assert (event.rate, event.times) == (128 / 60_000, 450_000) and 9.99 < plan.epsilon() <= 10
    assert plan.paper["epsilon"] == pytest.approx(
        2 * event.rate * math.sqrt(450_000 * math.log(1e5)) / 0.9643, rel=1e-3
    )


@pytest.mark.parametrize("clip", [0.1, 1.0, 7.0])
def test_the_clipping_norm_does_not_change_the_plan(clip):
    flat = DPGAN(clip=clip, steps=100).plan(MNIST, Budget(1.0)).events()[0]
    layers = DPGAN(clip=clip, steps=100, clipping="layers").plan(MNIST, Budget(1.0)).events()[0]
    assert 1 < flat.sensitivity < 1.01 and clip < layers.sensitivity < 1.01 * clip
    assert layers.sigma / layers.sensitivity == pytest.approx(flat.sigma / flat.sensitivity, rel=1e-3)


def test_replace_one_needs_more_noise():
    noise = [DPGAN(steps=1000).plan(MNIST, Budget(2.0, relation=r)).facts["sigma"] for r in Relation]
    assert max(noise) > 1.2 * min(noise)


def test_a_private_label_histogram_takes_its_part():
    plan = DPGAN(steps=1000, labels=LabelPrior("private", fraction=0.2)).plan(MNIST, Budget(1.0))
    alone = DPGAN(steps=1000).plan(MNIST, Budget(1.0))
    assert set(plan.crossings) == {"labels", "critic"} and 0.99 < plan.epsilon() <= 1.0
    assert 1.02 < plan.facts["sigma"] / alone.facts["sigma"] < 1.25


def test_a_small_set_gives_a_quarter_and_hears_of_the_noise():
    plan = DPGAN().plan(DataSpec("few", 60, (1, 8, 8), ("a", "b")), Budget(0.2))
    assert plan.crossings["critic"].sampler.rate == 0.25 and "larger batch" in plan.warnings[0]


@pytest.mark.parametrize(
    "bad",
    [
        {"steps": 0},
        {"loss": "hinge"},
        {"clipping": "soft"},
        {"generator": "fixed"},
        {"critic_width": 3},
        {"critic_width": 4, "critic_norm": True},
        {"generator": "conv", "width": 12},
        {"least": 0.7, "loss": "wgan"},
        {"clip_decay": 0.5, "clipping": "layers"},
        {"ema_decay": 1.0},
        {"fakes": 1},
        {"clip": 0.0},
        {"learning_rate": math.nan},
    ],
    ids=str,
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        DPGAN(**bad)


@pytest.mark.parametrize(
    "switch",
    [
        {"loss": "wgan", "penalty": 10.0},
        {"loss": "wgan", "weight_clip": 0.01},
        {"loss": "acgan"},
        {"clipping": "layers"},
        {"clipping": "automatic"},
        {"clip_decay": 0.1},
        {"clip_fakes": False},
        {"ema_decay": 0.0},
        {"generator": "dcgan"},
        {"generator": "deconv"},
        {"critic_norm": True},
        {"bfloat16": True},
        {"least": 0.9, "grace": 1, "critic_steps": 1},
        {"keep_critic": True},
    ],
    ids=str,
)
def test_every_switch_works(switch):
    net, images, run, _ = learn(DPGAN(**TINY | switch), load(arrays()))
    assert run.odometer.complete and images.pixels.shape == (12, 1, 8, 8)
    assert all(torch.isfinite(p).all() for p in net.state_dict().values())
    assert ("critic" in run.made) == ("keep_critic" in switch)


def test_public_images_are_asked_for_where_they_are_needed():
    method = DPGAN(**TINY, public_steps=2, clip_public=True)
    run = Run(device="cpu", odometer=Odometer(method.plan(SPEC, BUDGET)))
    with pytest.raises(InputError, match="--public"):
        method.learn(Barrier(None, SPEC, run.odometer), run)
    pixels, labels = arrays(seed=1)
    public = PublicImages(Images(pixels[:, None], labels, SPEC.classes), "made up")
    method.learn(Barrier(load(arrays()), SPEC, run.odometer), run, public)
    assert run.odometer.complete


def test_the_small_one_asks_the_same():
    method = DPGAN(clipping="layers", clip=2.0)
    one, two = (m.plan(MNIST, Budget(1.0)).crossings for m in (method, method.small()))
    assert one == two


@pytest.mark.parametrize("generator", ["conv", pytest.param("dcgan", marks=pytest.mark.slow)])
def test_with_little_noise_it_learns_what_each_class_looks_like(generator):
    # Class 0 is dark all over, class 1 bright on the left.
    images = np.random.default_rng(0).integers(0, 40, (400, 8, 8), dtype=np.uint8)
    labels = np.arange(400) % 2
    images[labels == 1, :, :4] += 200
    box = load((images, labels))
    method = DPGAN(
        steps=60,
        batch=32,
        fakes=32,
        critic_steps=2,
        critic_width=8,
        latent=4,
        learning_rate=0.01,
        critic_learning_rate=0.005,
        ema_decay=0.9,
        width=8,
        generator=generator,
    )
    plan = method.plan(box.spec, Budget(5.0))
    crossing = plan.crossings["critic"]
    sure = replace(crossing, mechanism=replace(crossing.mechanism, multiplier=0.1))
    run = Run(device="cpu", odometer=Odometer(replace(plan, crossings={"critic": sure})))
    run.odometer.epsilon = lambda: 5.0  # so little noise takes long to account for
    net = method.learn(Barrier(box, box.spec, run.odometer), run)
    dark, bright = (net.sample(40, [c] * 40, seed=0).pixels.astype(float) for c in (0, 1))
    # Noise is fresh in every run: in 60 of them the bright half was never below 135, nor the others above 34.
    assert dark.mean() < 70 and bright[..., 4:].mean() < 70 and bright[..., :4].mean() > 90


def test_recipes_are_those_of_the_papers():
    changed = [tuple(sorted(find(f"dpgan-{name}-mnist-10").settings.items())) for name in FAMILY]
    assert len(set(changed)) == len(FAMILY) and all(find(f"dpgan-code-{name}") for name in CONFIGURATIONS)
    code = find("dpgan-code-mnist-10")
    assert code.published == 0.93 and code.make().critic_steps == 50 and code.make().ema_decay == 0.0
    sigma = code.make().plan(code.spec(), code.budget()).facts["sigma"]
    assert 0.95 < sigma < 1.0  # theirs is 1
    adaptive = find("dpgan-code-fashion-mnist-10-adaptive").make()
    assert (adaptive.least, adaptive.critic_steps, adaptive.batch) == (0.6, 1, 512)


def test_the_critic_travels_in_a_release(tmp_path):
    from sfumato import Release, synthesize
    from sfumato.networks.critic import ConvCritic

    method = DPGAN(**TINY, keep_critic=True)
    release = synthesize(
        method, load(arrays()), BUDGET, Run(device="cpu"), count=6, out=tmp_path / "out", ledger=tmp_path / "ledger"
    )
    assert "weights of the critic, made of released values" in release.statement["coverage"]["released"]
    kept = Release.load(tmp_path / "out").measurement["critic"]
    assert kept.why == "post-processing of crossing critic"
    again = ConvCritic((1, 8, 8), 3, 8)
    torch.nn.utils.vector_to_parameters(kept.value, again.parameters())
    pixels = torch.from_numpy(release.images.pixels).float() / 255
    assert torch.isfinite(again(pixels, torch.from_numpy(release.images.labels).long())).all()
