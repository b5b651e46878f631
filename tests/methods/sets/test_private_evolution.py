"""Private Evolution: its plan, its population, its APIs, and that votes move it towards the data."""

from __future__ import annotations

import math
import sys
import types

import numpy as np
import pytest
import torch

from sfumato import Budget, Images, InputError, PrivateEvolution, Relation
from sfumato.accounting.gaussian import mu_of
from sfumato.data.labels import LabelPrior
from sfumato.data.public import PublicImages
from sfumato.methods.sets.evolve import Transforms, _partners, next_population
from sfumato.methods.sets.pipelines import DiffusionPipeline, bring
from tests.one_release import MNIST, bright_and_dark, learned, learned_apart


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
def test_rounds_compose_as_one_gaussian_would(epsilon):
    plan = PrivateEvolution(rounds=20).plan(MNIST, Budget(epsilon))
    made = plan.crossings["votes"]
    assert made.times == 20 and plan.epsilon() <= epsilon
    assert made.event(Relation.ADD_REMOVE).sensitivity == 1
    assert made.event(Relation.REPLACE_ONE).sensitivity == pytest.approx(math.sqrt(2))
    assert made.mechanism.multiplier == pytest.approx(math.sqrt(20) / mu_of(epsilon, 1e-5), rel=0.01)
    assert plan.paper["epsilon"] == pytest.approx(epsilon, rel=0.01)


def test_a_private_label_histogram_takes_its_part():
    labels = LabelPrior("private", fraction=0.2)
    plan = PrivateEvolution(labels=labels).plan(MNIST, Budget(1.0))
    votes, histogram = (plan.crossings[name].event(Relation.ADD_REMOVE) for name in ("votes", "labels"))
    assert histogram.sigma**-2 / (histogram.sigma**-2 + 20 * votes.sigma**-2) == pytest.approx(0.2, abs=0.01)


def test_too_many_images_for_the_data_are_warned_of():
    assert "Too few data" in PrivateEvolution(each=1000).plan(MNIST, Budget(0.2)).warnings[0]
    (told,) = PrivateEvolution().plan(MNIST, Budget(1.0)).warnings
    assert told == "The set has 500 distinct images, 50 of each class: a larger --count repeats them."


@pytest.mark.parametrize(
    "bad", [{"each": 1}, {"rounds": 0}, {"kept": 1.0}, {"threshold": -1.0}, {"pool": 0}, {"pipeline": "no/such/folder"}]
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        PrivateEvolution(**bad)


def test_votes_move_the_population_to_the_data():
    assert learned_apart(PrivateEvolution(each=12, rounds=30, pool=1), bright_and_dark()) > 100


def test_the_best_stay_and_the_others_are_varied():
    images = torch.rand(2, 4, 1, 8, 8)
    votes = torch.tensor([[0.0, 9.0, 1.0, 5.0], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    random = torch.Generator().manual_seed(0)
    made = next_population(images, votes, Transforms((1, 8, 8)), random, strength=1.0, kept=0.5)
    assert torch.equal(made[0, :2], images[0, [1, 3]])
    assert made.shape == images.shape and made.min() >= 0 and made.max() <= 1
    assert torch.equal(made[:, 2:] * 255, (made[:, 2:] * 255).round())


def test_partners_are_of_the_same_class():
    labels = torch.tensor([2, 0, 1, 0, 2, 1, 0, 0])
    partner = _partners(labels, torch.Generator().manual_seed(3))
    assert torch.equal(labels[partner], labels) and sorted(partner.tolist()) == list(range(8))


def test_without_strength_an_image_is_only_blended_with_others_of_its_class():
    images, labels = torch.rand(1, 3, 8, 8).expand(5, -1, -1, -1), torch.zeros(5, dtype=torch.long)
    made = Transforms((3, 8, 8)).vary(images, labels, 0.0, torch.Generator().manual_seed(0))
    assert torch.allclose(made, images, atol=1e-5)


def test_public_images_are_the_first_population():
    box = bright_and_dark(40)
    pixels = np.full((3, 1, 8, 8), 77, np.uint8)
    public = PublicImages(Images(pixels, np.zeros(3, np.int64), ("a",)), "made up")
    net = learned(PrivateEvolution(each=4, rounds=1, kept=0.5), box, public=public)
    assert (net.images[:, :2] * 255).round().eq(77).all()
    wrong = PublicImages(Images(pixels[:, :, :4], np.zeros(3, np.int64), ("a",)), "made up")
    with pytest.raises(InputError, match="Expected public images of"):
        learned(PrivateEvolution(each=4, rounds=1), box, public=wrong)


class Pipe:
    """Stands for a diffusers pipeline: writes down what it is asked."""

    asked: list[dict] = []

    @classmethod
    def from_pretrained(cls, folder, local_files_only):
        assert local_files_only
        return cls()

    @classmethod
    def from_pipe(cls, pipe):
        return cls()

    def to(self, device):
        return self

    def __call__(self, **asked):
        Pipe.asked.append(asked)
        return types.SimpleNamespace(images=np.full((len(asked["prompt"]), 64, 64, 3), 0.25, np.float32))


def test_a_local_pipeline_can_be_the_api(monkeypatch, tmp_path):
    fake = types.SimpleNamespace(AutoPipelineForText2Image=Pipe, AutoPipelineForImage2Image=Pipe)
    monkeypatch.setitem(sys.modules, "diffusers", fake)
    (tmp_path / "tiny").mkdir()
    method = PrivateEvolution(each=2, rounds=1, kept=0.0, pipeline=str(tmp_path / "tiny"), prompt="a {} wall")
    assert method.pipeline == "tiny" and method.small().pipeline == ""  # no path is published
    Pipe.asked.clear()
    net = learned(method, bright_and_dark(40))
    assert (net.images * 255).round().eq(64).all()
    assert Pipe.asked[0]["prompt"] == ["a 0 wall"] * 2 + ["a 1 wall"] * 2 and "image" not in Pipe.asked[0]
    assert Pipe.asked[1]["strength"] == pytest.approx(0.8) and Pipe.asked[1]["image"].shape == (4, 3, 512, 512)


def test_without_diffusers_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(InputError, match="pip install diffusers"):
        DiffusionPipeline(bring(str(tmp_path)), (1, 8, 8), ("a",), "{}", "cpu", 2)
