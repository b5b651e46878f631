"""Numbers of a classifier, and their intervals."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.evaluate.results import Measured, Report, over_seeds, plain
from sfumato.evaluate.stacked import Schedule
from sfumato.evaluate.utility import (
    ON_CPU,
    by_group,
    calibration,
    check_classifiers,
    confusion,
    default_classifiers,
    describe,
    gaps,
    over_classifiers,
    utility,
)


def test_t_intervals():
    made = over_seeds("x", [0.8, 0.9, 0.85])
    half = 4.302652729749462 * 0.05 / math.sqrt(3)  # t(0.975, 2)
    assert made.mean == pytest.approx(0.85) and made.high == pytest.approx(0.85 + half)
    assert made.low == pytest.approx(0.85 - half) and made.values == (0.8, 0.9, 0.85)


def test_t_intervals_cover_as_often_as_they_say():
    random = np.random.default_rng(0)
    rows = random.normal(5, 2, (2000, 3))
    covered = np.mean([m.low <= 5 <= m.high for m in (over_seeds("x", row) for row in rows)])
    assert 0.935 < covered < 0.965


def test_one_seed_has_no_interval_and_ranges_are_kept():
    assert (over_seeds("x", [0.7], low=0, high=1).low, over_seeds("x", [0.7], low=0, high=1).high) == (0, 1)
    assert over_seeds("x", [0.99, 1.0], low=0, high=1).high == 1


def test_a_report_is_json_whatever_is_in_it():
    odd = {"a": np.float32(1.5), "b": np.arange(3), "c": Measured("m", math.nan, -math.inf, 1), "d": {1: (True, None)}}
    found = json.loads(Report(odd, True, 3, "sfumato evaluate x").text())
    assert found["format"] == "sfumato-evaluation/1" and found["accesses"] == 3 and found["touches_private"] is True
    assert found["sections"]["b"] == [0, 1, 2] and found["sections"]["c"]["mean"] is None
    assert found["sections"]["d"] == {"1": [True, None]} and plain(np.bool_(True)) is True


def sure(guesses, classes=3):
    return np.log(np.eye(classes)[np.asarray(guesses)] * 0.9 + 0.1 / classes)


def test_a_description_holds_the_fixed_and_the_selected_number():
    labels = np.array([0, 0, 1, 2])
    logits = np.stack([sure([0, 0, 1, 0]), sure([0, 1, 1, 2])])
    looks = np.array([[1.0, 0.75], [0.5, 0.75]])
    made = describe(logits, looks, labels, ["a", "b", "c"], groups=np.array(["x", "x", "y", "y"]))
    assert made["accuracy"] == made["fixed"] and made["fixed"].mean == 0.75
    assert made["paper"].mean == 0.875 and "selection on the test set" in made["paper"].note
    assert describe(logits, looks, labels, ["a", "b", "c"], "paper")["accuracy"].mean == 0.875
    assert made["per_class"]["a"].values == (1.0, 0.5) and made["per_class"]["c"].values == (0.0, 1.0)
    assert made["confusion"].tolist() == [[1.5, 0.5, 0], [0, 1, 0], [0.5, 0, 0.5]]
    assert made["groups"]["gap"].values == (0.5, 0.5) and made["groups"]["records"] == {"x": 2, "y": 2}
    assert made["test_error"] == pytest.approx(1.96 * math.sqrt(0.75 * 0.25 / 4))


def test_a_class_without_test_images_has_no_accuracy():
    made = describe(sure([0, 1])[None], np.ones((1, 1)), np.array([0, 1]), ["a", "b", "c"])
    assert made["per_class"]["c"] is None and made["per_class"]["a"].mean == 1


def test_calibration():
    half = np.log(np.array([[0.75, 0.25]] * 4))
    assert calibration(half, np.array([0, 0, 0, 1])) == 0
    assert calibration(half, np.array([1, 1, 1, 1])) == 0.75
    assert calibration(np.array([[1000.0, 0.0]]), np.array([0])) == 0  # large logits do not overflow


def test_confusion_counts_every_image():
    random = np.random.default_rng(0)
    guesses, labels = random.integers(0, 4, 50), random.integers(0, 4, 50)
    made = confusion(guesses, labels, 4)
    assert made.sum() == 50 and made.trace() == (guesses == labels).sum()
    assert made.sum(1).tolist() == np.bincount(labels, minlength=4).tolist()


def test_groups_may_be_numbers():
    assert by_group(np.array([[True, False, True]]), np.array([1, 1, 2]))["gap"].mean == 0.5


def test_the_largest_and_the_mean():
    rows = {"a": {"accuracy": over_seeds("", [0.5, 0.7])}, "b": {"accuracy": over_seeds("", [0.8, 0.8])}}
    made = over_classifiers(rows)
    assert made["max"].name == "b" and made["max"].mean == 0.8 and "chosen on the test set" in made["max"].note
    assert made["mean"].values == pytest.approx((0.65, 0.75))
    lost = gaps({"classifiers": rows}, {"classifiers": {"a": {"accuracy": over_seeds("", [0.9, 0.8])}}}, "words")
    assert list(lost) == ["a"] and lost["a"].values == pytest.approx((0.4, 0.1)) and lost["a"].note == "words"


def test_the_defaults_and_unknown_names():
    assert default_classifiers("cpu") == ON_CPU and "wrn" in default_classifiers("cuda:0")
    assert check_classifiers(["cnn", "mlp", "cnn"]) == ("cnn", "mlp")
    for wrong in (["cnn", "svm"], []):
        with pytest.raises(InputError, match="--classifiers"):
            check_classifiers(wrong)


def test_the_whole_with_a_constant_number_of_steps():
    x = np.repeat(np.arange(3, dtype=np.uint8) * 100, 40)[:, None, None, None] * np.ones((1, 1, 8, 8), np.uint8)
    y, kept = np.repeat(np.arange(3), 40), {}
    made = utility(
        x,
        y,
        x,
        y,
        classes=["a", "b", "c"],
        classifiers=["mlp", "forest"],
        seeds=2,
        schedules={"mlp": Schedule(steps=60, batch=24)},
        keep=kept,
    )
    assert made["classifiers"]["mlp"]["accuracy"].mean > 0.95 and made["classifiers"]["forest"]["accuracy"].mean == 1
    assert made["trained_on"] == 120 and set(kept) == {"mlp", "forest"} and made["max"].mean == 1
