"""Downstream utility: train classifiers on one set of images, test them on real ones, and say how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.evaluate.baseline import auroc, balanced, baseline, chances, error_of_test, margin
from sfumato.evaluate.results import Measured, over_seeds
from sfumato.run.progress import Silent

BINS = 15
LOOKS = 8  # times that test accuracy is taken on the way; the "epochs" among which the papers' protocol selects
NETWORK_NAMES = ("cnn", "mlp", "logreg", "resnet", "wrn", "resnext")
TABULAR_NAMES = ("forest", "boosting")
CLASSIFIERS = (*NETWORK_NAMES, *TABULAR_NAMES)
ON_CPU = ("cnn", "mlp", "logreg")
PROTOCOLS = {
    "fixed": "fixed schedule, last step",
    "paper": "best test evaluation on the way: selection on the test set, as many papers do; optimistic",
}


def default_classifiers(device: str) -> tuple[str, ...]:
    """Those that finish within minutes."""
    return NETWORK_NAMES if device.startswith("cuda") else ON_CPU


def check_classifiers(names: Sequence[str]) -> tuple[str, ...]:
    """The names without repetition, or one sentence."""
    for name in names:
        if name not in CLASSIFIERS:
            raise InputError(f"Expected --classifiers from {', '.join(CLASSIFIERS)}, found '{name}'.")
    if not names:
        raise InputError(f"Expected at least one of --classifiers {', '.join(CLASSIFIERS)}.")
    return tuple(dict.fromkeys(names))


def utility(
    pixels: np.ndarray,
    labels: np.ndarray,
    test_pixels: np.ndarray,
    test_labels: np.ndarray,
    *,
    classes: Sequence[str],
    classifiers: Sequence[str],
    seeds: int = 3,
    protocol: str = "fixed",
    device: str = "cpu",
    groups: np.ndarray | None = None,
    schedules: Mapping[str, Any] | None = None,
    progress: Silent | None = None,
    keep: dict[str, Any] | None = None,
    persons: np.ndarray | None = None,
    looks: int = LOOKS,
) -> dict[str, Any]:
    """Everything about classifiers trained on `pixels` and tested on `test_pixels`, which show `persons` where known.

    `keep` receives the trained networks under their names, for use within the evaluation.
    """
    names = check_classifiers(classifiers)
    rows = {}
    for name in names:
        trained = _train(name)(
            name,
            pixels,
            labels,
            test_pixels,
            test_labels,
            classes=len(classes),
            seeds=range(seeds),
            device=device,
            schedule=(schedules or {}).get(name),
            looks=looks,
            progress=progress,
        )
        rows[name] = describe(trained.logits, trained.accuracies, test_labels, classes, protocol, groups, persons)
        if keep is not None:
            keep[name] = trained
    return {
        "protocol": protocol,
        "protocol_means": PROTOCOLS[protocol],
        "trained_on": len(pixels),
        "tested_on": len(test_pixels),
        "seeds": seeds,
        "looks": looks,
        "baseline": baseline(test_labels, classes),
        "classifiers": rows,
        **over_classifiers(rows),
    }


def _train(name: str) -> Any:
    if name in TABULAR_NAMES:
        from sfumato.evaluate import tabular

        return tabular.train
    from sfumato.evaluate import stacked

    return stacked.train


def describe(
    logits: np.ndarray,
    accuracies: np.ndarray,
    labels: np.ndarray,
    classes: Sequence[str],
    protocol: str = "fixed",
    groups: np.ndarray | None = None,
    persons: np.ndarray | None = None,
) -> dict[str, Any]:
    """Numbers of one classifier from its last logits (seeds, n, classes) and accuracies (seeds, looks)."""
    guesses = logits.argmax(-1)
    right = guesses == labels
    rates = right.mean(1)
    fixed = over_seeds("accuracy", rates, low=0, high=1, note=PROTOCOLS["fixed"])
    paper = over_seeds("accuracy", accuracies.max(1), low=0, high=1, note=PROTOCOLS["paper"])
    return {
        "accuracy": {"fixed": fixed, "paper": paper}[protocol],
        "fixed": fixed,
        "paper": paper,
        "margin": margin(right, labels, persons),
        "balanced": balanced(right, labels),
        "auroc": auroc(logits, labels),
        "test_error": error_of_test(fixed.mean, right, persons),
        "looks": accuracies,
        "per_class": per_class(right, labels, classes),
        "confusion": np.mean([confusion(seed, labels, len(classes)) for seed in guesses], 0),
        "calibration": over_seeds(
            "expected calibration error",
            [calibration(z, labels) for z in logits],
            low=0,
            high=1,
            note=f"{BINS} bins of equal width",
        ),
        "groups": None if groups is None else by_group(right, groups),
    }


def per_class(right: np.ndarray, labels: np.ndarray, classes: Sequence[str]) -> dict[str, Measured | None]:
    """The recall of each class, which is the accuracy within it; None where the test set has no image of it."""
    return {
        name: over_seeds(name, right[:, labels == at].mean(1), low=0, high=1) if (labels == at).any() else None
        for at, name in enumerate(classes)
    }


def confusion(guesses: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Counts: true class in rows, guessed class in columns.

    >>> confusion(np.array([0, 1, 1]), np.array([0, 0, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    return np.bincount(labels * classes + guesses, minlength=classes**2).reshape(classes, classes)


def calibration(logits: np.ndarray, labels: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error: how far confidence and accuracy are apart, on average over bins of confidence.

    >>> calibration(np.log(np.array([[0.5, 0.5]] * 2 + [[0.9, 0.1]] * 2)), np.array([0, 1, 0, 0]))
    0.05
    """
    p = chances(logits)
    sure = p.max(-1)
    right = p.argmax(-1) == labels
    at = np.minimum((sure * bins).astype(int), bins - 1)
    gaps = np.bincount(at, sure - right, bins)
    return round(float(np.abs(gaps).sum() / len(labels)), 12)


def by_group(right: np.ndarray, groups: np.ndarray) -> dict[str, Any]:
    """Accuracy of each subgroup of the test images, and the gap between the best and the worst."""
    names = [str(name) for name in np.unique(groups)]
    marks = np.asarray(groups).astype(str)
    rates = np.stack([right[:, marks == name].mean(1) for name in names])
    return {
        "accuracy": {name: over_seeds(name, rate, low=0, high=1) for name, rate in zip(names, rates, strict=True)},
        "records": {name: int((marks == name).sum()) for name in names},
        "gap": over_seeds("gap between subgroups", rates.max(0) - rates.min(0), low=0, high=1),
    }


def over_classifiers(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The largest and the mean accuracy; the leading benchmark publishes the largest."""
    best = max(rows, key=lambda name: rows[name]["accuracy"].mean)
    top = rows[best]["accuracy"]
    together = np.mean([row["accuracy"].values for row in rows.values()], 0)
    return {
        "max": Measured(
            best,
            top.mean,
            top.low,
            top.high,
            top.values,
            f"the largest of {len(rows)} classifiers, chosen on the test set",
        ),
        "mean": over_seeds("mean over classifiers", together, low=0, high=1),
    }


def gaps(synthetic: Mapping[str, Any], other: Mapping[str, Any], words: str) -> dict[str, Any]:
    """How much accuracy is lost against training on something else, classifier by classifier."""
    both = [name for name in synthetic["classifiers"] if name in other["classifiers"]]
    return {
        name: _gap(name, synthetic["classifiers"][name]["accuracy"], other["classifiers"][name]["accuracy"], words)
        for name in both
    }


def _gap(name: str, ours: Measured, theirs: Measured, words: str) -> Measured:
    """Seeds are shared, so the difference is taken seed by seed."""
    return over_seeds(
        name, [b - a for a, b in zip(ours.values, theirs.values, strict=True)], low=-1, high=1, note=words
    )
