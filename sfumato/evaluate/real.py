"""The one door through which an evaluation sees real data. Whatever is computed behind it is internal.

Using a private test set again and again to choose between releases overstates how good the chosen one is. So each use
is counted, in a file beside the ledger, and shown; named public sets are free.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.data.private import PrivateImages, records
from sfumato.errors import InputError
from sfumato.types import DataSpec, Images

COUNTS = "test-accesses.json"


@dataclass(frozen=True, eq=False)
class Fold:
    """Real images in memory, with labels that index the classes of the release."""

    name: str
    pixels: np.ndarray  # uint8 (n, channels, height, width)
    labels: np.ndarray
    digests: np.ndarray
    public: bool
    persons: np.ndarray | None = None  # a digest of who is shown, for each image, where that was asked for

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Real:
    """Training and test images of the real data, with the groups of the test images where they are named."""

    train: Fold
    test: Fold
    groups: np.ndarray | None = None
    accesses: int = 0

    @property
    def private(self) -> bool:
        """Whether any of it is private."""
        return not (self.test.public and self.train.public)

    @property
    def shared(self) -> np.ndarray:
        """Which test images are also training images."""
        known = {row.tobytes() for row in self.train.digests}
        return np.array([row.tobytes() in known for row in self.test.digests])

    @property
    def shared_persons(self) -> int:
        """How many persons of the test images are shown in training images too."""
        if self.train.persons is None or self.test.persons is None:
            return 0
        return len({row.tobytes() for row in self.test.persons} & {row.tobytes() for row in self.train.persons})

    @property
    def persons(self) -> np.ndarray | None:
        """A number for who is shown in each test image."""
        return None if self.test.persons is None else np.unique(self.test.persons, axis=0, return_inverse=True)[1]


def open_real(
    data: Any,
    like: Images,
    *,
    test: Any = None,
    split: str = "train",
    test_split: str = "test",
    label: str | None = None,
    groups: Any = None,
    person: str | None = None,
    ledger: str | Path | None = None,
    progress: Any = None,
) -> Real:
    """Read the real images in the shape of the release `like`, and count the access to a private test set.

    `test` names a set of its own; otherwise the test split of `data` is read. `groups` is a column of the test set's
    metadata, or one name for each test image. `person` is the column that says who is shown.
    """
    from sfumato.ledger.charge import account_name

    options = {"label": label, "person": person, "progress": progress} | fitting(like)
    with _opened(data, split=split, **options) as box:
        train = _part(box, like)
    with _test_box(data, test, test_split, options) as box:
        part = _part(box, like)
        name = account_name(box)
    marks = _groups(groups, len(part), lambda column: _test_box(data, test, test_split, options | {"label": column}))
    count = 0 if part.public else count_access(name, ledger)
    return Real(train, part, marks, count)


def open_whole(data: Any, **options: Any) -> Fold:
    """All images of a set, with labels of its own, to be held against another set; `options` are those of `load`."""
    with _opened(data, **options) as box:
        inside = records(box)
        return Fold(
            box.spec.name, inside.read(slice(0, None)), inside.labels.copy(), inside.digests.copy(), box.spec.public
        )


def fitting(like: Images) -> dict[str, Any]:
    """The options that bring real images to the shape of a release."""
    channels, height, width = like.pixels.shape[1:]
    return {"size": width if width == height else None, "grey": channels == 1}


def open_test(
    data: Any,
    like: Images,
    *,
    test: Any = None,
    test_split: str = "test",
    label: str | None = None,
    person: str | None = None,
    progress: Any = None,
) -> AbstractContextManager[PrivateImages]:
    """The closed box of the test set alone, for a release through the barrier."""
    options = {"label": label, "person": person, "progress": progress}
    return _test_box(data, test, test_split, options | fitting(like))


def _test_box(data: Any, test: Any, test_split: str, options: dict[str, Any]) -> AbstractContextManager[PrivateImages]:
    if test is not None:
        return _any_split(test, test_split, options)
    if isinstance(data, PrivateImages):
        raise InputError("An open data set has no test split to choose; give the test set with test=.")
    try:
        return _opened(data, split=test_split, **options)
    except InputError as error:
        if "has no split" not in str(error):
            raise
        raise InputError(f"{str(error).rstrip('.')}, or name a test set of its own with --test.") from error


def _any_split(data: Any, split: str, options: dict[str, Any]) -> AbstractContextManager[PrivateImages]:
    """The split of a source that has it; all of one that has no splits."""
    try:
        return _opened(data, split=split, **options)
    except InputError as error:
        if "has no split" not in str(error):
            raise
        return _opened(data, split="train", **options)


def _opened(data: Any, **options: Any) -> AbstractContextManager[PrivateImages]:
    """A box that closes itself, or the caller's own, which stays open."""
    from sfumato.data import load

    return nullcontext(data) if isinstance(data, PrivateImages) else load(data, **options)


def _part(box: PrivateImages, like: Images) -> Fold:
    inside = records(box)
    pixels = matched(inside.read(slice(0, None)), like, box.spec)
    numbers = class_numbers(box.spec, like)
    shown = None if inside.persons is None or inside.people is None else inside.people[inside.persons]
    return Fold(box.spec.name, pixels, numbers[inside.labels], inside.digests.copy(), box.spec.public, shown)


def matched(pixels: np.ndarray, like: Images, spec: DataSpec) -> np.ndarray:
    """Real pixels with as many channels as the release; any other difference is refused."""
    shape = like.pixels.shape[1:]
    if pixels.shape[1] == 1 and shape[0] == 3:
        pixels = np.repeat(pixels, 3, axis=1)
    if pixels.shape[1:] != shape:
        sizes = ["x".join(map(str, s)) for s in (pixels.shape[1:], shape)]
        raise InputError(
            f"{spec.name} has images of {sizes[0]} and the release of {sizes[1]}; "
            "give the data that the release was made from."
        )
    return pixels


def class_numbers(spec: DataSpec, like: Images) -> np.ndarray:
    """For each class of the data, its number in the release."""
    known = {name: at for at, name in enumerate(like.classes)}
    if unknown := [name for name in spec.classes if name not in known]:
        raise InputError(
            f"{spec.name} has the class '{unknown[0]}', which the release does not know; "
            "give the data that the release was made from, or choose with --label."
        )
    return np.array([known[name] for name in spec.classes], np.int64)


def _groups(groups: Any, count: int, read: Callable[[str], AbstractContextManager[PrivateImages]]) -> np.ndarray | None:
    """A name for each test image: given, or read as if the column were the class."""
    if groups is None:
        return None
    if isinstance(groups, str):
        with read(groups) as box:
            marks = np.asarray(np.array(box.spec.classes)[records(box).labels])
    else:
        marks = np.asarray(groups).astype(str)
    if len(marks) != count:
        raise InputError(f"Expected one group for each of the {count} test images, found {len(marks)}.")
    return marks


def counts_path(ledger: str | Path | None = None) -> Path:
    """The file of access counts, in the folder of the ledger."""
    from sfumato.ledger.store import default_path

    return Path(ledger or default_path()).expanduser().parent / COUNTS


def count_access(name: str, ledger: str | Path | None = None) -> int:
    """Count one more use of the test set of this account, and return how many that makes."""
    path = counts_path(ledger)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path):
            counts = _read(path)
            number = int(counts.get(name, {}).get("count", 0)) + 1
            counts[name] = {"count": number, "last": datetime.now(UTC).isoformat(timespec="seconds")}
            _write(path, counts)
    except OSError as error:
        words = f"{path} cannot be written ({error.strerror}); set SFUMATO_LEDGER to another place."
        raise InputError(words) from error
    return number


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = os.open(path.with_name(path.name + ".lock"), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        counts = json.loads(path.read_text())
        if not all(isinstance(row["count"], int) for row in counts.values()):
            raise ValueError("counts")
        return dict(counts)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is no readable list of accesses; put it right, or move it away.") from error


def _write(path: Path, counts: dict[str, Any]) -> None:
    new = path.with_name(path.name + ".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(counts, file, indent=1)
    os.replace(new, path)
