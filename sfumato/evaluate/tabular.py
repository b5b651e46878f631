"""Random forest and gradient boosting from scikit-learn, on the pixels as they are.

Both take at most `MOST` images, drawn evenly from what there is, so that the time stays bounded. Boosting looks at
a random tenth of the pixels at every split: without that its seeds would not differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sfumato.evaluate.stacked import Trained
from sfumato.run.progress import Silent

MOST = 20_000


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=100, max_features="sqrt", random_state=seed, n_jobs=-1)


def _boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=50,
        learning_rate=0.2,
        max_leaf_nodes=15,
        max_features=0.1,
        max_bins=63,
        early_stopping=False,
        random_state=seed,
    )


TABULAR: dict[str, Callable[[int], Any]] = {"forest": _forest, "boosting": _boosting}


def train(
    name: str,
    pixels: np.ndarray,
    labels: np.ndarray,
    test_pixels: np.ndarray,
    test_labels: np.ndarray,
    *,
    classes: int,
    seeds: Sequence[int],
    most: int = MOST,
    progress: Silent | None = None,
    **ignored: Any,
) -> Trained:
    """Fit one model a seed; as there are no epochs, there is one look at the test images."""
    progress = progress or Silent()
    progress.start(name, len(seeds))
    test = test_pixels.reshape(len(test_pixels), -1)
    each = []
    for number, seed in enumerate(seeds):
        rows = _rows(len(pixels), most, seed)
        model = _with_any_classes(TABULAR[name](seed), pixels[rows].reshape(len(rows), -1), labels[rows])
        each.append(_logits(model, test, classes))
        progress.advance(number + 1)
    logits = np.stack(each)
    return Trained(name, logits, (logits.argmax(-1) == test_labels).mean(1)[:, None])


def _rows(count: int, most: int, seed: int) -> np.ndarray:
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def _with_any_classes(model: Any, pixels: np.ndarray, labels: np.ndarray) -> Any:
    """Fit; where only one class is there, which boosting refuses, a constant answer."""
    from sklearn.dummy import DummyClassifier

    model = model if len(np.unique(labels)) > 1 else DummyClassifier()
    return model.fit(pixels, labels)


def _logits(model: Any, pixels: np.ndarray, classes: int) -> np.ndarray:
    """Log probabilities; a class that the training images lack has none."""
    probabilities = np.zeros((len(pixels), classes))
    probabilities[:, model.classes_] = model.predict_proba(pixels)
    return np.log(np.maximum(probabilities, 1e-12)).astype(np.float32)
