"""A SuperLink and sites as processes on this machine, all of which are gone when a test is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.federation.flower.link import QUIET, looks

ROOT = Path(__file__).parents[3]
SOON = 60.0  # seconds; enough on a machine that does other things


class Processes:
    """Started with their words in files of a folder, and killed with all that they have started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                words,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, **QUIET, "FLWR_HOME": str(self.folder / "flower"), **environment},
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def python(self, name: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        return self.start(name, sys.executable, "-m", *words, **environment)

    def told(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def end(self) -> None:
        for process in self.running:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """As a power cut would."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    folder.mkdir(parents=True, exist_ok=True)
    started = Processes(folder)
    try:
        yield started
    finally:
        started.end()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def superlink(started: Processes, *options: str, port: int | None = None) -> str:
    """The address of a SuperLink that has come up, on a port of 127.0.0.1; it is the last process of those started."""
    port = port or free_port()
    program = str(Path(sys.executable).with_name("flower-superlink"))
    words = ("--host", "127.0.0.1", "--port", str(port), "--isolation", "process", *(options or ("--insecure",)))
    process = started.start("superlink", program, *words, "--disable-runtime-dependency-installation")
    for _ in looks(time.monotonic() + SOON):
        if process.poll() is not None:
            raise RuntimeError(started.told("superlink"))
        if _open(port):
            return f"127.0.0.1:{port}"
    raise TimeoutError(started.told("superlink"))


def _open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def until(true: Callable[[], bool], soon: float = SOON) -> None:
    for _ in looks(time.monotonic() + soon):
        if true():
            return
    raise TimeoutError
