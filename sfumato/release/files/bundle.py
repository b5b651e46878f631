"""A release: what may be published, as one object, and as a folder that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from sfumato.data.images import png
from sfumato.errors import AuditFailed, InputError, pythonic
from sfumato.release.documents.pictures import check_format, distinct, read_images, write_images
from sfumato.release.files.gate import RULES, Gate, Public, Rule
from sfumato.release.files.names import public_command
from sfumato.release.files.reading import (
    GENERATOR_FORMAT,
    read_generator,
    read_snapshots,
    read_statement,
    read_tensors,
    release_folder,
)
from sfumato.release.files.sign import Signature, seal, signed_with, signing_key
from sfumato.release.files.verify import Verdict, verify
from sfumato.types import Images

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.run.preview import Snapshots


class Sampler(Protocol):
    """What a release asks of a generator."""

    def config(self) -> dict[str, Any]: ...
    def state_dict(self) -> dict[str, Tensor]: ...
    def sample(self, n: int, labels: Any = None, *, seed: int) -> Images: ...


def ensure_free(folder: str | Path) -> Path:
    """The folder, if a release can be written there; called before any budget is spent."""
    folder = Path(folder)
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"{folder} is in the way: it is not a folder; choose another --out.")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; choose another --out, or move what is there.")
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"{above} cannot be written to; choose another --out.")
    return folder


@final
class Release:
    """Generator, synthetic images, privacy statement and, if there are any, the sanitised measurement and previews.

    >>> Release.load("release").sample(16, labels="3", seed=1)      # doctest: +SKIP
    """

    def __init__(
        self,
        generator: Sampler,
        images: Images | Callable[[], Images],
        statement: dict[str, Any],
        measurement: dict[str, Public] | None = None,
        snapshots: Snapshots | None = None,
    ) -> None:
        self.generator = generator
        self.statement = statement
        self.measurement = measurement
        self.snapshots = snapshots
        self._images = images

    def __repr__(self) -> str:
        guarantee = self.statement["guarantee"]
        return f"Release({self.statement['reproducibility']['method']}, {guarantee['summary']})"

    @property
    def images(self) -> Images:
        """The synthetic images; those of a loaded release are read when first asked for."""
        if not isinstance(self._images, Images):
            self._images = self._images()
        return self._images

    @property
    def distinct(self) -> int:
        """How many of the images are not repetitions of others."""
        return distinct(self.images)

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names, in the order of the labels."""
        return tuple(self.statement["declared_public"]["classes"])

    @pythonic
    def sample(self, n: int, labels: int | str | Sequence[int | str] | None = None, seed: int = 0) -> Images:
        """New synthetic images at no cost in privacy; `labels` is one class for all, or one for each."""
        if n < 1:
            raise InputError(f"Expected a count of at least 1, found {n}.")
        return self.generator.sample(n, labels=self._label_numbers(n, labels), seed=seed)

    def _label_numbers(self, n: int, labels: Any) -> np.ndarray | None:
        if labels is None:
            return None
        wanted = [labels] * n if isinstance(labels, str | int | np.integer) else list(labels)
        if len(wanted) != n:
            raise InputError(f"Expected {n} labels, one an image, found {len(wanted)}.")
        # A name wins over a number; "3" given as text may mean either.
        known = {str(number): number for number in range(len(self.classes))}
        known |= {name: number for number, name in enumerate(self.classes)}
        unknown = next((label for label in wanted if self._number(label, known) is None), None)
        if unknown is not None:
            raise InputError(f"Unknown label {unknown!r}; this release has {', '.join(self.classes[:20])}.")
        return np.array([self._number(label, known) for label in wanted], np.int64)

    def _number(self, label: Any, known: dict[str, int]) -> int | None:
        if isinstance(label, str):
            return known.get(label)
        return int(label) if 0 <= label < len(self.classes) else None

    @pythonic
    def save(
        self,
        folder: str | Path,
        format: str = "png",
        command: str | None = None,
        key: str | Path | None = None,
        signer: str | None = None,
        verified: bool = False,
        publication: Mapping[str, str] | None = None,
    ) -> Path:
        """Write the release folder; `command` is a public line for the report's "how to reproduce".

        `publication` is what its publisher says: `license`, `title` and `contact`, each or none.

        With `key`, the file of an Ed25519 key, the release is signed; `signer` says in public words by whom. With
        `verified` it takes its place only if it passes `sfumato verify`.
        """
        check_format(format)
        private = signing_key(key, signer)
        with appearing(ensure_free(folder)) as gate:
            self._write(gate, format, command, publication, signed_with(private, signer))
            seal(gate, private, signer)
            if verified:
                must_verify(gate.folder, verify)
        return Path(folder)

    def _write(
        self,
        gate: Gate,
        format: str,
        command: str | None,
        publication: Mapping[str, str] | None,
        signed: Signature | None,
    ) -> None:
        from sfumato.release.documents.documents import documents

        statement = self._public_statement(command) | ({"publication": dict(publication)} if publication else {})
        gate.json("privacy.json", statement)
        gate.json("generator/config.json", {"format": GENERATOR_FORMAT, "generator": self.generator.config()})
        gate.tensors("generator/model.safetensors", self._weights())
        if self.measurement:
            gate.tensors("measurement.safetensors", self.measurement)
        write_images(gate, self.images, format)
        if self.snapshots:
            gate.write("strip.png", png(self.snapshots.picture()))
            gate.json("strip.json", self.snapshots.facts())
        for name, text in documents(statement, self.images, format, self.snapshots, signed).items():
            gate.write(name, text)

    def _public_statement(self, command: str | None) -> dict[str, Any]:
        """The statement as it is published, with all that the documents are made from."""
        statement = self.statement | {"measurement": measurement_words(self.measurement)}
        if command:
            statement["reproducibility"] = self.statement["reproducibility"] | {"command": public_command(command)}
        return statement

    def _weights(self) -> dict[str, Public]:
        """The generator's tensors, certified: `learn` saw the barrier alone, so they follow from its releases."""
        crossings = [event["name"] for event in self.statement["mechanisms"]["events"]]
        return {key: Public.after(tensor, *crossings) for key, tensor in self.generator.state_dict().items()}

    @classmethod
    @pythonic
    def load(cls, folder: str | Path, device: str = "cpu") -> Release:
        """Read a release folder back, in any process and onto any device."""
        folder = release_folder(folder)
        statement = read_statement(folder)
        generator = read_generator(folder, device)
        path = folder / "measurement.safetensors"
        if statement.get("measurement") and not path.is_file():
            raise InputError(f"{path} is missing although privacy.json names it; fetch the release again.")
        measurement = read_tensors(path) if path.is_file() else None
        return cls(generator, lambda: read_images(folder), statement, measurement, read_snapshots(folder))


def measurement_words(measurement: dict[str, Public] | None) -> dict[str, Any] | None:
    """What the statement tells of the sanitised measurement."""
    if not measurement:
        return None
    tensors = {key: {"shape": list(np.shape(tensor.value)), "why": tensor.why} for key, tensor in measurement.items()}
    return {"file": "measurement.safetensors", "tensors": dict(sorted(tensors.items()))}


def save_images(images: Images, folder: str | Path, format: str = "png") -> Path:
    """Synthetic images alone, as an image folder or a parquet file, through the same gate."""
    check_format(format)
    with appearing(ensure_free(folder)) as gate:
        write_images(gate, images, format)
    return Path(folder)


def must_verify(folder: Path, verify: Callable[[Path], Verdict]) -> None:
    """Refuse what would not pass `sfumato verify`, before it takes its place."""
    failed = [(check, detail) for check, ok, detail in verify(folder).rows if not ok]
    if failed:
        check, detail = failed[0]
        raise AuditFailed(f"The release is not written, since it would not verify ({check}): {detail}")


@contextmanager
def appearing(folder: Path, rules: tuple[Rule, ...] = RULES) -> Iterator[Gate]:
    """A gate into a hidden sibling folder, which takes its name when all is written, or vanishes."""
    folder = folder.absolute()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    except OSError as error:
        raise InputError(f"{folder.parent} cannot be written to; choose another --out.") from error
    try:
        yield Gate(part, rules)
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o777 & ~mask)
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
    except OSError as error:
        raise InputError(f"{folder} could not be written ({error.strerror}); free the place and save again.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
