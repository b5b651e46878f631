"""Judges of synthetic images, on a tiny set."""

from __future__ import annotations

import numpy as np

from sfumato.bench import judge
from sfumato.types import Images
from tests.bench.test_measure import data  # noqa: F401 (a fixture)

DIGITS = tuple("0123456789")


def made(n: int) -> Images:
    pixels = np.random.default_rng(1).integers(0, 256, (n, 1, 28, 28), dtype=np.uint8)
    return Images(pixels, np.arange(n) % 10, DIGITS)


def test_the_cnn_learns_from_as_many_images_as_it_is_given(data, monkeypatch):  # noqa: F811
    seen = []
    train = judge_train()
    monkeypatch.setattr("sfumato.evaluate.stacked.train", lambda *a, **k: seen.append(len(a[1])) or train(*a, **k))
    found = judge.accuracies(made(60), data, seed=0, device="cpu", count=20)
    assert seen == [20] and 0 <= found["fixed"] <= found["paper"] <= 1 and "official" not in found


def judge_train():
    from sfumato.evaluate import stacked

    return stacked.train


def test_scores_are_of_a_classifier_that_learned_from_real_images(data):  # noqa: F811
    found = judge.qualities(made(40), data, seed=0, device="cpu")
    assert 1 <= found["inception-score"] <= 10
