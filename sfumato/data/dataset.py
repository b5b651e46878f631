"""A map-style torch data set, or anything that behaves like one: a length, and an (image, label) at every place.

It is gone through twice, once for the labels and once for the pixels, so that no more than one image is held at a time.
Give it without random changes to its images: what the ledger knows a record by is its pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.data.arrays import check_pixels, read_labels, read_persons
from sfumato.data.images import from_pillow
from sfumato.data.source import Item, Options, Source, pick_split, show
from sfumato.errors import InputError

WHAT = "The data set"


def is_dataset(source: object) -> bool:
    """Whether something has a length and items by number."""
    kind = type(source)
    return (
        not isinstance(source, dict | bytes | bytearray | np.ndarray)
        and hasattr(kind, "__len__")
        and hasattr(kind, "__getitem__")
    )


def open_dataset(source: Any, options: Options) -> Source:
    """Pairs (image, label), or triples (image, label, person)."""
    if options.label is not None or options.person not in (None, "person"):
        Options(label=options.label, person=options.person).refuse_columns(WHAT)
    pick_split(options.split, ["train"], WHAT)
    count = len(source)
    if count == 0:
        raise InputError(f"{WHAT} has no images; give one with at least one.")
    parts = [_rest(source, at) for at in range(count)]
    widths = {len(part) for part in parts}
    if len(widths) > 1:
        raise InputError(f"{WHAT} has items of {min(widths) + 1} and of {max(widths) + 1} parts; give all alike.")
    if options.person and widths == {1}:
        raise InputError("Expected a third part that says who is in each image, as (image, label, person).")
    classes, labels = read_labels(_column(parts, 0), count, f"{WHAT}'s labels", _names(source, parts))
    persons = read_persons(_column(parts, 1), count, f"{WHAT}'s persons") if widths == {2} else None
    return Source("arrays", classes, labels, lambda: _images(source, count), persons)


def _rest(source: Any, at: int) -> list[Any]:
    """The label of an item, and the person where it has one."""
    item = _item(source, at)
    return [_plain(part) for part in item[1:]]


def _item(source: Any, at: int) -> tuple[Any, ...]:
    try:
        item = source[at]
    except Exception as error:  # other people's code
        raise InputError(f"Item {at} of the data set cannot be read ({show(error)[:120]}); repair it.") from error
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        raise InputError(f"Item {at} of the data set is not (image, label) or (image, label, person); give it so.")
    return tuple(item)


def _plain(value: Any) -> Any:
    """A label or a person as a number or text, also where it is a tensor of one value."""
    return value.item() if hasattr(value, "item") else value


def _column(parts: list[list[Any]], at: int) -> np.ndarray:
    column = [part[at] for part in parts]
    text = any(isinstance(value, str) for value in column)
    return np.array([str(value) for value in column]) if text else np.array(column)


def _names(source: Any, parts: list[list[Any]]) -> list[str] | None:
    """The names of the classes, where the data set has them and its labels are numbers."""
    names = getattr(source, "classes", None)
    numbered = all(isinstance(part[0], int | np.integer) for part in parts)
    named = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return [*names] if named and numbered and names else None


def _images(source: Any, count: int) -> Iterator[Item]:
    for at in range(count):
        where = f"image {at} of the data set"
        yield where, as_pixels(_item(source, at)[0], where)


def as_pixels(image: Any, where: str) -> np.ndarray:
    """One image of a data set as 8-bit pixels: a picture, an array, or a tensor; fractions must go from 0 to 1.

    >>> as_pixels(np.array([[0.0, 1.0]]), "an image").tolist()
    [[0, 255]]
    """
    if hasattr(image, "convert") and hasattr(image, "mode"):
        return from_pillow(image, where)
    values = np.asarray(image.detach().cpu() if hasattr(image, "detach") else image)
    if values.ndim not in (2, 3):
        raise InputError(f"{where} has {values.ndim} axes; give height x width, with 1 or 3 channels first or last.")
    if values.dtype.kind == "f":
        values = _from_fractions(values, where)
    check_pixels((1, *values.shape), values.dtype, where)
    if values.ndim == 3 and values.shape[2] not in (1, 3):
        values = values.transpose(1, 2, 0)
    return np.ascontiguousarray(values[..., 0] if values.ndim == 3 and values.shape[2] == 1 else values)


def _from_fractions(values: np.ndarray, where: str) -> np.ndarray:
    if not np.isfinite(values).all() or values.min() < 0 or values.max() > 1:
        raise InputError(f"{where} has values outside of 0 to 1; leave out what normalises the images.")
    return np.round(values * 255).astype(np.uint8)
