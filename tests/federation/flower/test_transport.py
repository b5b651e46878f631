"""Three sites as processes, asked through a SuperLink: lost ones are missing, and are found again by their names."""

from __future__ import annotations

import os
import re
import signal
import time
from subprocess import Popen
from threading import Timer

import pytest

from sfumato.federation import flower
from sfumato.federation.transport import Transport
from tests.federation.flower.processes import SOON, Processes, kill, superlink, until

pytestmark = [pytest.mark.federation, pytest.mark.filterwarnings("default")]
SITES = ("north", "south", "west")


def sites(started: Processes, address: str) -> dict[str, Popen[bytes]]:
    return {name: site(started, name, address) for name in SITES}


def site(started: Processes, name: str, address: str) -> Popen[bytes]:
    return started.python(name, "tests.federation.flower.echo", name, address)


def asked(transport: Transport, body: bytes, *names: str, timeout: float = SOON) -> dict[str, bytes]:
    """The replies without the numbers of processes."""
    replies = transport.ask(dict.fromkeys(names or SITES, body), timeout)
    return {name: re.sub(rb"^(\w+) \d+ ", rb"\1 ", reply) for name, reply in replies.items()}


def all_say(body: bytes) -> dict[str, bytes]:
    return {name: name.encode() + b" " + body for name in SITES}


def test_sites_answer_whatever_is_asked_and_end_when_it_is_over(started):
    address = superlink(started)
    running = sites(started, address)

    def lead(transport: Transport) -> int:
        assert tuple(transport.sites) == SITES
        large = bytes(range(256)) * (1 << 18)  # 64 MB, more than a message of gRPC would hold
        for body in (b"", b"short", large):
            assert asked(transport, body) == all_say(body)
        different = transport.ask({"north": b"one", "west": b"two"}, SOON)
        assert different["north"].endswith(b"one") and different["west"].endswith(b"two")
        return 7

    assert flower.run_coordinator(SITES, lead, address, timeout=SOON) == 7
    assert [process.wait(timeout=SOON) for process in running.values()] == [0, 0, 0]


def test_a_lost_site_is_missing_and_comes_back_by_its_name(started):
    address = superlink(started)
    running = sites(started, address)

    def lead(transport: Transport) -> None:
        assert asked(transport, b"all") == all_say(b"all")
        kill(running["south"])
        assert asked(transport, b"two", timeout=10).keys() == {"north", "west"}
        site(started, "south", address)
        until(lambda: len(asked(transport, b"back", timeout=5)) == 3)
        assert asked(transport, b"all again") == all_say(b"all again")

    flower.run_coordinator(SITES, lead, address, timeout=SOON)


def test_a_late_reply_is_thrown_away_and_an_error_is_not_told(started):
    address = superlink(started)
    sites(started, address)

    def lead(transport: Transport) -> None:
        assert asked(transport, b"all") == all_say(b"all")
        assert asked(transport, b"wait", "west", timeout=1) == {}
        assert asked(transport, b"now") == all_say(b"now")
        assert asked(transport, b"fail") == {}
        assert asked(transport, b"still here") == all_say(b"still here")

    flower.run_coordinator(SITES, lead, address, timeout=SOON)
    assert "the record of a patient" in started.told("west")
    assert "the record of a patient" not in started.told("superlink")


def test_sites_stay_up_for_the_coordinator_that_follows_a_killed_one(started):
    address = superlink(started)
    running = sites(started, address)
    first = started.python("first", "tests.federation.flower.echo", "lead", address, *SITES)
    until(lambda: str(sorted(SITES)) in started.told("first"))
    kill(first)

    def lead(transport: Transport) -> dict[str, int]:
        assert asked(transport, b"new") == all_say(b"new")
        replies = transport.ask(dict.fromkeys(SITES, b"number"), SOON)
        return {name: int(reply.split()[1]) for name, reply in replies.items()}

    numbers = flower.run_coordinator(SITES, lead, address, timeout=SOON)
    assert numbers == {name: process.pid for name, process in running.items()}


def test_what_a_killed_coordinator_has_asked_is_not_answered_after_its_successor_was(started):
    address = superlink(started)
    west = site(started, "west", address)
    first = started.python("first", "tests.federation.flower.echo", "lead", address, "west")
    until(lambda: "west" in started.told("first"))
    os.kill(west.pid, signal.SIGSTOP)
    time.sleep(1)  # in which the first coordinator asks again
    kill(first)

    def lead(transport: Transport) -> None:
        assert asked(transport, b"new", "west") == {"west": b"west new"}
        assert asked(transport, b"last", "west") == {"west": b"west last"}

    Timer(3, os.kill, (west.pid, signal.SIGCONT)).start()
    flower.run_coordinator(["west"], lead, address, timeout=SOON)
    assert west.wait(timeout=SOON) == 0
    answered = re.findall(r"asked (\w+)", started.told("west"))
    assert answered[answered.index("new") :] == ["new", "last"]


def test_a_killed_superlink_goes_on_from_its_database(started, tmp_path):
    options = ("--insecure", "--database", str(tmp_path / "superlink.sqlite"))
    address = superlink(started, *options)
    (first,) = started.running
    sites(started, address)

    def lead(transport: Transport) -> None:
        assert asked(transport, b"before") == all_say(b"before")
        kill(first)
        superlink(started, *options, port=int(address.rpartition(":")[2]))
        until(lambda: asked(transport, b"after", timeout=20) == all_say(b"after"))

    flower.run_coordinator(SITES, lead, address, timeout=SOON)


def test_leading_starts_without_a_site_that_does_not_come(started):
    address = superlink(started)
    site(started, "north", address)

    def lead(transport: Transport) -> None:
        assert asked(transport, b"alone", "north") == {"north": b"north alone"}
        assert asked(transport, b"anybody?", "south", timeout=1) == {}

    flower.run_coordinator(SITES, lead, address, timeout=1)
