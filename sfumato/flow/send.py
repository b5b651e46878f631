"""Publishing a release: checked first, then sent whole, and nothing but what was sealed and its licence.

hf:NAME         a dataset (or, for a classifier, a model) on the Hugging Face hub, by its own library and login
folder:PATH     a copy
zip:PATH        one file; the same release gives the same bytes
"""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import AuditFailed, InputError, SfumatoError, extra
from sfumato.release.files.hashes import HASHES, SIGNATURE, differences, read_hashes
from sfumato.release.files.outside import LICENCES, outside
from sfumato.release.files.reading import read_statement, release_folder

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
MOST_IN_A_FOLDER = 10_000  # of files, on the hub
EARLY = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip file can name: when it was packed is nobody's business


@dataclass(frozen=True)
class Parcel:
    """What is sent: a folder, and the names of its files that go."""

    folder: Path
    names: tuple[str, ...]
    classifier: bool = False
    private: bool = False  # on a hub: seen by its owner alone, until that is changed there


def publish(
    folder: str | Path, to: str, *, dry_run: bool = False, public_key: str | Path | None = None, private: bool = False
) -> dict[str, Any]:
    """Send a release that verifies to `to`; with `dry_run` say what would be sent, and send nothing.

    With `public_key` the release must be signed by that key. What lies in the folder outside the seal stays behind,
    but for the licence.
    """
    kind, place = destination(to, private)
    place = SENDERS[kind].check(place)
    folder = release_folder(folder)
    from sfumato.classify.release import holds_classifier
    from sfumato.classify.verify import verify

    verdict = verify(folder, public_key=public_key)
    if not verdict.ok:
        wrong = ", ".join(check for check, ok, _ in verdict.rows if not ok)
        raise AuditFailed(f"{folder} is not published, since it does not verify ({wrong}); see `sfumato verify`.")
    parcel = Parcel(folder, sealed(folder), holds_classifier(folder), private)
    facts = _facts(parcel, kind) | {"to": f"{kind}:{place}", "signed_by": verdict.signed_by, "root": verdict.root}
    if not dry_run:
        facts["address"] = SENDERS[kind].send(parcel, place)
    return facts | {"sent": not dry_run}


def destination(to: str, private: bool = False) -> tuple[str, str]:
    """Kind and place of where a release goes."""
    kind, colon, place = to.partition(":")
    if not colon or kind not in SENDERS or not place:
        raise InputError(f"Expected --to as hf:NAME, folder:PATH or zip:PATH, found '{to}'.")
    if private and kind != "hf":
        raise InputError(f"--private is for a hub; leave it out with --to {kind}:PATH.")
    return kind, place


def sealed(folder: Path) -> tuple[str, ...]:
    """The files of a release that has been verified: those that are hashed, the hashes, a signature, a licence."""
    stated = read_hashes((folder / HASHES).read_bytes())["files"]
    beside = [name for name in (HASHES, SIGNATURE, *LICENCES) if (folder / name).is_file()]
    return (*sorted(stated), *beside)


def _facts(parcel: Parcel, kind: str) -> dict[str, Any]:
    sizes = {name: (parcel.folder / name).stat().st_size for name in parcel.names}
    count = Counter(name.partition("/")[0] for name in sizes)
    parts = [
        {
            "name": top,
            "files": count[top],
            "bytes": sum(size for n, size in sizes.items() if n.partition("/")[0] == top),
        }
        for top in count
    ]
    return {
        "files": len(sizes),
        "bytes": sum(sizes.values()),
        "parts": parts,
        "left_behind": [name for name in outside(parcel.folder) if name not in LICENCES],
        "warnings": _warnings(parcel, kind),
    }


def _warnings(parcel: Parcel, kind: str) -> list[str]:
    """What a publisher may still want to do; none of it is an error."""
    said = read_statement(parcel.folder).get("publication", {})
    warnings = []
    if SIGNATURE not in parcel.names:
        warnings.append("it is not signed: whoever can change a file can also change its hash (synthesize --sign FILE)")
    if "license" not in said and not set(LICENCES) & set(parcel.names):
        warnings.append("it has no licence: nobody may use it (synthesize --license NAME, or a file LICENSE)")
    crowd = Counter(name.rpartition("/")[0] for name in parcel.names).most_common(1)[0][1]
    if kind == "hf" and crowd > MOST_IN_A_FOLDER:
        warnings.append(
            f"a folder has {crowd:,} files, and hubs take {MOST_IN_A_FOLDER:,} (synthesize --format parquet)"
        )
    return warnings


def _new(place: str) -> str:
    """A path that nothing is in the way of."""
    path = Path(place).expanduser().absolute()
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists; choose another place in --to.")
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent}; make it, or choose another place in --to.")
    return str(path)


def _hub_name(place: str) -> str:
    if not HUB_NAME.fullmatch(place):
        raise InputError(f"Expected --to hf:NAME with a name such as hospital/chest-synthetic, found '{place}'.")
    extra("huggingface_hub", "hf")
    return place


def _to_folder(parcel: Parcel, place: str) -> str:
    path = Path(place)
    part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        for name in parcel.names:
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(parcel.folder / name, part / name)
        _same(part)
        part.chmod(0o755)
        part.rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return str(path)


def _same(copy: Path) -> None:
    """Refuse a copy that is not what was sealed: a disk may fail, a file may change between check and copy."""
    if found := differences(copy, read_hashes((copy / HASHES).read_bytes())["files"]):
        raise SfumatoError(f"The copy is not what was checked ({found[0]}); nothing was published, try again.")


def _to_zip(parcel: Parcel, place: str) -> str:
    path = Path(place)
    part = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as packed:
            for name in parcel.names:
                entry = zipfile.ZipInfo(f"{path.stem}/{name}", EARLY)
                entry.external_attr = 0o644 << 16
                packed.writestr(entry, (parcel.folder / name).read_bytes(), zipfile.ZIP_DEFLATED)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    return str(path)


def _to_hub(parcel: Parcel, place: str) -> str:
    """By the hub's own library, with whoever is logged in there; this software knows no password."""
    hub = extra("huggingface_hub", "hf")
    kind = "model" if parcel.classifier else "dataset"
    tops = dict.fromkeys(name.partition("/")[0] + ("/*" if "/" in name else "") for name in parcel.names)
    try:
        api = hub.HfApi()
        api.create_repo(repo_id=place, repo_type=kind, private=parcel.private, exist_ok=True)
        sent = api.upload_folder(
            repo_id=place,
            repo_type=kind,
            folder_path=str(parcel.folder),
            allow_patterns=list(tops),
            commit_message="A release of synthetic images" if kind == "dataset" else "A private classifier",
        )
    except Exception as error:  # the network's, the hub's and its library's ways to fail are many
        reason = " ".join(str(error).split())[:200]
        raise SfumatoError(
            f"The hub took nothing, or not all ({type(error).__name__}: {reason}); try again."
        ) from error
    return str(getattr(sent, "commit_url", None) or sent)


@dataclass(frozen=True)
class Sender:
    """A way to publish: what is checked before anything is read, and what is done."""

    check: Callable[[str], str]
    send: Callable[[Parcel, str], str]


SENDERS = {"hf": Sender(_hub_name, _to_hub), "folder": Sender(_new, _to_folder), "zip": Sender(_new, _to_zip)}
