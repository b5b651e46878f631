"""Who may lead: whoever reaches the SuperLink and knows its secret."""

from __future__ import annotations

import pytest

from sfumato.errors import InputError
from sfumato.federation import flower
from sfumato.federation.flower.link import SECRET
from tests.federation.flower.processes import free_port, superlink, until

pytestmark = [pytest.mark.federation, pytest.mark.filterwarnings("default")]


def test_where_no_superlink_is_a_sentence_says_so():
    with pytest.raises(InputError, match="look whether it runs there"):
        flower.run_coordinator([], lambda transport: None, f"127.0.0.1:{free_port()}", timeout=1)


def test_only_who_knows_the_secret_leads(started, tmp_path, monkeypatch):
    (tmp_path / "secret").write_bytes(bytes(range(32)))
    address = superlink(started, "--insecure", "--superexec-auth-secret-file", str(tmp_path / "secret"))
    with pytest.raises(InputError, match=f"401.*{SECRET}"):
        flower.run_coordinator([], lambda transport: None, address, timeout=1)
    monkeypatch.setenv(SECRET, str(tmp_path / "secret"))
    assert flower.run_coordinator([], lambda transport: list(transport.sites), address, timeout=1) == []


def test_what_fails_while_leading_is_raised(started):
    def lead(transport: object) -> None:
        raise ZeroDivisionError

    address = superlink(started)
    with pytest.raises(ZeroDivisionError):
        flower.run_coordinator([], lead, address, timeout=1)
    assert flower.run_coordinator([], lambda transport: "next", address, timeout=1) == "next"


def test_whoever_comes_takes_the_lead(started):
    address = superlink(started)
    started.python("north", "tests.federation.flower.echo", "north", address)
    first = started.python("first", "tests.federation.flower.echo", "lead", address, "north")
    until(lambda: "north" in started.told("first"))
    asked = {"north": b"second"}
    found = flower.run_coordinator(["north"], lambda transport: transport.ask(asked, 60), address, timeout=60)
    assert found["north"].endswith(b"second")
    assert first.wait(timeout=60) != 0
