"""Images in arrays: which layouts are read, what is refused, and arrays that are in memory already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sfumato.data.source import Item, Options, Persons, Source, code_labels, code_persons, listed, pick_split, show
from sfumato.errors import InputError
from sfumato.types import Images

LAYOUTS = "(n, height, width), (n, height, width, 3) or (n, 3, height, width), with 1 or 3 channels"


def check_pixels(shape: tuple[int, ...], dtype: np.dtype, where: str) -> None:
    """Refuse an array whose shape or type is not that of 8-bit images."""
    if len(shape) not in (3, 4) or (len(shape) == 4 and not {shape[1], shape[3]} & {1, 3}):
        raise InputError(f"{where} has the shape {shape}; give images as {LAYOUTS}.")
    if min(shape) < 1:
        raise InputError(f"{where} has the shape {shape}, which holds no pixels; give at least one image.")
    if dtype != np.uint8 and dtype.kind != "f":
        raise InputError(
            f"{where} has the type {dtype}; give whole numbers from 0 to 255 as uint8 "
            "(for example with images.astype('uint8'))."
        )


def check_floats(blocks: Iterator[np.ndarray], where: str) -> None:
    """Say what to do with an array of fractions. Always raises: their range is the owner's to declare."""
    low = np.inf
    high = -np.inf
    for block in blocks:
        if not np.isfinite(block).all():
            raise InputError(f"{where} has NaN or infinite values; repair them, then give uint8 from 0 to 255.")
        low = min(low, block.min())
        high = max(high, block.max())
    if low >= 0 and high <= 1:
        raise InputError(
            f"{where} has fractions from 0 to 1; multiply by 255 and cast to uint8 "
            "(for example with (images * 255).round().astype('uint8'))."
        )
    raise InputError(f"{where} has fractions; scale them to 0..255 and cast to uint8.")


def as_images(block: np.ndarray) -> np.ndarray:
    """Rows of any accepted layout as (n, height, width) or (n, height, width, 3)."""
    if block.ndim == 4 and block.shape[3] not in (1, 3):
        block = block.transpose(0, 2, 3, 1)
    return block[..., 0] if block.ndim == 4 and block.shape[3] == 1 else block


def read_labels(
    values: np.ndarray, count: int, where: str, names: Sequence[str] | None = None
) -> tuple[tuple[str, ...], np.ndarray]:
    """Classes and class numbers from an array of numbers or names; `names` names the numbers 0, 1, ..."""
    values = _column(values, count, where, "label")
    if names is None or values.dtype.kind in "US":
        return code_labels(_texts(values, where, "label"), names or ())
    wrong = (values < 0) | (values >= len(names))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{where} has the unknown label {values[row]} in row {row}; "
            f"labels go from 0 to {len(names) - 1} ({listed(names)})."
        )
    return tuple(names), values.astype(np.int64)


def read_persons(values: np.ndarray, count: int, where: str) -> Persons:
    """Persons from an array of numbers or names."""
    return code_persons(_texts(_column(values, count, where, "person"), where, "person"))


def open_arrays(parts: tuple[object, ...], options: Options) -> Source:
    """(images, labels) or (images, labels, person) in memory; labels may be None."""
    if len(parts) not in (2, 3):
        raise InputError(f"Expected arrays as (images, labels) or (images, labels, person), found {len(parts)} parts.")
    if options.label is not None or options.person not in (None, "person"):
        Options(label=options.label, person=options.person).refuse_columns("A tuple of arrays")
    if options.person and len(parts) == 2:
        raise InputError("Expected a third array that says who is in each image, as (images, labels, person).")
    pick_split(options.split, ["train"], "A tuple of arrays")
    images = _array(parts[0], "images")
    check_pixels(images.shape, images.dtype, "The array images")
    if images.dtype.kind == "f":
        check_floats(iter(images), "The array images")
    count = len(images)
    labels = np.full(count, "image") if parts[1] is None else _array(parts[1], "labels")
    classes, numbers = read_labels(labels, count, "The array labels")
    persons = read_persons(_array(parts[2], "person"), count, "The array person") if len(parts) == 3 else None
    return Source("arrays", classes, numbers, _items(images), persons)


def open_images(images: Images, options: Options) -> Source:
    """Images in memory, with the classes they carry."""
    options.refuse_columns("An Images object")
    pick_split(options.split, ["train"], "An Images object")
    check_pixels(images.pixels.shape, images.pixels.dtype, "The field pixels")
    if images.pixels.shape[1] not in (1, 3):
        raise InputError(f"The field pixels has {images.pixels.shape[1]} channels; give 1 or 3.")
    classes, numbers = read_labels(images.labels, len(images), "The field labels", images.classes)
    return Source("images", classes, numbers, _items(images.pixels.transpose(0, 2, 3, 1)))


def _items(images: np.ndarray) -> Callable[[], Iterator[Item]]:
    rows = as_images(images)
    return lambda: ((f"image {row}", np.ascontiguousarray(image)) for row, image in enumerate(rows))


def _array(value: object, name: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except Exception as error:  # __array__ is other people's code
        raise InputError(f"The {name} cannot be read as an array ({show(error)}); give a numpy array.") from error
    if array.dtype.hasobject or array.ndim == 0:
        raise InputError(f"The array {name} holds {array.dtype} of {array.ndim} axes; give a numpy array of numbers.")
    return array


def _column(values: np.ndarray, count: int, where: str, what: str) -> np.ndarray:
    """A checked column of `count` numbers or names; (n, 1) counts as (n,)."""
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (count,):
        raise InputError(f"{where} has the shape {values.shape} for {count} images; give one {what} an image.")
    if values.dtype.kind not in "iubUS":
        missing = " (some are NaN)" if values.dtype.kind == "f" and np.isnan(values).any() else ""
        raise InputError(
            f"{where} has the type {values.dtype}{missing}; give every {what} as a whole number or a name."
        )
    return values.astype(np.int64) if values.dtype.kind == "b" else values


def _texts(values: np.ndarray, where: str, what: str) -> list[str]:
    """A column as names; an empty one is refused."""
    if values.dtype.kind == "S":
        try:
            values = np.char.decode(values, "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{where} has a name that is not UTF-8; write the names as text.") from error
    texts = [str(value).strip() for value in values.tolist()]
    if "" in texts:
        raise InputError(f"{where} has no {what} in row {texts.index('')}; fill it in or take the row out.")
    for row, text in enumerate(texts):
        check_text(text, f"{where}, row {row},", what)
    return texts


def check_text(text: str, where: str, what: str) -> str:
    """A name that can be printed and written as UTF-8."""
    if not text.isprintable():  # control characters and lone surrogates
        raise InputError(f"{where} has the {what} {show(text)}, which is not printable text; rename it.")
    return text
