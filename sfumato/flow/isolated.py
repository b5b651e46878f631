"""A method in a process of its own, which never holds a record: `sfumato synthesize --isolate`.

    this process    box, ledger, odometer, noise, barrier, held parts, checkpoints
    the other one   the method with its settings, the plan, public data; a pipe

The other process asks for declared queries of the engine and gets noisy answers. Whatever it looks at in its own
memory, there is no record; while it runs, this process lets no other of the same user look into its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Protocol

import torch

from sfumato.errors import InputError, RankLost
from sfumato.flow.expected_memory import Memory
from sfumato.flow.make import Learner
from sfumato.flow.method_process import FROM_DATA
from sfumato.flow.rehearsal import Expected
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Plan
from sfumato.release.files.names import base_name
from sfumato.remote.failures import raised
from sfumato.remote.served import Served
from sfumato.remote.wire import encode, fingerprint
from sfumato.run.preview import Snapshots
from sfumato.run.run import Run

STATED = "The method ran in a process of its own, which held no record and was given noisy answers alone."
SECRETS = ("SFUMATO_LEDGER", "SFUMATO_RUNS", "SFUMATO_CACHE")  # places that are none of the method's business
WAIT = 0.2  # seconds between two looks at whether somebody asked to stop
GONE = (
    "The process of the method is gone: it was killed, or there was no memory. What crossed stays spent; go on with "
    "--resume RUN, which `sfumato runs` names."
)
GET_DUMPABLE = 3
SET_DUMPABLE = 4  # of Linux' prctl


@dataclass(frozen=True)
class Taken:
    """The pictures of a run that was elsewhere."""

    taken: Snapshots | None
    waiting = False

    def snapshots(self) -> Snapshots | None:
        """All of them."""
        return self.taken


class Process(Protocol):
    """What is needed of a process that was started."""

    def send_signal(self, number: int, /) -> None: ...
    def kill(self) -> None: ...
    def wait(self) -> Any: ...


def spawned(theirs: Connection) -> Process:
    """A fresh interpreter with this end of a pipe, and without what names the ledger and the folders of runs."""
    told = {name: value for name, value in os.environ.items() if name not in SECRETS}
    return subprocess.Popen(
        [sys.executable, "-m", "sfumato.flow.method_process", str(theirs.fileno())],
        pass_fds=(theirs.fileno(),),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=told | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # Ctrl-C is for this process, which passes it on
    )


@dataclass(frozen=True)
class Isolated:
    """A method that learns elsewhere; to whoever calls it, a method like another. The rest is for tests."""

    method: Learner
    allow: tuple[str, ...] = ()  # modules whose functions may be named in queries
    start: Callable[[Connection], Process] = spawned

    def learn(self, barrier: Barrier, run: Run, public: Any = None) -> Generator:
        """What the method makes of the barrier's answers."""
        if run.ranks.size > 1:
            raise InputError(
                "An isolated run has one process for the data; leave out --isolate, or do without torchrun."
            )
        plan = barrier.plan
        job = self._job("learn", plan, run, public) | {
            "noise": (barrier.noise.source, barrier.noise.sampler),
            "used": dict(barrier.used),
            "resumable": run.folder is not None,
            **run.memory(),
        }
        end = _End()
        served = Served(behind(barrier), device=run.device, more=_verbs(run, end), allow=(*ANSWERED, *self.allow))
        with _started(self.start) as (process, channel):
            self._send(channel, job)
            _serve(process, channel, served, run, end)
        assert end.generator is not None
        return end.generator

    def rehearse(self, plan: Plan, run: Run, public: Any) -> tuple[Expected, Generator | None, dict[str, Any]]:
        """What learning will take, and what came of a rehearsal if it got to its end."""
        end = _End()
        nothing = Barrier(None, plan.data, Odometer(plan))
        served = Served(behind(nothing), device=run.device, more=_verbs(run, end), allow=(*ANSWERED, *self.allow))
        with _started(self.start) as (process, channel):
            self._send(channel, self._job("rehearse", plan, run, public))
            _serve(process, channel, served, run, end)
        return end.expected, end.generator, end.kept

    def _job(self, verb: str, plan: Plan, run: Run, public: Any) -> dict[str, Any]:
        named = replace(plan, data=replace(plan.data, name=base_name(plan.data.name)))
        how = {name: getattr(run, name) for name in ("device", "seed", "microbatch", "every", "most")}
        return {
            "verb": verb,
            "fingerprint": fingerprint(),
            "threads": torch.get_num_threads(),
            "method": self.method,
            "plan": named,
            "public": public,
            "run": how,
        }

    def _send(self, channel: Connection, job: dict[str, Any]) -> None:
        module = type(self.method).__module__
        channel.send_bytes(module.encode())
        channel.send_bytes(encode(job, allow=(*FROM_DATA, module)))


@contextmanager
def _started(start: Callable[[Connection], Process]) -> Iterator[tuple[Process, Connection]]:
    ours, theirs = Pipe()
    process = start(theirs)  # it knows no method before it is told one
    theirs.close()
    try:
        with undumpable():
            yield process, ours
    finally:
        ours.close()
        process.kill()
        process.wait()


ANSWERED = ("sfumato.run.preview", "sfumato.flow.expected_memory")  # what the method's side may send beside queries


class _End:
    """What the other process said last."""

    generator: Generator | None = None
    kept: dict[str, Any]
    expected = Expected(0.0)
    said: Exception | None = None
    reached = False


def _verbs(run: Run, end: _End) -> dict[str, Callable[..., Any]]:
    """What the method's side may ask of a run: it keeps, it shows, and it says how things ended."""

    def keep(kept: dict[str, torch.Tensor]) -> None:
        run.kept = kept
        run.save()

    def finished(generator: Generator, kept: dict[str, Any], made: dict[str, Any], taken: Snapshots | None) -> None:
        run.kept = kept
        run.made = made
        run.pictures["preview"] = Taken(taken)
        _reached(generator)

    def rehearsed(seconds: float, memory: Memory | None, generator: Generator | None, kept: dict[str, Any]) -> None:
        end.expected = Expected(seconds, memory)
        end.kept = kept
        _reached(generator)

    def _reached(generator: Generator | None) -> None:
        if generator is not None and not isinstance(generator, Generator):
            raise InputError("Expected a generator at the end of an isolated run, found something else.")
        end.generator = generator
        end.reached = True

    def failed(kind: str, sentence: str) -> None:
        end.said = raised(kind, sentence)

    return {
        "keep": keep,
        "store": lambda done, own, held: run.store(int(done), own, held),
        "restore": run.restore_held,
        "held_bytes": run.held_bytes,
        "show": run.show,
        "begun": run.begun,
        "start": run.progress.start,
        "advance": run.progress.advance,
        "finished": finished,
        "rehearsed": rehearsed,
        "failed": failed,
    }


def _serve(process: Process, channel: Connection, served: Served, run: Run, end: _End) -> None:
    """Answer until the other side has come to an end."""
    asked_to_stop = False
    while not end.reached:
        if run.stopping and not asked_to_stop:
            process.send_signal(signal.SIGINT)
            asked_to_stop = True
        try:
            if not channel.poll(WAIT):
                continue
            reply = served.reply(channel.recv_bytes())
            if served.failed is not None:
                raise served.failed
            if reply is not None:
                channel.send_bytes(reply)
        except (EOFError, ConnectionError) as error:
            raise RankLost(GONE) from error
        if end.said is not None:
            raise end.said


@contextmanager
def undumpable() -> Iterator[None]:
    """A time in which no other process of the same user may look into this one, where the system can do that."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    if prctl is None:
        yield
        return
    before = prctl(GET_DUMPABLE, 0, 0, 0, 0)
    prctl(SET_DUMPABLE, 0, 0, 0, 0)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            prctl(SET_DUMPABLE, before, 0, 0, 0)
