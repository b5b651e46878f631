"""What accuracy hides: the trivial answer, balanced accuracy, AUROC, and how sure the margin is."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.evaluate.baseline import auroc, balanced, baseline, chances, error_of_test, margin


def test_the_commonest_class_is_that_of_the_test_set():
    assert baseline(np.array([2, 2, 0]), ["a", "b", "c"]) == {"class": "c", "accuracy": 2 / 3, "guessing": 0.5}


def test_always_answering_the_commonest_class_is_seen_through():
    labels = np.array([0] * 10 + [1] * 30)
    right = (labels == 1)[None]
    assert right.mean() == 0.75 and balanced(right, labels).mean == 0.5
    found = margin(right, labels)
    assert (found.mean, found.low, found.high) == (0, 0, 0)  # not better, whatever the accuracy


def test_auroc_of_two_classes_counts_pairs():
    scores, labels = np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1])
    logits = np.stack([np.zeros(4), scores], 1)[None]
    assert auroc(logits, labels).mean == pytest.approx(0.75)  # three of four pairs are in order
    assert auroc(np.zeros((1, 4, 2)), labels).mean == pytest.approx(0.5)  # ties count for a half


def test_auroc_of_several_classes_agrees_with_scikit_learn():
    from sklearn.metrics import roc_auc_score

    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 200)
    logits = random.normal(size=(2, 200, 4)) + 1.5 * np.eye(4)[labels]
    wanted = [roc_auc_score(labels, chances(z), multi_class="ovr") for z in logits]
    assert auroc(logits, labels).values == pytest.approx(wanted)


def test_auroc_needs_two_classes():
    assert auroc(np.zeros((1, 3, 2)), np.array([1, 1, 1])) is None


def test_the_margin_covers_the_truth_as_often_as_it_says():
    random = np.random.default_rng(0)
    covered = []
    for _ in range(500):
        labels = (random.random(60) < 0.7).astype(int)
        right = random.random((1, 60)) < 0.8
        found = margin(right, labels)
        covered.append(found.low <= 0.8 - 0.7 <= found.high)
    assert np.mean(covered) > 0.92


def test_images_of_one_person_count_as_one():
    random = np.random.default_rng(0)
    persons = np.repeat(np.arange(10), 20)
    right = np.repeat(random.random(10) < 0.7, 20)[None]
    labels = np.tile([0, 1], 100)
    alone, together = margin(right, labels), margin(right, labels, persons)
    assert together.high - together.low > 3 * (alone.high - alone.low) and together.mean == alone.mean
    rate = right.mean()
    assert error_of_test(rate, right, persons) > 3 * error_of_test(rate, right)
    assert margin(right, labels, np.zeros(200)).low == -1  # one person alone tells nothing


def test_seeds_widen_the_margin():
    labels = np.array([0, 1] * 50)
    steady = np.stack([labels == 0] * 3)
    shaky = np.stack([labels == 0, labels == 1, np.ones(100, bool)])
    assert (
        margin(shaky, labels).high - margin(shaky, labels).low
        > margin(steady, labels).high - margin(steady, labels).low
    )
