"""Reading a release folder back: every file is suspect, every fault is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.release.files.gate import POINTS, Public, certified
from sfumato.run.preview import FACTS, FORMAT, PICTURE, Snapshots

GENERATOR_FORMAT = "sfumato-generator/1"
MARK = "NOT-PRIVATE.json"  # of a folder that is no release and cannot become one


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} is missing or cannot be read; point at a whole release folder.") from error


def _read_json(path: Path) -> dict[str, Any]:
    data = _read(path)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON; fetch the release again.") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a JSON object; fetch the release again.")
    return value


def release_folder(folder: str | Path) -> Path:
    """The folder, if it is one; asked before what is slow to import."""
    if not Path(folder).is_dir():
        raise InputError(f"{folder} is not a folder; point at a release folder.")
    return Path(folder)


def refuse_marked(folder: str | Path) -> None:
    """Refuse what `sfumato synthesize --unsound` wrote, or anything put beside it."""
    if (Path(folder) / MARK).exists():
        raise InputError(
            f"{folder} is not private: the paper's accounting does not hold, as {MARK} in it says; it is "
            "no release and cannot become one."
        )


def read_statement(folder: str | Path) -> dict[str, Any]:
    """The privacy statement of a release folder, with all of its twelve points."""
    refuse_marked(folder)
    path = Path(folder) / "privacy.json"
    statement = _read_json(path)
    missing = [point for point in POINTS if not isinstance(statement.get(point), dict)]
    if missing:
        raise InputError(f"{path} lacks the point {missing[0]!r}; it is not a statement of a release.")
    return statement


def read_tensors(path: Path) -> dict[str, Public]:
    """The tensors of a safetensors file, each with the certificate from its header."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"{path} is missing; point at a whole release folder.")
    try:
        with safe_open(path, "pt") as file:
            why = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path} is corrupt; fetch the release again.") from error
    bare = [key for key in tensors if not certified(why.get(key))]
    if bare:
        raise InputError(f"{path} has {bare[0]} without a certificate that it is public; fetch the release again.")
    return {key: Public(tensor, why[key]) for key, tensor in tensors.items()}


def read_generator(folder: Path, device: str) -> Any:
    """The generator of a release folder, rebuilt on a device."""
    from sfumato.networks import load_generator

    path = folder / "generator" / "config.json"
    config = _read_json(path)
    if config.get("format") != GENERATOR_FORMAT or not isinstance(config.get("generator"), dict):
        raise InputError(f"{path} is not of format {GENERATOR_FORMAT}; use the version of sfumato that wrote it.")
    tensors = {key: public.value for key, public in read_tensors(folder / "generator" / "model.safetensors").items()}
    try:
        return load_generator(config["generator"], tensors, device)
    except InputError:
        raise
    except (AssertionError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{folder / 'generator'} does not make a generator on {device}: {error}") from error


def read_snapshots(folder: Path) -> Snapshots | None:
    """The snapshots of a release folder, where it has them."""
    from sfumato.release.documents.pictures import decode_one

    if not (folder / PICTURE).exists() and not (folder / FACTS).exists():
        return None
    try:
        facts = json.loads((folder / FACTS).read_bytes())
        steps, epsilons = zip(*((int(row["step"]), row["epsilon"]) for row in facts["moments"]), strict=True)
        picture = decode_one(PICTURE, (folder / PICTURE).read_bytes())
        pixels = np.stack(np.split(picture, len(steps), axis=1))
        snapshots = Snapshots(
            pixels, steps, tuple(None if e is None else float(e) for e in epsilons), int(facts["total"])
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{folder / PICTURE} and {FACTS} do not go together; fetch the release again.") from error
    if snapshots.facts() != facts:
        raise InputError(f"{folder / FACTS} is not of format {FORMAT}; use the version of sfumato that wrote it.")
    return snapshots
