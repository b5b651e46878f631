"""The checks of a release: each returns what is well, or raises an InputError that says what is not."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError
from sfumato.release.files import gate
from sfumato.release.files.command import FindClass, command_problems, find_method
from sfumato.release.files.hashes import HASHES, SIGNATURE, differences, read_hashes, root_hash
from sfumato.release.files.outside import walk
from sfumato.release.files.sign import Signature
from sfumato.types import Images

if TYPE_CHECKING:
    from sfumato.run.preview import Snapshots

MOST_TOLD = 3
EDITED = "README.md was changed."
BY_A_HUB = (
    "Where a hub edited its front matter, put the sealed file back: licence and title are set when a release is made."
)


class Folder:
    """A release folder, read when asked; a file that cannot be read is an InputError that names it."""

    def __init__(self, folder: Path, find: FindClass = find_method) -> None:
        self.folder = folder
        self.find = find

    def data(self, name: str) -> bytes:
        path = self.folder / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise InputError(f"{name} is missing or cannot be read.") from error

    @cached_property
    def statement(self) -> dict[str, Any]:
        from sfumato.release.files.reading import read_statement

        return read_statement(self.folder)

    @cached_property
    def images(self) -> Images:
        from sfumato.release.documents.pictures import read_images

        return read_images(self.folder)

    @cached_property
    def snapshots(self) -> Snapshots | None:
        from sfumato.release.files.reading import read_snapshots

        return read_snapshots(self.folder)

    @property
    def format(self) -> str:
        return "parquet" if (self.folder / "data.parquet").is_file() else "png"


def not_plain(folder: Path) -> str | None:
    """The name of something in a folder that is neither a plain file nor a folder."""
    for path in walk(folder):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            return path.relative_to(folder).as_posix()
    return None


def demand(problems: list[str]) -> None:
    """Raise what is wrong, the first few of many."""
    if problems:
        more = f" And {len(problems) - MOST_TOLD} more." if len(problems) > MOST_TOLD else ""
        raise InputError(" ".join(problems[:MOST_TOLD]) + more)


def contents(release: Folder) -> str:
    demand([*gate.check(release.folder), *gate.missing(release.folder)])
    return "Nothing is missing, and nothing is there that a release may not contain."


def hashes(release: Folder) -> str:
    stated = read_hashes(release.data(HASHES))["files"]
    found = differences(release.folder, stated)
    if EDITED in found:
        found[found.index(EDITED)] += f" {BY_A_HUB}"
    demand(found)
    return f"All {len(stated):,} files are as {HASHES} says."


def signature(release: Folder, wanted: str | None, signed: list[str]) -> str:
    from sfumato.release.files.sign import check_signature

    data = release.data(HASHES)
    promised = read_hashes(data)["signed_by"]
    if not (release.folder / SIGNATURE).exists() and promised is None:
        if wanted is not None:
            raise InputError("This release is not signed, and a signature by the given key was asked for.")
        return "Not signed: whoever can change a file can also change its hash."
    signed_by = check_signature(release.data(SIGNATURE), root_hash(data))
    if signed_by.public_key != promised:
        raise InputError(f"{SIGNATURE} is by another key than {HASHES} names.")
    if wanted not in (None, signed_by.public_key):
        raise InputError(f"The signature is by the key {signed_by.public_key}, not by the one that was asked for.")
    signed.append(signed_by.public_key)
    who = f", who goes by {signed_by.signer!r}" if signed_by.signer else ""
    return f"Signed by the key {signed_by.public_key}{who}." + (
        "" if wanted else " Whose key it is, only --key can tell."
    )


def _stated_signer(release: Folder) -> Signature | None:
    """Who signed, as the folder says; whether that is true is a check of its own."""
    key = read_hashes(release.data(HASHES))["signed_by"]
    if key is None:
        return None
    signer = json.loads(release.data(SIGNATURE)).get("signer")
    return Signature(key, signer if isinstance(signer, str) else None)


def guarantee(release: Folder) -> str:
    from sfumato.release.statement.numbers import epsilon, show
    from sfumato.release.statement.rederive import number_problems

    statement = release.statement
    demand(by_version(statement, number_problems(statement)))
    given = statement["guarantee"]
    events = len(statement["mechanisms"]["events"])
    many = f"The {events} events give" if events != 1 else "The one event gives"
    return f"{many} epsilon = {epsilon(given['epsilon'])} at delta = {show(given['delta'])} again, and the whole curve."


def words(release: Folder) -> str:
    from sfumato.release.statement.rederive import word_problems

    statement = release.statement
    if gate.json_text(statement).encode() != release.data("privacy.json"):
        raise InputError("privacy.json is not in the form in which it was written.")
    demand(by_version(statement, word_problems(statement, release.find)))
    return "The twelve points are what the events, the configuration and the facts it states give."


def command(release: Folder) -> str:
    if "command" not in release.statement["reproducibility"]:
        return "No command is printed."
    demand(by_version(release.statement, command_problems(release.statement, release.find)))
    return "The command that is printed asks for what is stated: the unit, the relation, the budget and the settings."


def documents(release: Folder) -> str:
    from sfumato.release.documents.documents import changed, documents

    expected = documents(release.statement, release.images, release.format, release.snapshots, _stated_signer(release))
    written = {name: release.data(name) for name in expected}
    wrong = [f"{name} is not what the statement and the images give." for name in changed(written, expected)]
    demand(by_version(release.statement, wrong))
    return f"{', '.join(expected)} are what the statement and the images give."


def by_version(statement: dict[str, Any], problems: list[str]) -> list[str]:
    """The problems; another version of the software may be why, and is then named first."""
    from sfumato import __version__

    written = statement["reproducibility"]["software"]
    if not problems or written == f"sfumato {__version__}":
        return problems
    return [f"It was written by {written} and this is {__version__}: check it with that version.", *problems]


def generator(release: Folder) -> str:
    from sfumato.release.files.bundle import measurement_words
    from sfumato.release.files.reading import read_generator, read_tensors

    statement = release.statement
    public = release.statement["declared_public"]
    written = release.data("generator/config.json")
    if gate.json_text(json.loads(written)).encode() != written:
        raise InputError("generator/config.json is not in the form in which it was written.")
    config = read_generator(release.folder, "cpu").config()
    for key in ("classes", "shape"):
        if list(config[key]) != list(public[key]):
            raise InputError(f"The generator's {key} are not those of the statement.")
    path = release.folder / "measurement.safetensors"
    measurement = read_tensors(path) if path.exists() else None
    if measurement_words(measurement) != statement["measurement"]:
        raise InputError("The sanitised measurement is not what the statement tells of it.")
    weights = read_tensors(release.folder / "generator" / "model.safetensors")
    demand(certificates(statement, {**weights, **(measurement or {})}))
    return f"It loads, and makes images of {public['image_size']} in {len(public['classes'])} classes."


def certificates(statement: dict[str, Any], tensors: dict[str, gate.Public]) -> list[str]:
    """Tensors that say they come from a release that the statement does not list."""
    crossings = [event["name"] for event in statement["mechanisms"]["events"]]
    known = {gate.Public.after(0).why, gate.Public.after(0, *crossings).why}
    known |= {gate.Public.after(0, name).why for name in crossings}
    return [
        f"The tensor {key!r} comes from a release that is not an event of the statement."
        for key, tensor in tensors.items()
        if tensor.why not in known
    ]


def pictures(release: Folder) -> str:
    images = release.images
    public = release.statement["declared_public"]
    if list(images.classes) != list(public["classes"]):
        raise InputError("The classes of the images are not those of the statement.")
    if list(images.pixels.shape[1:]) != list(public["shape"]):
        raise InputError("The images are not of the shape that the statement gives.")
    if release.format == "png":
        numbers = sorted(int(path.stem) for path in (release.folder / "images").glob("*/*.png"))
        if numbers != list(range(len(images))):
            raise InputError("The images are not numbered from 0 without a gap.")
    demand(_previews(release))
    return f"{len(images):,} images of the shape and in the classes of the statement."


def _previews(release: Folder) -> list[str]:
    """What is wrong with the previews, where there are any."""
    snapshots = release.snapshots
    shape = release.images.pixels.shape
    if snapshots is None:
        return []
    if gate.json_text(snapshots.facts()).encode() != release.data("strip.json"):
        return ["strip.json is not in the form in which it was written."]
    _, channels, height, width = snapshots.pixels.shape
    if channels != shape[1] or height % shape[2] or width % shape[3]:
        return ["strip.png is not made of images of the shape that the statement gives."]
    problem = snapshots.problem(release.statement["guarantee"]["epsilon"])
    return [problem] if problem else []
