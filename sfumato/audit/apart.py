"""Level 0 in a process of its own, which never holds the private set: what spends is audited there before it reserves.

What is to be examined, and by which function, is said by the one who asks; the function by its dotted name.

The process is started when it is first needed, with a fresh interpreter, and serves until its owner ends. A method
that it cannot import, such as one that was typed at a prompt, is audited in the process that asks, and the report
says so.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from sfumato.audit.recording.subject import Finding
from sfumato.audit.report import Report
from sfumato.errors import AuditFailed

_LOCK = threading.Lock()
_WORKER: list[_Worker] = []


class _Worker:
    """A fresh interpreter at the other end of two pipes."""

    def __init__(self) -> None:
        asks = os.pipe()
        hears = os.pipe()
        self.owner = os.getpid()
        line = [sys.executable, "-m", "sfumato.audit.apart", str(asks[0]), str(hears[1])]
        self._process = subprocess.Popen(
            line,
            pass_fds=(asks[0], hears[1]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        os.close(asks[0])
        os.close(hears[1])
        self._ask = Connection(asks[1], readable=False)
        self._hear = Connection(hears[0], writable=False)

    def __call__(self, question: bytes) -> Report | str:
        self._ask.send_bytes(question)
        answer: Report | str = self._hear.recv()
        return answer

    def close(self) -> None:
        """End it; it has nothing to put away."""
        for end in (self._ask, self._hear):
            with contextlib.suppress(OSError):
                end.close()
        self._process.kill()
        self._process.wait()


def level0_apart(examine: str, *given: Any, device: str) -> Report:
    """What the function of this dotted name reports of `given` and `device`, found elsewhere."""
    try:
        question = ForkingPickler.dumps((examine, (*given, device)))
    except Exception as error:  # a class of somebody's own may refuse in any way
        return _here(examine, (*given, device), f"it cannot be sent to another process ({error})"[:200])
    with _LOCK:
        answer = _asked(bytes(question))
        if device != "cpu":
            close()  # its memory on the device is needed for the run
    return _here(examine, (*given, device), answer) if isinstance(answer, str) else answer


def _asked(question: bytes) -> Report | str:
    if _WORKER and _WORKER[0].owner != os.getpid():  # a fork has the pipes of its parent, and must leave them alone
        _WORKER.clear()
    if not _WORKER:
        _WORKER.append(_Worker())
    try:
        return _WORKER[0](question)
    except (EOFError, OSError) as error:
        close()
        raise AuditFailed("The process that audits the method ended before it had an answer; try again.") from error


def close() -> None:
    """End the process, if there is one."""
    while _WORKER:
        worker = _WORKER.pop()
        if worker.owner == os.getpid():
            worker.close()


atexit.register(close)


def _here(examine: str, given: tuple[Any, ...], why: str) -> Report:
    report = _named(examine)(*given)
    row = Finding("process", 0, True, f"audited in the process that holds the data: {why}")
    return Report(report.title, (*report.rows, row))


def _named(dotted: str) -> Callable[..., Report]:
    """The function of this name, in whichever module it lies."""
    module, _, name = dotted.rpartition(".")
    function: Callable[..., Report] = getattr(import_module(module), name)
    return function


def serve(ask: int, answer: int) -> None:
    """Answer questions until the other end is closed."""
    import torch

    from sfumato.audit.recording import recording_barrier

    torch.set_num_threads(1)
    hear = Connection(ask, writable=False)
    say = Connection(answer, readable=False)
    with tempfile.TemporaryDirectory(prefix="sfumato-") as own:
        os.chdir(own)
        recording_barrier.FILES = True
        _answer(hear, say)
        os.chdir("/")


def _answer(hear: Connection, say: Connection) -> None:
    while True:
        try:
            data = hear.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            examine, given = ForkingPickler.loads(data)
        except Exception as error:
            say.send(f"it cannot be imported there ({type(error).__name__}: {error})"[:200])
            continue
        try:
            report = _named(examine)(*given)
        except Exception as error:
            report = Report("audit", (Finding("audit", 0, False, f"{type(error).__name__}: {error}"[:300]),))
        say.send(Report(report.title, report.rows))


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
