"""Looking at releases: which there are, their images, and which of them are alike."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException

from sfumato.data.images import png
from sfumato.errors import SfumatoError
from sfumato.release import read_images
from sfumato.release.documents.pictures import decode_one, distinct
from sfumato.release.files.reading import read_statement
from sfumato.studio.roots import NAME, inside
from sfumato.types import Images

KEPT = 4  # releases whose images stay in memory
MOST_COMPARED = 20_000


class Looks:
    """The releases in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._images: OrderedDict[tuple[Path, int], tuple[Images, int]] = OrderedDict()
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """The releases of images, newest first."""
        found = [path for path in self.folder.iterdir() if NAME.fullmatch(path.name) and _is_release(path)]
        return [path.name for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)]

    def place(self, name: str) -> Path:
        """The folder of a release, by its name."""
        path = inside(self.folder, name) if NAME.fullmatch(name) else self.folder
        if path.parent != self.folder or not _is_release(path):
            raise HTTPException(404, "There is no release of this name in the studio's folder.")
        return path

    def statement(self, name: str) -> dict[str, Any]:
        """What its privacy.json says."""
        return read_statement(self.place(name))

    def cards(self) -> list[dict[str, Any]]:
        """Each release in a few facts; one that cannot be read says so."""
        return [self._card(name) for name in self.names()]

    def _card(self, name: str) -> dict[str, Any]:
        try:
            statement = self.statement(name)
            return {
                "name": name,
                "title": statement.get("publication", {}).get("title") or name,
                "guarantee": statement["guarantee"],
                "method": statement["reproducibility"]["method"],
                "words": statement["plain_words"]["summary"],
                "evaluated": self.evaluation(name) is not None,
                "broken": False,
            }
        except (SfumatoError, KeyError, TypeError):
            return {"name": name, "title": name, "broken": True}

    def evaluation(self, name: str) -> Path | None:
        """The internal folder beside a release, where there is one."""
        path = inside(self.folder, f"{self.place(name).name}-evaluation")
        return path if (path / "evaluation.json").is_file() else None

    def images(self, name: str) -> tuple[Images, int]:
        """The images of a release, and how many of them are distinct; the last few releases stay in memory."""
        place = self.place(name)
        key = (place, (place / "privacy.json").stat().st_mtime_ns)
        with self._lock:
            if key not in self._images:
                images = read_images(place)
                self._images[key] = (images, distinct(images))
                while len(self._images) > KEPT:
                    self._images.popitem(last=False)
            self._images.move_to_end(key)
            return self._images[key]

    def picture(self, name: str, number: int) -> bytes:
        """One image as PNG; a single file is read where the release has one, and decoded as every other."""
        if file := self._file(name, number):
            return png(decode_one(file.name, file.read_bytes()))
        images, _ = self.images(name)
        if not 0 <= number < len(images):
            raise HTTPException(404, "There is no image of this number in the release.")
        return png(images.pixels[number])

    def first(self, name: str, most: int) -> list[int]:
        """Numbers of the first few images, found without reading all of them."""
        if (self.place(name) / "images").is_dir():
            return [number for number in range(most) if self._file(name, number)]
        return list(range(min(most, len(self.images(name)[0]))))

    def _file(self, name: str, number: int) -> Path | None:
        if not 0 <= number < 10**9:
            return None
        found = next((self.place(name) / "images").glob(f"*/{number:06d}.png"), None)
        return found if found and not found.is_symlink() and found.is_file() else None

    def members(self, name: str, label: int, first: int, most: int) -> list[int]:
        """Numbers of the images of a class, from the `first` of them on."""
        images, _ = self.images(name)
        return [int(n) for n in np.flatnonzero(images.labels == label)[first : first + most]]

    def nearest(self, name: str, number: int, most: int = 8) -> list[int]:
        """Synthetic images most alike one of them, by the squares of the differences of their pixels."""
        images, _ = self.images(name)
        flat = images.pixels[:MOST_COMPARED].reshape(min(len(images), MOST_COMPARED), -1).astype(np.float32)
        apart = np.square(flat - images.pixels[number].reshape(1, -1).astype(np.float32)).sum(1)
        return [int(n) for n in np.argsort(apart, kind="stable") if n != number][:most]


def _is_release(path: Path) -> bool:
    return (path / "privacy.json").is_file() and (path / "generator").is_dir() and not path.is_symlink()
