"""A Hugging Face dataset in memory or on disk: its image column, its label column and, where asked for, a person.

Only these columns are read; no other leaves the dataset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.data.arrays import read_labels, read_persons
from sfumato.data.dataset import as_pixels
from sfumato.data.metadata import cell_text, need_column
from sfumato.data.source import Item, Options, Source, pick_split
from sfumato.errors import InputError

WHAT = "The Hugging Face dataset"
LABELS = ("label", "labels")


def is_hub(source: object) -> bool:
    """Whether something is a dataset of that library, which is not imported to know it."""
    return any(kind.__module__.partition(".")[0] == "datasets" for kind in type(source).__mro__)


def open_hub(source: Any, options: Options) -> Source:
    """A dataset, or one split of several."""
    data = _split(source, options.split)
    if not hasattr(type(data), "__len__"):
        raise InputError(f"{WHAT} is a stream; load it without streaming=True.")
    image = _image_column(data)
    count = len(data)
    classes, labels = _labels(data, count, options.label)
    persons = None
    if options.person is not None:
        need_column(data.column_names, options.person, "person", WHAT)
        texts = [
            cell_text(value, f"{WHAT}, row {at},", options.person, "person")
            for at, value in enumerate(data[options.person])
        ]
        persons = read_persons(np.array(texts), count, f"{WHAT}'s {options.person}")
    columns = tuple(data.column_names)
    pixels = data.select_columns([image])
    return Source("arrays", classes, labels, lambda: _images(pixels, image), persons, columns=columns)


def _split(source: Any, split: str) -> Any:
    if isinstance(source, dict):
        pick_split(split, list(source), WHAT)
        return source[split]
    pick_split(split, ["train"], WHAT)
    return source


def _image_column(data: Any) -> str:
    found = [name for name, feature in data.features.items() if type(feature).__name__ == "Image"]
    if len(found) != 1:
        raise InputError(f"{WHAT} has {len(found)} columns of images; keep one, with select_columns or cast_column.")
    return str(found[0])


def _labels(data: Any, count: int, wanted: str | None) -> tuple[tuple[str, ...], np.ndarray]:
    """Classes and numbers; a dataset that names its classes keeps their order."""
    if wanted is not None:
        need_column(data.column_names, wanted, "label", WHAT)
    column = wanted or next((name for name in LABELS if name in data.column_names), None)
    if column is None:
        return read_labels(np.full(count, "image"), count, WHAT)
    names = getattr(data.features[column], "names", None)
    if names:
        return read_labels(np.array(data[column]), count, f"{WHAT}'s {column}", names)
    texts = [cell_text(value, f"{WHAT}, row {at},", column, "label") for at, value in enumerate(data[column])]
    return read_labels(np.array(texts), count, f"{WHAT}'s {column}")


def _images(data: Any, column: str) -> Iterator[Item]:
    for at in range(len(data)):
        where = f"image {at} of the dataset"
        yield where, as_pixels(data[at][column], where)
