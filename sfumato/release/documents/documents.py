"""The documents of a release: all of their bytes follow from the statement, the images and the previews."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sfumato.release.files.content import png_problem
from sfumato.types import Images

if TYPE_CHECKING:
    from sfumato.release.files.sign import Signature
    from sfumato.run.preview import Snapshots

_PICTURE = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]*)")


def documents(
    statement: dict[str, Any],
    images: Images,
    format: str,
    snapshots: Snapshots | None = None,
    signed: Signature | None = None,
) -> dict[str, str]:
    """Names and texts of PRIVACY.md, README.md, report.html and deployment.yaml; `signed` says by which key it is."""
    from sfumato.release.documents.card import make_card
    from sfumato.release.documents.registry import make_record
    from sfumato.release.documents.report import make_report
    from sfumato.release.statement.statement import to_markdown

    return {
        "PRIVACY.md": to_markdown(statement),
        "README.md": make_card(statement, images, format),
        "report.html": make_report(statement, images, snapshots, signed=signed),
        "deployment.yaml": make_record(statement, len(images)),
    }


def changed(found: Mapping[str, bytes], expected: Mapping[str, str]) -> list[str]:
    """The documents that are not what the statement and the images say."""
    return [name for name, text in expected.items() if not _same(found[name], text)]


def _same(data: bytes, text: str) -> bool:
    if data == text.encode():
        return True
    # Another version of the PNG library may pack the same pixels into other bytes.
    try:
        return _by_pixels(data.decode()) == _by_pixels(text)
    except UnicodeDecodeError:
        return False


def _by_pixels(page: str) -> str:
    """A page in which each picture is replaced by a hash of its pixels."""
    return _PICTURE.sub(lambda match: _pixel_hash(match.group(1)), page)


def _pixel_hash(packed: str) -> str:
    from sfumato.errors import InputError
    from sfumato.release.documents.pictures import decode_one

    try:
        data = base64.b64decode(packed, validate=True)
        if base64.b64encode(data).decode() != packed or png_problem(data):
            return packed
        pixels = decode_one("a picture", data)
    except (binascii.Error, InputError):
        return packed
    return hashlib.sha256(f"{pixels.shape}".encode() + pixels.tobytes()).hexdigest()
