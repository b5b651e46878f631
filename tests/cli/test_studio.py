"""`sfumato studio`: it refuses what is unsafe before anything is opened, and prints links that work."""

from __future__ import annotations

import os
import signal

import pytest

from sfumato.cli import run
from tests.studio.servers import Server, Visitor, home_in


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--host", "192.0.2.1"], "--password-file"),
        (["--approval", "three"], "one or two"),
        (["--root", "nowhere"], "--root DIR"),
        (["--password-file", "nowhere"], "cannot be read"),
        (["--demo", "--folder", "x"], "leave out"),
    ],
)
def test_what_is_unsafe_or_wrong_ends_with_one_sentence(argv, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_STUDIO", str(tmp_path / "state"))
    assert run(["studio", *argv]) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1 and "Traceback" not in told


def test_a_missing_package_is_named_with_its_extra(monkeypatch, capsys):
    import sys

    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert run(["studio"]) == 2
    assert "sfumato[studio]" in capsys.readouterr().err


def test_links_open_roles_and_new_ones_come_by_a_signal(tmp_path):
    with Server(home_in(tmp_path), "--approval", "two") as server:
        assert {role: len(links) for role, links in server.links.items()} == {"custodian": 2, "analyst": 1}
        assert "analyst 1" in Visitor(server, "analyst").get("/")
        os.kill(server.process.pid, signal.SIGUSR1)
        server.links = server.told()
        assert "analyst 2" in Visitor(server, "analyst").get("/")


def test_a_unix_socket_is_its_owner_s_alone(tmp_path):
    import httpx2

    path = tmp_path / "page.sock"
    with Server(home_in(tmp_path), "--socket", str(path)) as server:
        assert path.stat().st_mode & 0o777 == 0o600
        with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
            assert client.get("/").status_code == 401
            assert client.get(server.links["custodian"][0]).status_code == 200
            assert client.get("/").status_code == 200
    assert not path.exists()
