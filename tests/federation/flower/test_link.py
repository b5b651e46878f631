"""Where a SuperLink may be, and without what nobody reaches it."""

from __future__ import annotations

import sys
import time

import pytest

from sfumato.errors import InputError
from sfumato.federation import flower
from sfumato.federation.flower.link import KEY, ROOT, SECRET, link_at, looks


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch):
    for name in (ROOT, KEY, SECRET):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "[::1]:8000", "localhost:8000"])
def test_this_machine_is_reached_without_encryption(address):
    assert link_at(address).place == (address, True, None)


@pytest.mark.parametrize("address", ["10.0.0.1:8000", "hospital.example:443", "127.0.0.1.example:80"])
def test_any_other_only_with_a_certificate(address, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=ROOT):
        link_at(address)
    (tmp_path / "ca.pem").write_bytes(b"a certificate")
    monkeypatch.setenv(ROOT, str(tmp_path / "ca.pem"))
    assert link_at(address).place == (address, False, b"a certificate")


@pytest.mark.parametrize("address", ["", "127.0.0.1", "hospital.example:", ":8000"])
def test_an_address_has_a_host_and_a_port(address):
    with pytest.raises(InputError, match=r"such as 127\.0\.0\.1:8000"):
        link_at(address)


def test_a_file_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv(SECRET, str(tmp_path / "none"))
    with pytest.raises(InputError, match=f"{SECRET}=.*none"):
        link_at("127.0.0.1:8000")


def test_without_flower_both_sides_say_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(InputError, match="make federation-env"):
        flower.run_site("a", bytes.upper, "127.0.0.1:8000")
    with pytest.raises(InputError, match="make federation-env"):
        flower.run_coordinator(["a"], lambda transport: None, "127.0.0.1:8000", timeout=1)


def test_there_is_one_look_even_when_time_is_up():
    assert len(list(looks(time.monotonic() - 1))) == 1
