"""What may be published: the release folder, its privacy statement, card and report, behind one export gate."""

from __future__ import annotations

from sfumato.release.bundle import Release, ensure_free, save_images
from sfumato.release.gate import Gate, Public, check
from sfumato.release.pictures import FORMATS, check_format, read_images, write_images
from sfumato.release.sign import make_key
from sfumato.release.statement import make_statement, restated, to_markdown
from sfumato.release.verify import Verdict, verify

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
