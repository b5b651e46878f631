"""`sfumato evaluate` of whatever was released: images, or a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.classify.release import holds_classifier
from sfumato.classify.score import refuse_for_classifier, score
from sfumato.evaluate.evaluate import evaluate as evaluate_images
from sfumato.evaluate.results import Report

IMAGES_ALONE = ("protocol", "classifiers", "metrics", "reference", "features", "attacks")


def evaluate(release_folder: str | Path, data: Any, **options: Any) -> Report:
    """Measure a release against real data; see `sfumato.evaluate.evaluate.evaluate` for the options.

    The folder of a classifier is tested on the real test images as it is; options that speak of synthetic images are
    refused then.
    """
    if not holds_classifier(release_folder):
        return evaluate_images(release_folder, data, **options)
    refuse_for_classifier(options)
    return score(release_folder, data, **{k: v for k, v in options.items() if k not in IMAGES_ALONE})
