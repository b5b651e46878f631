"""What may be published: the release folder, its privacy statement, card and report, behind one export gate."""

from __future__ import annotations

from sfumato.release.documents.pictures import FORMATS, check_format, read_images, write_images
from sfumato.release.files.bundle import Release, ensure_free, save_images
from sfumato.release.files.gate import Gate, Public, check
from sfumato.release.files.sign import make_key
from sfumato.release.files.verify import Verdict, verify
from sfumato.release.statement.statement import make_statement, restated, to_markdown

__all__ = [
    "FORMATS",
    "Gate",
    "Public",
    "Release",
    "Verdict",
    "check",
    "check_format",
    "ensure_free",
    "make_key",
    "make_statement",
    "read_images",
    "restated",
    "save_images",
    "to_markdown",
    "verify",
    "write_images",
]
