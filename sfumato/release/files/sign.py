"""signature.json: an Ed25519 signature over the root hash of a release, the keys for it, and the end of writing one."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import InputError
from sfumato.release.files.gate import Gate
from sfumato.release.files.hashes import HASHES, SIGNATURE, canonical, make_hashes, read_canonical, root_hash

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SIGNATURE_FORMAT = "sfumato-signature/1"
LONGEST_SIGNER = 200


@dataclass(frozen=True)
class Signature:
    """Who signed: a public key, and the words by which its holder goes."""

    public_key: str
    signer: str | None


def make_key(path: str | Path) -> str:
    """Write a new private key, readable by its owner alone, and return the public key in hex."""
    _need_cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
    except FileExistsError as error:
        raise InputError(f"{path} exists; a key is never overwritten, choose another name.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); choose another place for the key.") from error
    return public_hex(key)


def read_key(path: str | Path) -> Ed25519PrivateKey:
    """The private key in a PEM file."""
    _need_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = _read(path)
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError as error:
        raise InputError(f"{path} is locked by a password; make one with sfumato keygen.") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path} is not a private key in PEM form; make one with sfumato keygen.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} is not an Ed25519 key; make one with sfumato keygen.")
    return key


def public_hex(key: Ed25519PrivateKey) -> str:
    """The public half of a key, 64 hex digits."""
    return key.public_key().public_bytes_raw().hex()


def read_public_key(key: str | Path) -> str:
    """A public key given as 64 hex digits or as a PEM file, in hex."""
    if re.fullmatch(r"[0-9a-fA-F]{64}", str(key)):
        return str(key).lower()
    _need_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data = _read(key)
    if b"PRIVATE KEY" in data:
        raise InputError(f"{key} is a private key; give the public one, as sfumato keygen printed it.")
    try:
        public = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{key} is neither 64 hex digits nor a public key in PEM form.") from error
    if not isinstance(public, Ed25519PublicKey):
        raise InputError(f"{key} is not an Ed25519 key; ask the signer for the right one.")
    return public.public_bytes_raw().hex()


def check_signer(signer: str | None) -> str | None:
    """The signer's words, if they are one short line."""
    if signer is not None and not (signer.isprintable() and 0 < len(signer.strip()) <= LONGEST_SIGNER):
        raise InputError(f"Expected --signer as one line of up to {LONGEST_SIGNER} characters, found {signer!r}.")
    return signer


def sign(key: Ed25519PrivateKey, root: str, signer: str | None = None) -> bytes:
    """signature.json for a root hash."""
    signature = key.sign(_message(root, signer)).hex()
    return canonical(
        {
            "format": SIGNATURE_FORMAT,
            "public_key": public_hex(key),
            "signature": signature,
            "signer": check_signer(signer),
        }
    )


def check_signature(data: bytes, root: str) -> Signature:
    """Who signed this root hash, or an error: any other byte in the file is refused too."""
    _need_cryptography()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    value = read_canonical(SIGNATURE, data, {"format", "public_key", "signature", "signer"})
    key = value["public_key"]
    signature = value["signature"]
    signer = value["signer"]
    # Lower case alone: hex digits have two spellings, and a byte that may change is a byte that was not checked.
    well_formed = re.fullmatch(r"[0-9a-f]{64}", str(key)) and re.fullmatch(r"[0-9a-f]{128}", str(signature))
    if value["format"] != SIGNATURE_FORMAT or not well_formed or not isinstance(signer, str | None):
        raise InputError(f"{SIGNATURE} is not of format {SIGNATURE_FORMAT}; fetch the release again.")
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), _message(root, signer))
    except InvalidSignature as error:
        raise InputError(f"{SIGNATURE} does not fit this release: the files or the signature were changed.") from error
    return Signature(key, signer)


def signing_key(key: str | Path | None, signer: str | None) -> Ed25519PrivateKey | None:
    """The private key, read before anything is written."""
    if key is None:
        if signer is not None:
            raise InputError("A signer goes with a key; give --sign KEYFILE, or leave out --signer.")
        return None
    check_signer(signer)
    return read_key(key)


def signed_with(key: Ed25519PrivateKey | None, signer: str | None) -> Signature | None:
    """Who is about to sign."""
    return None if key is None else Signature(public_hex(key), signer)


def seal(gate: Gate, key: Ed25519PrivateKey | None, signer: str | None) -> None:
    """The last files of a release: the hashes of all others, and a signature over them."""
    data = make_hashes(gate.folder, public_hex(key) if key else None)
    gate.write(HASHES, data)
    if key:
        gate.write(SIGNATURE, sign(key, root_hash(data), signer))


def _message(root: str, signer: str | None) -> bytes:
    """What is signed. The first line keeps a signature made here from meaning anything elsewhere."""
    return canonical({"purpose": f"release of synthetic images, {SIGNATURE_FORMAT}", "root": root, "signer": signer})


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read; name the file of a key.") from error


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise InputError("Signatures need the package cryptography; install it with pip.") from error
