"""Classifiers of private images, by DP-SGD or by PATE: networks, plan, training and the folder to be published."""

from __future__ import annotations

from sfumato.classify.classifier import Classifier
from sfumato.classify.pate import PATE
from sfumato.classify.release import TrainedClassifier

__all__ = ["PATE", "Classifier", "TrainedClassifier"]
