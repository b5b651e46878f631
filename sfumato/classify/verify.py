"""Checking a release of either kind, of images or of a classifier, without the data."""

from __future__ import annotations

from pathlib import Path

from sfumato.classify import checks
from sfumato.classify.classifier import Classifier
from sfumato.classify.pate import PATE
from sfumato.classify.release import holds_classifier
from sfumato.release.files.command import Configured
from sfumato.release.files.verify import ReleaseKind, Verdict
from sfumato.release.files.verify import verify as verify_kinds


def find_classifier(name: str) -> type[Configured] | None:
    """The class that a classifier's statement names."""
    known: dict[str, type[Configured]] = {Classifier.name: Classifier, PATE.name: PATE}
    return known.get(name)


CLASSIFIER = ReleaseKind(
    holds=holds_classifier,
    checks={"contents": checks.contents, "documents": checks.documents, "classifier": checks.classifier},
    find=find_classifier,
)


def verify(folder: str | Path, *, public_key: str | Path | None = None) -> Verdict:
    """Check a release folder; see `sfumato.release.verify`, which knows images alone."""
    return verify_kinds(folder, public_key=public_key, kinds=(CLASSIFIER,))
