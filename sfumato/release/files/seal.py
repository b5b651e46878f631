"""The end of writing a release: its hashes, and a signature over them where there is a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.errors import InputError
from sfumato.release.files.gate import Gate
from sfumato.release.files.hashes import HASHES, SIGNATURE, make_hashes, root_hash
from sfumato.release.files.sign import check_signer, public_hex, read_key, sign


def signing_key(key: str | Path | None, signer: str | None) -> Any:
    """The private key, read before anything is written."""
    if key is None:
        if signer is not None:
            raise InputError("A signer goes with a key; give --sign KEYFILE, or leave out --signer.")
        return None
    check_signer(signer)
    return read_key(key)


def seal(gate: Gate, key: Any, signer: str | None) -> None:
    """The last files of a release: the hashes of all others, and a signature over them."""
    data = make_hashes(gate.folder, public_hex(key) if key else None)
    gate.write(HASHES, data)
    if key:
        gate.write(SIGNATURE, sign(key, root_hash(data), signer))
