"""How a studio is set up: where it listens, what it may read, where it keeps its state."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.errors import InputError
from sfumato.ledger.manifest import runs_folder
from sfumato.studio.passwords import Password, read_password

PORT = 8765
APPROVALS = {"one": 1, "two": 2}
DEMO_SETS = ("digits", "fashion-mnist")  # small ones that come with the package


@dataclass(frozen=True)
class Settings:
    """All that a studio is told when it starts."""

    folder: Path  # of releases
    state: Path  # queue, plans and declared data; mode 0700
    roots: tuple[Path, ...] = ()  # folders that data may lie in
    ledger: str | None = None
    host: str = "127.0.0.1"
    port: int = PORT
    socket: Path | None = None
    password: Password | None = field(default=None, repr=False)
    approvals: int = 1
    device: str = "auto"
    demo: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Hosts that a browser may have typed; behind a socket or on loopback all of this machine's."""
        local = {"localhost", "127.0.0.1", "[::1]"}
        return frozenset(local if self.socket or is_loopback(self.host) else {self.host.lower()})


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches a host.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def set_up(
    folder: str | None = None,
    roots: tuple[str, ...] = (),
    *,
    ledger: str | None = None,
    host: str = "127.0.0.1",
    port: int = PORT,
    socket: str | None = None,
    password_file: str | None = None,
    approval: str = "one",
    device: str = "auto",
    demo: bool = False,
) -> Settings:
    """Settings from plain values; what is unsafe or leads nowhere is refused in one sentence."""
    if approval not in APPROVALS:
        raise InputError(f"Expected --approval as one or two, found '{approval}'.")
    if not 0 <= port <= 65535:
        raise InputError(f"Expected --port from 0 to 65535, found {port}.")
    password = read_password(password_file) if password_file else None
    if not socket and not is_loopback(host) and password is None:
        raise InputError(f"The host {host} is seen from other machines; give a password with --password-file FILE.")
    if host in ("0.0.0.0", "::"):
        raise InputError(f"The host {host} has no name to check requests by; give the address of one network card.")
    if demo:
        folder, ledger, state = _throw_away(folder, ledger, roots)
    else:
        state = state_folder()
    place = _folder(Path(folder or "."))
    return Settings(
        place,
        _private(state),
        tuple(_root(root) for root in roots or (() if demo else (str(place),))),
        ledger,
        host,
        port,
        Path(socket).absolute() if socket else None,
        password,
        APPROVALS[approval],
        device,
        demo,
    )


def state_folder() -> Path:
    """Where a studio keeps its queue: SFUMATO_STUDIO, or beside the folder of runs."""
    return Path(os.environ.get("SFUMATO_STUDIO") or runs_folder().parent / "studio")


def hold(state: Path) -> int:
    """The one lock of a state folder; two studios on one queue would start everything twice."""
    handle = os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise InputError(
            f"Another studio works in {state}; end it, or set SFUMATO_STUDIO to another folder."
        ) from error
    return handle


def _throw_away(folder: str | None, ledger: str | None, roots: tuple[str, ...]) -> tuple[str, str, Path]:
    if folder or ledger or roots:
        raise InputError("A demo has a folder and a ledger of its own; leave out --folder, --root and --ledger.")
    place = Path(tempfile.mkdtemp(prefix="sfumato-demo-"))
    os.environ["SFUMATO_RUNS"] = str(place / "runs")
    return str(place / "releases"), str(place / "ledger.sqlite"), place / "studio"


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be made ({error.strerror}); choose another --folder.") from error
    return path.resolve()


def _private(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise InputError(f"{path} cannot be made ({error.strerror}); set SFUMATO_STUDIO to another folder.") from error
    return path.resolve()


def _root(text: str) -> Path:
    path = Path(text).expanduser()
    if not path.is_dir():
        raise InputError(f"{path} is not a folder; name one that holds data with --root DIR.")
    return path.resolve()
