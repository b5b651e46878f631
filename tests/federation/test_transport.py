"""Replies of those that answer, and nothing of the others."""

from __future__ import annotations

from sfumato.federation.transport import InProcess


def shout(asked: bytes) -> bytes:
    return asked.upper()


def fall(asked: bytes) -> bytes:
    raise RuntimeError("out of memory")


def test_each_site_gets_its_own_request():
    transport = InProcess({"a": shout, "b": shout})
    assert transport.ask({"b": b"two", "a": b"one"}) == {"a": b"ONE", "b": b"TWO"}
    assert list(transport.sites) == ["a", "b"]


def test_a_silent_site_is_not_reached_and_a_late_one_does_its_work():
    heard: list[bytes] = []

    def listen(asked: bytes) -> bytes:
        heard.append(asked)
        return b""

    transport = InProcess({"a": listen, "b": listen})
    transport.silent.add("a")
    transport.late.add("b")
    assert transport.ask({"a": b"1", "b": b"2"}) == {}
    assert heard == [b"2"]


def test_a_site_that_raises_has_dropped_out_alone():
    transport = InProcess({"a": fall, "b": shout})
    assert transport.ask({"a": b"x", "b": b"x"}) == {"b": b"X"}
    assert isinstance(transport.raised["a"], RuntimeError)
