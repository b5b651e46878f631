"""Level 0 in a process of its own, which never holds the private set: `synthesize` audits there before it reserves.

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
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from sfumato.audit.recording.subject import Finding
from sfumato.audit.report import Report
from sfumato.errors import AuditFailed

SIDE = 16  # of images that are audited
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

    def __call__(self, question: Any) -> Any:
        self._ask.send_bytes(question)
        return self._hear.recv()

    def close(self) -> None:
        """End it; it has nothing to put away."""
        for end in (self._ask, self._hear):
            with contextlib.suppress(OSError):
                end.close()
        self._process.kill()
        self._process.wait()


def level0_apart(
    method: Any, plan: Any, public: Any = None, *, verb: str = "synthesize", device: str = "cpu"
) -> Report:
    """The checks of level 0 and of a whole command, made elsewhere."""
    try:
        question = ForkingPickler.dumps((method, plan, public, verb, device))
    except Exception as error:  # a class of somebody's own may refuse in any way
        return _here(method, plan, public, verb, device, f"it cannot be sent to another process ({error})"[:200])
    with _LOCK:
        answer = _asked(bytes(question))
        if device != "cpu":
            close()  # its memory on the device is needed for the run
    if isinstance(answer, str):
        return _here(method, plan, public, verb, device, answer)
    return answer


def _asked(question: bytes) -> Any:
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


def _here(method: Any, plan: Any, public: Any, verb: str, device: str, why: str) -> Report:
    report = examined(method, plan, public, verb, device)
    row = Finding("process", 0, True, f"audited in the process that holds the data: {why}")
    return Report(report.title, (*report.rows, row))


def examined(method: Any, plan: Any, public: Any, verb: str, device: str) -> Report:
    """Level 0 of a method, and of the command around it."""
    from sfumato.audit import verbs
    from sfumato.audit.check_method import level0

    whole = {
        "synthesize": verbs.check_synthesize,
        "train-classifier": verbs.check_classifier,
        "tune": verbs.check_tune,
    }[verb]
    plan, shape = _looked_at(method, plan), plan.data.shape
    public = _cut(public, shape, plan.data.shape)
    options = {"public": public} if verb == "synthesize" else {}
    inner = level0(method, plan.data, plan.budget, plan=plan, public=public, device=device)
    if not all(row.ok for row in inner.rows):
        return inner
    outer = whole(method, spec=plan.data, budget=plan.budget, plan=plan, **options)
    return Report(inner.title, (*inner.rows, *outer.rows))


def _looked_at(method: Any, plan: Any) -> Any:
    """The plan for smaller images, where those of the data would take minutes; a rehearsal has them as they are."""
    side, (channels, *sides) = getattr(type(method), "audit_side", SIDE), plan.data.shape
    small = (channels, *(min(side, s) for s in sides))
    if small == plan.data.shape:
        return plan
    try:
        return method.plan(replace(plan.data, shape=small), plan.budget)
    except ValueError:  # too small for these settings
        return plan


def _cut(public: Any, shape: tuple[int, ...], small: tuple[int, ...]) -> Any:
    """Public images as small as the made-up ones; those of another shape than the data are left for the method."""
    if public is None or public.images.pixels.shape[1:] != shape:
        return public
    pixels = public.images.pixels[:, :, : small[1], : small[2]]
    return replace(public, images=replace(public.images, pixels=pixels))


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
            given = ForkingPickler.loads(data)
        except Exception as error:
            say.send(f"it cannot be imported there ({type(error).__name__}: {error})"[:200])
            continue
        try:
            found = examined(*given)
        except Exception as error:
            found = Report("audit", (Finding("audit", 0, False, f"{type(error).__name__}: {error}"[:300]),))
        say.send(Report(found.title, found.rows))


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
