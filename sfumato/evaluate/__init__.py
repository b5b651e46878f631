"""Evaluation of a release against real data. Everything here touches private data and is internal."""

from __future__ import annotations

from sfumato.evaluate.results import Measured, Report

__all__ = ["Measured", "Report"]
