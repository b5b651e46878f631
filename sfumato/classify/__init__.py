"""Classifiers trained by DP-SGD on private images: networks, plan, training and the folder that may be published."""

from __future__ import annotations

from sfumato.classify.classifier import Classifier
from sfumato.classify.release import TrainedClassifier

__all__ = ["Classifier", "TrainedClassifier"]
