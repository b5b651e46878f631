"""One number of a table, made for real on tiny sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfumato.bench import judge, measure
from sfumato.bench.measure import Job, carry_out, summary
from sfumato.bench.table import Cell, Source
from sfumato.errors import InputError
from sfumato.evaluate import reference, stacked
from sfumato.evaluate.attacks.recipes import dpaf_table_xvii
from sfumato.evaluate.official import OfficialSchedule
from tests.data.test_idx import idx, write

TINY = {"features": "20", "steps": "2", "width": "8"}


@pytest.fixture
def data(folder, monkeypatch):
    """A set of ten classes in MNIST's place, and short schedules."""
    random = np.random.default_rng(0)
    for split, n in (("train", 60), ("t10k", 20)):
        images = random.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        write(folder, idx(images), idx((np.arange(n) % 10).astype(np.uint8)), split)
    monkeypatch.setitem(stacked.SCHEDULES, "cnn", stacked.Schedule(steps=8, batch=8))
    monkeypatch.setattr(reference, "Training", lambda: reference_training)
    judge.public_images.cache_clear()
    judge._judge.cache_clear()
    return f"mnist:{folder}"


official_schedule = OfficialSchedule(epochs=2, batch=8)
reference_training = reference.Training(steps=2, batch=4, latent=4, width=4)


def cell(metric: str = "accuracy", epsilon: float | None = 5.0) -> Cell:
    return Cell(row="", column="", printed=None, data="mnist", epsilon=epsilon, metric=metric)


def test_a_method_is_released_and_judged(data, tmp_path):
    source = Source(method="dp-merf", settings=TINY)
    found = carry_out(Job(cell(), source, data, count=30, device="cpu", pictures=tmp_path / "new"))
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["dp-merf-mnist-5.png"]
    assert 0 <= found["fixed"] <= found["paper"] <= 1 and found["synthesis_s"] > 0


def test_the_official_evaluation_looks_at_more_images_and_every_epoch(data, monkeypatch):
    from sfumato.evaluate import official

    monkeypatch.setattr(official, "IMAGES", 40)
    monkeypatch.setattr(official, "OfficialSchedule", lambda: official_schedule)
    source = Source(method="dp-merf", settings=TINY)
    found = carry_out(Job(cell(), source, data, count=20, device="cpu", official=True))
    assert 0 <= found["official_last"] <= found["official"] <= 1 and "fixed" in found
    assert judge.drawn(20, official=True) == 40 and judge.drawn(20, official=False) == 20


def test_a_recipe_is_changed_by_its_settings(data):
    small = {"teachers": "6", "steps": "2", "warmup": "1", "teacher_batch": "2", "batch": "4", "topk": "10"}
    source = Source("datalens-small-fashion-mnist-10", settings=small, on_stand_in={"steps": "3"})
    assert Job(cell(), source, data, stand_in=True).settings["steps"] == "3"
    assert measure.method_of(source, small).settings()["teachers"] == 6
    assert "fixed" in carry_out(Job(cell(epsilon=10.0), source, data, count=30, device="cpu"))


def test_public_images_are_brought_to_the_size_of_the_records(data, monkeypatch):
    seen = {}

    def synthesize(method, box, budget, run, *, count, public):
        seen["shape"] = public.images.pixels.shape[1:]
        seen["provenance"] = public.provenance
        return type("R", (), {"images": public.images})

    monkeypatch.setattr("sfumato.api.synthesize", synthesize)
    monkeypatch.setattr(measure, "accuracies", lambda *_, **__: {"fixed": 0.5})
    source = Source(method="dp-merf", settings=TINY, public="digits")
    assert carry_out(Job(cell(), source, data))["fixed"] == 0.5
    assert seen == {"shape": (1, 28, 28), "provenance": "the public set digits"}


def test_the_row_without_privacy_and_the_quality_of_its_images(data):
    source = Source(method="dc-gan")
    assert "fixed" in carry_out(Job(cell(epsilon=None), source, data, count=30, device="cpu"))
    found = carry_out(Job(cell("inception-score", None), source, data, count=30, device="cpu"))
    assert 1 <= found["inception-score"] <= 10


def test_a_compression_is_compared_with_topagg():
    found = carry_out(Job(cell("seconds", None), Source(method="levels: 4x2x784"), "", device="cpu"))
    assert found["seconds"] > 0 and found["ratio"] > 0


def test_a_classifier_without_noise_is_not_run_here(data):
    with pytest.raises(InputError, match="has no noise"):
        carry_out(Job(cell("classifier"), Source("topagg-mnist-gm-dp-inf"), data))


def test_means_and_spreads():
    found = summary([{"fixed": 0.4, "x": 1.0}, {"fixed": 0.6}])
    assert found["fixed"]["mean"] == pytest.approx(0.5) and found["fixed"]["std"] == pytest.approx(0.1414, abs=1e-3)
    assert set(found) == {"fixed"} and summary([{"fixed": 0.4}])["fixed"]["std"] is None


def test_dpaf_as_printed_makes_images_that_are_judged_and_never_released(data):
    small = {"epochs": "1", "batch": "10", "width": "8", "critic_width": "4", "features": "8", "hidden": "8"}
    source = Source(
        "dpaf-paper-fashion-mnist-10", settings={**small, "latent": "4", "keep": "1", "mu": "2"}, as_printed=True
    )
    found = carry_out(Job(cell(epsilon=100.0), source, data, count=30, device="cpu"))
    assert 0 <= found["fixed"] <= 1
    with pytest.raises(InputError, match="Expected DPAF"):
        carry_out(Job(cell(), Source("datalens-small-fashion-mnist-10", as_printed=True), data, device="cpu"))


def test_a_private_classifier_is_trained_and_tested(data, monkeypatch):
    from sfumato.recipes import CLASSIFIERS

    recipe = CLASSIFIERS["topagg-mnist-norm-0.8-0.2"]
    small = replace(recipe, name="tiny", settings={"network": "cnn", "steps": 2, "batch": 8})
    monkeypatch.setitem(CLASSIFIERS, "tiny", small)
    assert 0 <= carry_out(Job(cell("classifier", 0.2), Source("tiny"), data, device="cpu"))["fixed"] <= 1


def test_a_generator_of_few_records_is_attacked(data, monkeypatch):
    monkeypatch.setattr("sfumato.evaluate.attacks.recipes.dpaf_table_xvii.__kwdefaults__", {**KEYWORDS, "samples": 50})
    found = carry_out(Job(cell("auc", None), Source(method="dc-gan under attack, 10 images"), data, device="cpu"))
    assert 0 <= found["auc"] <= 1


KEYWORDS = dict(dpaf_table_xvii.__kwdefaults__)
