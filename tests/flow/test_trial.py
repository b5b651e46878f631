"""One run of a sweep, in the place of a worker."""

from __future__ import annotations

import os

import numpy as np
import pytest

from sfumato import InputError
from sfumato.data.made_up import made_up
from sfumato.flow.sweep_plan import read
from sfumato.flow.trial import _accuracy, _parts, carry_out_trial, check_public
from sfumato.flow.tune import judge
from sfumato.types import Images

TINY = "{features: 40, batch: 8, latent: 4, width: 8, steps: 2}"


def asked(tmp_path, **fields):
    given = {"data": "digits", "epsilon": 1, "count": 100, "methods": f"{{dp-merf: {TINY}}}", "device": "cpu"} | fields
    (tmp_path / "plan.yaml").write_text("\n".join(f"{name}: {value}" for name, value in given.items()))
    (only,) = read(tmp_path / "plan.yaml").trials().values()
    return only


def test_a_run_is_judged_on_images_that_it_never_saw(tmp_path):
    train, held = _parts("digits", "held-out")
    assert len(train) + len(held) == 1797 and len(held) == 359
    assert not {i.tobytes() for i in held.pixels} <= {i.tobytes() for i in train.pixels}
    found = carry_out_trial({"asked": asked(tmp_path), "scratch": str(tmp_path / "scratch")})
    assert found["state"] == "done" and 0 <= found["accuracy"] <= 1 and 0.99 < found["spent"] <= 1
    assert (found["records"], found["tested"]) == (1438, 359)


def test_a_worker_finds_no_ledger_and_leaves_the_environment_as_it_was(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("sfumato.flow.trial._measured", lambda asked: seen.append(dict(os.environ)) or {})
    before = dict(os.environ)
    carry_out_trial({"asked": {}, "scratch": str(tmp_path)})
    assert seen[0]["SFUMATO_LEDGER"].startswith(str(tmp_path)) and dict(os.environ) == before


def test_a_run_that_cannot_be_planned_is_refused_for_good(tmp_path):
    task = {"asked": asked(tmp_path, judge="test"), "scratch": str(tmp_path / "scratch")}
    found = carry_out_trial(task)
    assert found["state"] == "refused" and "no split test" in found["why"]


@pytest.mark.parametrize("data", ["celeba-hair:/faces", "/data/scans"])
def test_what_is_not_public_by_its_name_is_private(data):
    with pytest.raises(InputError, match="private: yes"):
        check_public(data)


def test_the_judge_sees_every_class_of_many_images(monkeypatch):
    seen = []
    monkeypatch.setattr("sfumato.flow.trial.judge", lambda images: seen.append(images) or judge(images))
    many = made_up(5000, (1, 8, 8), ("a", "b", "c"), 0)
    order = np.argsort(many.labels, kind="stable")
    many = Images(many.pixels[order], many.labels[order], many.classes)
    assert _accuracy({"classifier": "linear"}, many, made_up(200, (1, 8, 8), ("a", "b", "c"), 1), "cpu") > 0.9
    assert len(seen[0]) == 2000 and set(seen[0].labels) == {0, 1, 2}


@pytest.mark.slow
def test_a_network_judges_too(tmp_path):
    task = {"asked": asked(tmp_path, classifier="cnn", size=28), "scratch": str(tmp_path / "scratch")}
    assert 0 <= carry_out_trial(task)["accuracy"] <= 1
