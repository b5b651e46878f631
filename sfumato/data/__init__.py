"""Data in: a private set in an opaque box, or a public one in the open.

`load` reads a folder of images, .npz, parquet or idx files, a named set or arrays in memory, checks everything
it can, and returns a box of which only the public spec can be seen. What is wrong with the input is said in one
sentence (`InputError`), before anything is spent.
"""

from __future__ import annotations

from sfumato.data.labels import LabelPrior, parse_labels
from sfumato.data.loading import load
from sfumato.data.public import PublicImages, load_public

__all__ = ["LabelPrior", "PublicImages", "load", "load_public", "parse_labels"]
