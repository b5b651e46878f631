"""Where a SuperLink is, what is shown to it, and how bytes are packed for it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from sfumato.errors import InputError

ROOT = "SFUMATO_FLOWER_ROOT"  # the certificate that signed the one of the SuperLink
KEY = "SFUMATO_FLOWER_KEY"  # the private key by which a site is known to it
SECRET = "SFUMATO_FLOWER_SECRET"  # what lets a coordinator lead
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}  # Flower's calls to its makers
PIECE = 1 << 20  # bytes
BRIEFLY, LONG = 0.02, 0.5  # seconds between two looks: the first, and the longest


@dataclass(frozen=True)
class Link:
    """A SuperLink; files are read when it is made, so that a wrong path is told at once."""

    address: str
    root: bytes | None = None
    key: bytes | None = None
    secret: bytes | None = None

    @property
    def place(self) -> tuple[str, bool, bytes | None]:
        """As Flower wants it: the address, whether it goes without encryption, the certificate."""
        return self.address, self.root is None, self.root


def link_at(address: str) -> Link:
    """With the files that the environment names; without encryption on this machine alone.

    >>> link_at("127.0.0.1:8000").place
    ('127.0.0.1:8000', True, None)
    """
    root, key, secret = (_read(name) for name in (ROOT, KEY, SECRET))
    if root is None and not _loopback(address):
        raise InputError(
            f"Expected {ROOT}, the file of the certificate that signed the one of {address}; only 127.0.0.1 is "
            "reached without encryption."
        )
    return Link(address, root, key, secret)


def _read(name: str) -> bytes | None:
    try:
        return Path(os.environ[name]).read_bytes() if os.environ.get(name) else None
    except OSError as error:
        raise InputError(f"Expected {name}={os.environ[name]} to be a file that can be read.") from error


def _loopback(address: str) -> bool:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"Expected an address such as 127.0.0.1:8000, and not {address}.")
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def need_flower() -> None:
    """Flower asks for older versions of other packages; where it is missing, one sentence says how to get it."""
    os.environ.update(QUIET)  # read when it is imported
    try:
        import flwr  # noqa: F401
    except ImportError as error:
        raise InputError(
            "This needs the package flwr; `make federation-env` makes an environment with it, and `federate simulate` "
            "goes without."
        ) from error


def packed(body: bytes) -> Any:
    """Bytes as one piece where they are few; as an array, which Flower sends in many, where they are not."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    if len(body) <= PIECE:
        return RecordDict({"body": ConfigRecord({"bytes": body})})
    return RecordDict({"body": ArrayRecord({"bytes": Array("uint8", (len(body),), "bytes", body)})})


def unpacked(content: Any) -> bytes:
    """The bytes that were packed; nothing is unpickled."""
    found = content["body"]["bytes"]
    return found if isinstance(found, bytes) else bytes(found.data)


def looks(until: float = math.inf) -> Iterator[None]:
    """Once now, and again after pauses that grow, as long as there is time."""
    pause = BRIEFLY
    yield
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(pause, left))
        yield
        pause = min(1.5 * pause, LONG)
