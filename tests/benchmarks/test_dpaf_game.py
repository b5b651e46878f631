"""The game of DPAF: its sound rung ends as a release would, and no row rests on a judge that failed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import dpaf_game
from sfumato import Budget, Images, Run
from sfumato.api import make_method
from sfumato.errors import AuditFailed, SfumatoError

SMALL = {"epochs": "1", "batch": "16", "mu": "2", "width": "2", "critic_width": "2", "features": "4", "hidden": "4"}


def some(n=64):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (n, 1, 8, 8), dtype=np.uint8)
    return Images(pixels, np.arange(n) % 2, ("a", "b"))


@pytest.mark.parametrize("mismatch", ["no", "yes"])
def test_the_sound_rung_makes_images_of_every_class(mismatch):
    method = make_method("dpaf", SMALL | {"mismatch": mismatch})
    made = dpaf_game.sound(method, some(), Budget(10), Run(device="cpu"), 10)
    assert made.pixels.shape == (10, 1, 8, 8) and np.bincount(made.labels).tolist() == [5, 5]
    assert made.pixels.std() > 0


def test_the_sound_rung_refuses_an_end_before_the_plan_is_used():
    with pytest.raises(AuditFailed, match="'aggregate'"):
        dpaf_game.sound(make_method("dpaf", SMALL), some(), Budget(10), Run(device="cpu", most=2), 10)


def test_a_judge_that_fails_on_a_device_is_asked_again_on_the_processor(monkeypatch):
    def train(*_, device, **__):
        if device != "cpu":
            raise SfumatoError("no numbers")
        return SimpleNamespace(accuracies=np.array([[0.5, 0.75, 0.625]]))

    monkeypatch.setattr(dpaf_game.stacked, "train", train)
    assert dpaf_game.judged(some(), some(), 0, "cuda") == {"fixed": 0.625, "paper": 0.75, "judged_on": "cpu"}
    assert dpaf_game.judged(some(), some(), 0, "cpu") == {"fixed": 0.625, "paper": 0.75}


def test_a_judge_that_fails_on_the_processor_makes_no_row(monkeypatch):
    def train(*_, **__):
        raise SfumatoError("no numbers")

    monkeypatch.setattr(dpaf_game.stacked, "train", train)
    with pytest.raises(SfumatoError, match="no numbers"):
        dpaf_game.judged(some(), some(), 0, "cuda")
