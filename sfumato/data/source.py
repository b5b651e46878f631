"""What every loader hands over: labels and persons at once, pixels one at a time."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import InputError

WORDS = re.compile("[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # of a name in any of the usual spellings
LONGEST = 400  # letters of a name that a message shows
Item = tuple[str, np.ndarray]  # where it is from, and uint8 pixels: height x width, or height x width x 3


@dataclass(frozen=True)
class Options:
    """Which part of a source is wanted. None means that the source decides."""

    split: str = "train"
    label: str | None = None
    person: str | None = None

    def refuse_columns(self, source: str) -> None:
        """For sources that have no columns to choose from."""
        for option in ("label", "person"):
            if (column := getattr(self, option)) is not None:
                raise InputError(f"{source} has no column {show(column)} to use as {option}; leave --{option} out.")


@dataclass(frozen=True, eq=False)
class Persons:
    """Who is in each image: dense numbers, and for each number a digest of the identifier as it was given."""

    numbers: np.ndarray  # int64 (n,)
    digests: np.ndarray  # uint8 (persons, 32)


@dataclass(frozen=True, eq=False)
class Source:
    """A data set that was found and checked as far as is possible without decoding images."""

    name: str
    classes: tuple[str, ...]
    labels: np.ndarray  # int64 (n,), index into classes
    images: Callable[[], Iterator[Item]]
    persons: Persons | None = None
    public: bool = False
    size: int | None = None  # the set's own size, where no other is asked for
    columns: tuple[str, ...] = ()  # that the set has, read or not


def show(name: object) -> str:
    """A name that any terminal can print, whatever bytes a file system gave."""
    text = os.fspath(name) if isinstance(name, os.PathLike) else str(name)
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}…{text[-LONGEST // 2 :]}"
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def listed(names: Sequence[object], most: int = 12) -> str:
    """Names in a sentence, shortened where there are many."""
    shown = ", ".join(show(name)[:60] for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "none"


def code_labels(values: Sequence[str], known: Collection[str] = ()) -> tuple[tuple[str, ...], np.ndarray]:
    """Class names in order, and for each value its class number. `known` classes are kept even without images.

    >>> code_labels(["10", "9", "9"])
    (('9', '10'), array([1, 0, 0]))
    """
    classes = sorted({*values, *known}, key=_order({*values, *known}))
    number = {name: at for at, name in enumerate(classes)}
    return tuple(classes), np.array([number[value] for value in values], np.int64)


def _order(names: set[str]) -> Callable[[str], Any]:
    """Numbers in the order of numbers, anything else in the order of letters."""
    digits = all(name.isascii() and name.removeprefix("-").isdigit() and len(name) < 19 for name in names)
    return (lambda name: (int(name), name)) if digits else (lambda name: name)


# Words in the name of a column that seems to say who is shown.
PERSONAL = frozenset(
    ("patient", "subject", "person", "case", "user", "participant", "individual", "client", "customer", "mrn")
)


def personal(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns that look like persons, by their names.

    >>> personal(["label", "PatientID", "subject_no", "showcase", "user-id"])
    ('PatientID', 'subject_no', 'user-id')
    """
    return tuple(name for name in columns if not PERSONAL.isdisjoint(map(_singular, WORDS.findall(name))))


def _singular(word: str) -> str:
    return word.lower().removesuffix("s")


def code_persons(values: Sequence[str]) -> Persons:
    """Persons numbered in the order of their first image."""
    number: dict[str, int] = {}
    numbers = np.array([number.setdefault(value, len(number)) for value in values], np.int64)
    # Set apart from digests of images, so that a person is never taken for a record.
    named = (hashlib.blake2b(name.encode(), digest_size=32, person=b"sfumato person") for name in number)
    return Persons(numbers, np.frombuffer(b"".join(one.digest() for one in named), np.uint8).reshape(-1, 32))


def pick_split(wanted: str, found: Sequence[str], source: str) -> None:
    """Refuse a split that is not there."""
    if wanted not in found:
        raise InputError(f"{source} has no split {show(wanted)}; it has {listed(found)}: choose with --split.")
