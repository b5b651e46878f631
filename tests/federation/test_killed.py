"""Real processes that are killed at the worst moments: nothing is asked or charged twice, and the run ends."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Client, Listener
from pathlib import Path

import pytest

from sfumato.federation.site import at_site
from sfumato.remote import wire
from tests.federation.houses import RECORDS, agreement, boxed, learn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SPAWN = get_context("spawn")
PATIENCE = 150.0  # seconds for a process to start


def kill_me() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def serve(name, home, method, die):
    """A site; `die` is a kind of request, its number, and whether the reply is ready by then."""
    os.environ["SFUMATO_RUNS"] = str(home / name / "runs")
    known = sorted((home / name / "runs").glob("[!.]*"))
    resume = str(known[0]) if known else None
    turn = 0
    with at_site(
        agreement(method), name, boxed(name), ledger=home / name / "l.sqlite", resume=resume, save_every=1
    ) as site:
        listener = Listener(str(home / name / "socket"))
        while not site.ended:
            with listener.accept() as connection:
                while not site.ended:
                    try:
                        request = connection.recv_bytes()
                    except EOFError:
                        break
                    turn += wire.decode(request)["kind"] == die[0] if die else 0
                    fatal = die is not None and turn == die[1] and wire.decode(request)["kind"] == die[0]
                    if fatal and not die[2]:
                        kill_me()
                    reply = site(request)
                    if fatal:
                        kill_me()
                    connection.send_bytes(reply)


class Sockets:
    """Sites as processes; one that was killed is started again, and has dropped out until then."""

    sites = tuple(RECORDS)

    def __init__(self, home, method, die=None):
        self.home, self.method, self.connections, self.processes = home, method, {}, {}
        for name in RECORDS:
            (home / name).mkdir(parents=True, exist_ok=True)
            self.start(name, (die or {}).get(name))

    def start(self, name, die=None):
        (self.home / name / "socket").unlink(missing_ok=True)
        self.processes[name] = SPAWN.Process(target=serve, args=(name, self.home, self.method, die))
        self.processes[name].start()

    def ask(self, requests, timeout=None):
        return talk(self.home, self.connections, requests, self.restart)

    def restart(self, name):
        self.processes[name].join(PATIENCE)
        assert self.processes[name].exitcode == -signal.SIGKILL
        self.start(name)


def talk(home, connections, requests, lost):
    replies = {}
    for name, request in requests.items():
        try:
            if name not in connections:
                connections[name] = reach(home / name / "socket")
            connections[name].send_bytes(request)
            replies[name] = connections[name].recv_bytes()
        except (EOFError, OSError):
            connections.pop(name, None)
            lost(name)
    return replies


def reach(path):
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return Client(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@contextmanager
def running(home, method, die=None):
    transport = Sockets(home, method, die)
    try:
        yield transport
    finally:
        for process in transport.processes.values():
            process.join(PATIENCE)
            process.kill()


def ledgers(home):
    """Of each site: the status and the charged epsilon of every run."""
    found = {}
    for name in RECORDS:
        with sqlite3.connect(home / name / "l.sqlite") as db:
            found[name] = [status for (status,) in db.execute("SELECT status FROM runs")]
    return found


@pytest.mark.parametrize(
    ("method", "die"),
    [
        ("kernel-votes", ("sum", 2, False)),
        ("kernel-votes", ("sum", 2, True)),
        ("kernel-votes", ("ready", 2, True)),
        ("kernel-votes", ("open", 2, True)),
        ("dpgan", ("sum", 2, True)),
    ],
)
def test_a_site_killed_at_any_moment_comes_back_and_is_charged_once(tmp_path, method, die):
    with running(tmp_path, method, {"south": die}) as transport:
        _, far = learn(agreement(method), transport)
        assert far.odometer.complete
        far.end()
    assert ledgers(tmp_path) == dict.fromkeys(RECORDS, ["committed"])


class Mortal:
    """The coordinator's side, in a process that ends itself at a request."""

    sites = tuple(RECORDS)

    def __init__(self, home, die):
        self.home, self.die, self.turn, self.connections = home, die, 0, {}

    def ask(self, requests, timeout=None):
        kind = wire.decode(next(iter(requests.values())))["kind"]
        self.turn += self.die is not None and kind == self.die[0]
        fatal = self.die is not None and kind == self.die[0] and self.turn == self.die[1]
        if fatal and not self.die[2]:
            kill_me()
        replies = talk(self.home, self.connections, requests, lambda name: None)
        if fatal:
            kill_me()
        return replies


def lead(home, method, die):
    _, far = learn(agreement(method), Mortal(home, die), home / "state")
    assert far.odometer.complete
    far.end()


@pytest.mark.parametrize(
    ("method", "die"),
    [("kernel-votes", ("open", 2, False)), ("kernel-votes", ("open", 2, True)), ("dpgan", ("sum", 2, True))],
)
def test_a_coordinator_killed_at_any_moment_goes_on_and_asks_nothing_twice(tmp_path, method, die):
    with running(tmp_path, method):
        for when, status in ((die, -signal.SIGKILL), (None, 0)):
            process = SPAWN.Process(target=lead, args=(tmp_path, method, when))
            process.start()
            process.join(2 * PATIENCE)
            assert process.exitcode == status
    assert ledgers(tmp_path) == dict.fromkeys(RECORDS, ["committed"])
    assert not list(Path(tmp_path).glob("*/runs/*"))  # every private file is gone
