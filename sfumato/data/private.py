"""The opaque box that private images travel in, and the one door into it.

Only `sfumato.privacy` opens boxes. Everything else passes them along and reads their public spec.
"""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from sfumato.errors import InputError
from sfumato.types import DataSpec


class PrivateImages:
    """A private image set: shows its public spec and nothing else.

    It has no length, cannot be iterated, copied or pickled. `close` (or `with`) frees the decoded pixels.
    """

    __slots__ = ("__weakref__", "_spec", "_unused")
    __iter__ = None  # without this, Python would not say why iteration fails

    def __init__(self, spec: DataSpec, inside: Records, unused: tuple[str, ...] = ()) -> None:
        self._spec = spec
        self._unused = unused
        _INSIDE[self] = inside

    @property
    def spec(self) -> DataSpec:
        """All that is public about the set."""
        return self._spec

    @property
    def unused(self) -> tuple[str, ...]:
        """Columns that seem to say who is shown and were not asked for; the custodian is told, and no one else."""
        return self._unused

    def close(self) -> None:
        """Free the decoded pixels; the box stays closed for good."""
        inside = _INSIDE.pop(self, None)
        if inside is not None:
            inside.close()

    def __enter__(self) -> PrivateImages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PrivateImages({self._spec!r})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Private images cannot be copied or pickled; pass the box itself.")


class PixelStore(Protocol):
    """Decoded images by row: a file (`store.Pixels`), or what an audit makes up."""

    @property
    def shape(self) -> tuple[int, int, int]: ...
    def read(self, rows: Any, /) -> np.ndarray: ...
    def close(self) -> None: ...


class Records:
    """What is inside a box. `labels` index the classes of the spec; `digests` name the images as they came.

    `persons` numbers who is in each image, and `people` has a digest of the identifier behind each number.
    """

    def __init__(
        self,
        pixels: PixelStore,
        labels: np.ndarray,
        persons: np.ndarray | None,
        digests: np.ndarray,
        people: np.ndarray | None = None,
    ) -> None:
        self._pixels = pixels
        self.labels = labels
        self.persons = persons
        self.digests = digests
        self.people = people

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        return self._pixels.shape

    def read(self, rows: np.ndarray | slice) -> np.ndarray:
        """Images by row, uint8 (rows, channels, height, width), a fresh array each time."""
        return self._pixels.read(rows)

    def close(self) -> None:
        """Free the pixels."""
        self._pixels.close()


_INSIDE: WeakKeyDictionary[PrivateImages, Records] = WeakKeyDictionary()


def records(box: PrivateImages) -> Records:
    """Open a box; for `sfumato.privacy` alone."""
    if box not in _INSIDE:
        raise InputError(f"The data set {box.spec.name} was closed; load it again.")
    return _INSIDE[box]


def relabelled(box: PrivateImages, spec: DataSpec) -> PrivateImages:
    """The same records under another public description; closing either closes both."""
    return PrivateImages(spec, records(box), box.unused)


def with_classes(box: PrivateImages, classes: tuple[str, ...]) -> PrivateImages:
    """The same records under a list of classes that has all of theirs, perhaps more; closing either closes both."""
    unknown = [name for name in box.spec.classes if name not in classes]
    if unknown:
        raise InputError(f"Expected the classes {', '.join(classes)}, found {', '.join(unknown)} too; let them agree.")
    inside = records(box)
    labels = np.array([classes.index(name) for name in box.spec.classes])[inside.labels]
    made = Records(inside._pixels, labels, inside.persons, inside.digests, inside.people)
    return PrivateImages(replace(box.spec, classes=classes), made, box.unused)
