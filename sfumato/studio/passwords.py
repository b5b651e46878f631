"""A password, kept as a hash that is slow to try."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import InputError

LEAST = 12  # letters


@dataclass(frozen=True)
class Password:
    """A salted scrypt hash."""

    salt: bytes
    hashed: bytes

    @classmethod
    def of(cls, text: str) -> Password:
        """The hash of a password."""
        salt = secrets.token_bytes(16)
        return cls(salt, _scrypt(text, salt))

    def fits(self, text: str) -> bool:
        """Whether this is the password; takes as long for a wrong one.

        >>> Password.of("correct horse").fits("correct horse"), Password.of("a").fits("b")
        (True, False)
        """
        return hmac.compare_digest(self.hashed, _scrypt(text, self.salt))


def _scrypt(text: str, salt: bytes) -> bytes:
    return hashlib.scrypt(text.encode("utf-8", "surrogatepass"), salt=salt, n=2**14, r=8, p=1)


def read_password(file: str) -> Password:
    """The password in the first line of a file that only its owner can read."""
    path = Path(file)
    try:
        mode = path.stat().st_mode
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read; name a file with a password in --password-file.") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(f"{path} can be read by others; run chmod 600 on it.")
    if not lines or len(lines[0]) < LEAST:
        raise InputError(f"The first line of {path} is no password; write one of at least {LEAST} letters.")
    return Password.of(lines[0])
