"""The method of the house: its plan, its settings, what it learns, and that a refit costs nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sfumato import Budget, DataSpec, Relation, Release, Run, Unit, synthesize
from sfumato.accounting.accountant import profile
from sfumato.flow.refit import refit
from sfumato.methods.house.sfumato import LABELLER, Sfumato
from sfumato.release.files.verify import verify

SPEC = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
TINY = Sfumato(adapt=False, labeller_steps=20, features=80, steps=4, batch=12, width=8)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
def test_the_whole_budget_is_planned_for_and_no_more(relation, epsilon):
    plan = Sfumato().plan(SPEC, Budget(epsilon, relation=relation))
    found = profile(plan.events()).epsilon(1e-5)
    assert 0.99 * epsilon < found <= epsilon * (1 + 1e-9)


def test_the_embedding_takes_its_share():
    plan = Sfumato(embedding_share=0.4).plan(SPEC, Budget(1.0))
    alone = Sfumato(embedding_share=0.999).plan(SPEC, Budget(1.0))
    sigma = [p.crossings["embedding"].mechanism.multiplier for p in (plan, alone)]
    assert sigma[0] / sigma[1] == pytest.approx((0.999 / 0.4) ** 0.5)


def test_persons_and_a_single_class_are_planned_for():
    by_person = Sfumato().plan(replace(SPEC, unit=Unit.PERSON), Budget(1.0, unit=Unit.PERSON))
    assert by_person.guarantee()["unit"] == "person"
    alone = Sfumato().plan(replace(SPEC, classes=("lung",)), Budget(1.0))
    assert set(alone.crossings) == {"embedding"}
    assert alone.epsilon() == pytest.approx(1.0, rel=1e-3)


def test_settings_follow_public_facts_where_nobody_chose():
    steps = [Sfumato().fitted_to(SPEC, Budget(e), "cpu").labeller_steps for e in (0.2, 1.0, 10.0)]
    assert steps == sorted(steps) and steps[0] < 40 < steps[1] < 120 < steps[2] <= 400
    colour = replace(SPEC, shape=(3, 32, 32))
    on_gpu = Sfumato().fitted_to(colour, Budget(1.0), "cuda")
    assert on_gpu.mirrored and on_gpu.patches == 1024 and on_gpu.features == 24_000
    assert Sfumato(width=64).fitted_to(colour, Budget(1.0), "cuda").width == 64
    assert Sfumato(adapt=False).fitted_to(colour, Budget(1.0), "cuda") == Sfumato(adapt=False)
    fitted = Sfumato().fitted_to(SPEC, Budget(1.0), "cpu")
    assert fitted.fitted_to(colour, Budget(1.0), "cuda") == fitted


def blobs(n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """A bright bar on one of three sides."""
    random = np.random.default_rng(0)
    labels = np.arange(n) % 3
    pixels = random.integers(0, 60, (n, 12, 12), dtype=np.uint8)
    for i, label in enumerate(labels):
        pixels[i, 4 * label : 4 * label + 3] += 180
    return pixels, labels


def test_the_labeller_learns_and_its_labels_are_those_of_the_release(tmp_path):
    release = synthesize(TINY, blobs(), Budget(20.0), Run(device="cpu"), count=30, out=tmp_path / "release")
    pixels, labels = blobs()
    found = release.generator.label(pixels[:, None])
    assert float((found.numpy() == labels).mean()) > 0.9
    assert release.statement["reproducibility"]["configuration"]["settings"]["images"] == "resembling"
    verify(tmp_path / "release")


def test_a_refit_costs_nothing_and_keeps_the_labeller(tmp_path):
    first = synthesize(TINY, blobs(), Budget(20.0), Run(device="cpu"), count=12, out=tmp_path / "release")
    again = refit(
        tmp_path / "release", tmp_path / "again", count=12, seed=9, settings={"steps": "6", "images": "teaching"}
    )
    assert torch.equal(again.generator.labeller.head.weight, first.generator.labeller.head.weight)
    assert again.statement["guarantee"] == first.statement["guarantee"]
    assert again.generator.league == "teaching"
    assert (again.images.pixels != first.images.pixels).any()
    loaded = Release.load(tmp_path / "again")
    assert loaded.measurement[LABELLER].value.shape == (3, first.generator.labeller.sees.width + 1)
    verify(tmp_path / "again")


def test_teaching_images_are_named_as_such():
    assert any("turned" in line for line in Sfumato(images="teaching").stated_deviations())
    assert not any("turned" in line for line in Sfumato().stated_deviations())
