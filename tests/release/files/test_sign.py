from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.errors import InputError
from sfumato.release.files.hashes import canonical
from sfumato.release.files.sign import check_signature, make_key, public_hex, read_key, read_public_key, sign
from tests.release.files.test_fakes import fake_release

ROOT = "0" * 64


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "key.pem")
    return tmp_path / "key.pem"


def _public_pem(key: Path) -> bytes:
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    return read_key(key).public_key().public_bytes(serialization.Encoding.PEM, kind)


def test_a_key_is_made_once_and_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    public = make_key(path)
    assert path.stat().st_mode & 0o777 == 0o600 and public == public_hex(read_key(path)) and len(public) == 64
    before = path.read_bytes()
    with pytest.raises(InputError, match="never overwritten"):
        make_key(path)
    assert path.read_bytes() == before
    with pytest.raises(InputError, match="cannot be written"):
        make_key(tmp_path / "nowhere" / "key.pem")


def test_a_public_key_as_hex_or_file(key: Path, tmp_path: Path) -> None:
    public = public_hex(read_key(key))
    (tmp_path / "public.pem").write_bytes(_public_pem(key))
    assert read_public_key(public.upper()) == read_public_key(tmp_path / "public.pem") == public


def test_wrong_keys_are_one_sentence(key: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="private key; give the public one"):
        read_public_key(key)
    with pytest.raises(InputError, match="cannot be read"):
        read_public_key("abc")
    (tmp_path / "words").write_text("hello")
    for read in (read_public_key, read_key):
        with pytest.raises(InputError, match="PEM form"):
            read(tmp_path / "words")
    other = ec.generate_private_key(ec.SECP256R1())
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "other").write_bytes(other.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
    with pytest.raises(InputError, match="not an Ed25519 key"):
        read_key(tmp_path / "other")
    locked = serialization.BestAvailableEncryption(b"secret")
    pem = Ed25519PrivateKey.generate().private_bytes(serialization.Encoding.PEM, pkcs8, locked)
    (tmp_path / "locked").write_bytes(pem)
    with pytest.raises(InputError, match="password"):
        read_key(tmp_path / "locked")


def test_a_signature_names_its_key_and_signer(key: Path) -> None:
    private = read_key(key)
    found = check_signature(sign(private, ROOT, "Ann of the archive"), ROOT)
    assert (found.public_key, found.signer) == (public_hex(private), "Ann of the archive")
    assert check_signature(sign(private, ROOT), ROOT).signer is None


def test_a_signature_fits_one_root_and_one_signer(key: Path) -> None:
    made = sign(read_key(key), ROOT, "Ann")
    with pytest.raises(InputError, match="does not fit"):
        check_signature(made, "1" * 64)
    with pytest.raises(InputError, match="does not fit"):
        check_signature(made.replace(b"Ann", b"Bob"), ROOT)
    other = canonical(json.loads(made) | {"public_key": public_hex(Ed25519PrivateKey.generate())})
    with pytest.raises(InputError, match="does not fit"):
        check_signature(other, ROOT)


def test_what_is_signed_is_said(key: Path) -> None:
    """A signature over the bare root hash, as made for another purpose, is not one of a release."""
    private = read_key(key)
    bare = json.loads(sign(private, ROOT)) | {"signature": private.sign(ROOT.encode()).hex()}
    with pytest.raises(InputError, match="does not fit"):
        check_signature(canonical(bare), ROOT)


def test_no_byte_of_the_file_is_free(key: Path) -> None:
    made = sign(read_key(key), ROOT, "Ann")
    upper = canonical(json.loads(made) | {"signature": json.loads(made)["signature"].upper()})
    for spoilt in (upper, made + b"\n", made[:-1], made.replace(b":", b": ", 1), b"{}", b""):
        with pytest.raises(InputError, match=r"signature\.json"):
            check_signature(spoilt, ROOT)


@pytest.mark.parametrize("signer", ["", "  ", "two\nlines", "x" * 201, "\x1b[31mred"])
def test_a_signer_is_one_short_line(key: Path, tmp_path: Path, signer: str) -> None:
    with pytest.raises(InputError, match="`signer` as one line"):
        fake_release().save(tmp_path / "release", key=key, signer=signer)
    assert not (tmp_path / "release").exists()


def test_a_signer_needs_a_key(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="goes with a key"):
        fake_release().save(tmp_path / "release", signer="Ann")
    with pytest.raises(InputError, match="cannot be read"):
        fake_release().save(tmp_path / "release", key=tmp_path / "no key")
    assert not (tmp_path / "release").exists()
