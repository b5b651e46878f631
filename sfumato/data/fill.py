"""From a source to a box: decode, name, fit and store each image, and say what is public about the set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.data.images import digest, fit
from sfumato.data.private import PrivateImages, Records
from sfumato.data.source import Source, personal, show
from sfumato.data.store import Pixels, Writer
from sfumato.errors import InputError
from sfumato.types import DataSpec, Unit

Progress = Callable[[int, int, str], None]
EVERY = 500  # records between two calls of progress
WHAT = "reading images"


def fill(source: Source, *, size: int | None, grey: bool, declared: int | None, progress: Progress | None) -> Records:
    """Decode a source into a private store."""
    count = len(source.labels)
    if count == 0:
        raise InputError(f"{show(source.name)} has no images; give a set with at least one.")
    # Only a public count may be shown: neither a private one, nor how many images the persons have.
    total = count if declared is None and source.persons is None else None
    digests = np.empty((count, 32), np.uint8)
    pixels = _store(source, digests, size or source.size, grey, _teller(progress, total))
    who = source.persons
    if who is None:
        return Records(pixels, source.labels, None, digests)
    return Records(pixels, source.labels, who.numbers, digests, who.digests)


def box(source: Source, inside: Records, declared: int | None) -> PrivateImages:
    """The box and its public spec."""
    units = len(inside) if source.persons is None else len(source.persons.digests)
    spec = DataSpec(
        name=source.name,
        records=units if declared is None else declared,
        shape=inside.shape,
        classes=source.classes,
        unit=Unit.RECORD if source.persons is None else Unit.PERSON,
        count_public=declared is None,
        public=source.public,
    )
    return PrivateImages(spec, inside, () if source.persons else personal(source.columns))


def _store(source: Source, digests: np.ndarray, size: int | None, grey: bool, tell: Callable[[int], None]) -> Pixels:
    writer = Writer()
    first = ""
    try:
        for where, image in source.images():
            if writer.count == len(digests):
                raise InputError(f"{show(source.name)} has more images than labels; give one label an image.")
            digests[writer.count] = np.frombuffer(digest(image), np.uint8)
            fitted = fit(image, size, grey)
            _check_shape(fitted, where, writer, first)
            first = first or where
            writer.append(fitted)
            tell(writer.count)
        if writer.count < len(digests):
            raise InputError(f"{show(source.name)} has fewer images than labels; give one label an image.")
        return writer.finish()
    finally:
        writer.close()


def _check_shape(image: np.ndarray, where: str, writer: Writer, first: str) -> None:
    height, width = image.shape[1:]
    if writer.shape is not None and (height, width) != writer.shape[1:]:
        raise InputError(
            f"{show(where)} is {width}x{height} pixels but {show(first)} is "
            f"{writer.shape[2]}x{writer.shape[1]}; give one size for all with --size."
        )


def _teller(progress: Progress | None, total: int | None) -> Callable[[int], None]:
    """Counts for the screen, at the start, every few hundred records and at the end."""
    if progress is None:
        return lambda done: None
    progress(0, total or 0, WHAT)
    if total is None:
        return lambda done: None

    def tell(done: int) -> None:
        if done % EVERY == 0 or done == total:
            progress(done, total, WHAT)

    return tell
