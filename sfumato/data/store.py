"""Rows of uint8 pixels in an unnamed private file: appended one by one, then memory-mapped and read.

The file has no name in any folder from its first byte on (`tempfile.TemporaryFile`), so the system
frees it when the process ends in any way, a power cut included: nothing is ever left behind to clean up.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from typing import IO

import numpy as np

from sfumato.data.cache import private_folder
from sfumato.errors import InputError

Shape = tuple[int, int, int]
RESIDENT = 64 << 20  # bytes of the map that may stay resident
SCATTERED = 64  # rows picked in one step: the system may map up to 2 MB around each


class Writer:
    """Appends images of one shape; a grey store becomes a colour store when the first colour image comes."""

    def __init__(self) -> None:
        self.shape: Shape | None = None
        self.count = 0
        self._file = _unnamed_file()

    def append(self, image: np.ndarray) -> None:
        """Add one uint8 image (channels, height, width); height and width must be those of the first."""
        if self.shape is None:
            self.shape = _shape(image)
        if image.shape[0] > self.shape[0]:
            self._widen(image.shape[0])
        elif image.shape[0] < self.shape[0]:
            image = np.repeat(image, self.shape[0], axis=0)
        _write(self._file, image)
        self.count += 1

    def finish(self) -> Pixels:
        """Close the store for writing and map it for reading."""
        assert self.shape is not None, "an empty store cannot be mapped"
        self._file.flush()
        pixels = Pixels(self._file, self.count, self.shape)
        self._file.close()
        return pixels

    def close(self) -> None:
        """Throw the rows away."""
        self._file.close()

    def _widen(self, channels: int) -> None:
        """Rewrite the grey rows with equal channels."""
        assert self.shape is not None
        old = self._file
        wide = _unnamed_file()
        old.flush()
        narrow = Pixels(old, self.count, self.shape) if self.count else None
        for rows in _steps(self.count, RESIDENT // (channels * _size(self.shape))):
            assert narrow is not None
            _write(wide, np.repeat(narrow.read(rows), channels, axis=1))
        if narrow is not None:
            narrow.close()
        old.close()
        self._file = wide
        self.shape = (channels, *self.shape[1:])


class Pixels:
    """The finished rows. Reading copies them out and lets go of the map, so that little stays resident."""

    def __init__(self, file: IO[bytes], count: int, shape: Shape) -> None:
        self.count = count
        self.shape = shape
        self._small = count * _size(shape) <= RESIDENT  # may stay resident as a whole
        self._map = mmap.mmap(file.fileno(), count * _size(shape), access=mmap.ACCESS_READ)
        self._rows = np.frombuffer(self._map, np.uint8).reshape(count, *shape)

    def read(self, rows: np.ndarray | slice) -> np.ndarray:
        """Rows by position (a slice, integers or a mask), as a fresh uint8 array (rows, channels, height, width)."""
        assert len(self._rows), "the store is closed"
        if isinstance(rows, slice):
            start, stop, stride = rows.indices(self.count)
            if stride == 1:
                return self._run(start, max(start, stop))
            rows = np.arange(start, stop, stride)
        return self._picked(_positions(rows, self.count))

    def close(self) -> None:
        """Let go of the map; the system frees the file."""
        self._rows = self._rows[:0].copy()  # a view would keep the map open
        self._map.close()

    def _run(self, start: int, stop: int) -> np.ndarray:
        """Neighbouring rows, copied a piece at a time."""
        out = np.empty((stop - start, *self.shape), np.uint8)
        for part in _steps(stop - start, RESIDENT // 2 // _size(self.shape)):
            out[part] = self._rows[start + part.start : start + part.stop]
            self._forget()
        return out

    def _picked(self, rows: np.ndarray) -> np.ndarray:
        """Scattered rows, in the order asked for."""
        out = np.empty((len(rows), *self.shape), np.uint8)
        for part in _steps(len(rows), len(rows) if self._small else SCATTERED):
            out[part] = self._rows[rows[part]]
            self._forget()
        return out

    def _forget(self) -> None:
        """Let go of the resident pages (they stay in the system's file cache, which it may reclaim)."""
        if not self._small:
            self._map.madvise(mmap.MADV_DONTNEED)


def _positions(rows: np.ndarray, count: int) -> np.ndarray:
    """Row numbers as checked integers."""
    rows = np.asarray(rows)
    if rows.dtype == bool:
        rows = np.flatnonzero(rows)
    rows = rows.astype(np.int64, casting="same_kind") if rows.size else np.zeros(0, np.int64)
    if rows.size and (rows.min() < 0 or rows.max() >= count):
        raise IndexError("Expected row numbers within the set.")
    return rows


def _steps(total: int, step: int) -> Iterator[slice]:
    """Slices of at most `step` that cover 0..total."""
    step = max(1, step)
    return (slice(at, min(at + step, total)) for at in range(0, total, step))


def _shape(image: np.ndarray) -> Shape:
    channels, height, width = image.shape
    return channels, height, width


def _size(shape: Shape) -> int:
    return shape[0] * shape[1] * shape[2]


def _unnamed_file() -> IO[bytes]:
    return tempfile.TemporaryFile(dir=private_folder(), buffering=1 << 20)


def _write(file: IO[bytes], rows: np.ndarray) -> None:
    try:
        file.write(np.ascontiguousarray(rows).data)
    except OSError as error:
        where = private_folder()
        raise InputError(
            f"Cannot keep decoded images in {where} ({error.strerror}); "
            "free some space there, or set SFUMATO_CACHE to a folder on a larger disk."
        ) from error
