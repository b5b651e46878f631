"""A pool: many tasks on few workers, of which any may be killed; what came of each task, as they end.

A task whose worker is gone is tried again, and given up after `TRIES` times. A task that raises is not: it would again.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, ClassVar, Generic, TypeVar

TRIES = 3
SECONDS = 1.0  # between two looks of a worker at whether its owner is there
Work = Callable[[Any], Any]
Handle = TypeVar("Handle")


class Gone(Exception):
    """The worker of a task ended without an answer."""


@dataclass(frozen=True)
class Outcome:
    """What came of one task: what the work returned, or a sentence that says why there is nothing."""

    number: int  # of the task
    found: Any
    lost: str
    tries: int


class Pool(ABC, Generic[Handle]):
    """Workers somewhere. A kind of them says how a task is started, which have ended, and what they answer."""

    where: ClassVar[str]

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def map(self, work: Work, tasks: Sequence[Any]) -> Iterator[Outcome]:
        """The outcome of every task, in the order in which they end; `work` is a function that can be imported."""
        waiting = deque((number, 0) for number in range(len(tasks)))
        going: dict[Handle, tuple[int, int]] = {}
        try:
            while waiting or going:
                while waiting and len(going) < self.workers:
                    number, tries = waiting.popleft()
                    going[self.start(work, tasks[number])] = number, tries + 1
                for handle in self.ended(list(going)):
                    number, tries = going.pop(handle)
                    outcome = self._outcome(handle, number, tries)
                    if outcome is None:
                        waiting.appendleft((number, tries))
                    else:
                        yield outcome
        finally:
            self.close()

    def _outcome(self, handle: Handle, number: int, tries: int) -> Outcome | None:
        try:
            return Outcome(number, *self.answer(handle), tries)
        except Gone:
            if tries < TRIES:
                return None
        why = f"its worker ended {tries} times without an answer: it was killed, or there was no memory"
        return Outcome(number, None, why, tries)

    @abstractmethod
    def start(self, work: Work, task: Any) -> Handle:
        """Give a task to a worker."""

    @abstractmethod
    def ended(self, going: list[Handle]) -> list[Handle]:
        """Wait until at least one has ended, and say which."""

    @abstractmethod
    def answer(self, handle: Handle) -> tuple[Any, str]:
        """What `tried` returned; raises `Gone` where it did not."""

    @abstractmethod
    def close(self) -> None:
        """Let go of every worker."""


def tried(work: Work, task: Any) -> tuple[Any, str]:
    """What the work returns and no sentence, or nothing and a sentence that says what it raised."""
    try:
        return work(task), ""
    except Exception as error:
        return None, " ".join(f"{type(error).__name__}: {error}".split())


@dataclass(frozen=True, eq=False)
class _Worker:
    """A child process, and our end of the pipe to it."""

    process: Any
    pipe: Connection

    def end(self) -> None:
        """Kill it; it has nothing to put away."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class LocalPool(Pool[_Worker]):
    """Processes on this machine. Each serves task after task, so that what is slow to import is imported once."""

    where = "local"

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._team: list[_Worker] = []
        self._idle: list[_Worker] = []

    def start(self, work: Work, task: Any) -> _Worker:
        """Give a task to an idle worker, or to a new one."""
        while self._idle:
            worker = self._idle.pop()
            with contextlib.suppress(OSError):
                worker.pipe.send((work, task))
                return worker
            self._dismiss(worker)  # killed while it was idle
        worker = self._hired()
        with contextlib.suppress(OSError):  # killed at once: it will be seen as gone
            worker.pipe.send((work, task))
        return worker

    def ended(self, going: list[_Worker]) -> list[_Worker]:
        """Those whose pipe has an answer, or is closed."""
        ready = wait([worker.pipe for worker in going])
        return [worker for worker in going if worker.pipe in ready]

    def answer(self, handle: _Worker) -> tuple[Any, str]:
        """What came through the pipe."""
        try:
            found, lost = handle.pipe.recv()
        except (EOFError, OSError) as error:
            self._dismiss(handle)
            raise Gone from error
        self._idle.append(handle)
        return found, lost

    def close(self) -> None:
        """End every worker of this pool."""
        for worker in list(self._team):
            self._dismiss(worker)
        self._idle.clear()

    def pids(self) -> list[int]:
        """The workers by their process ids."""
        return [worker.process.pid for worker in self._team]

    def _hired(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        process = context.Process(target=_serve, args=(theirs, os.getpid(), threads), daemon=False)
        process.start()
        theirs.close()
        self._team.append(_Worker(process, ours))
        return self._team[-1]

    def _dismiss(self, worker: _Worker) -> None:
        self._team.remove(worker)
        worker.end()


def _serve(pipe: Connection, owner: int, threads: int) -> None:
    """A worker: one task after the other, until the pipe is closed or the owner is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner is told, and ends its workers
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # before the work imports what heeds it
    sys.stdout = sys.stderr  # standard output is the owner's
    threading.Thread(target=_leave_with, args=(owner,), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            work, task = pipe.recv()
            pipe.send(tried(work, task))


def _leave_with(owner: int) -> None:
    """End this process when its owner was killed: nobody waits for an answer any more."""
    while os.getppid() == owner:
        time.sleep(SECONDS)
    os._exit(1)


def time_left(seconds: float) -> str:
    """A remaining time.

    >>> time_left(42.3), time_left(600)
    ('42 s', '10 min')
    """
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
