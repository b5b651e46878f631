"""Sites that are known by their keys, over encrypted connections."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sfumato.federation import flower
from sfumato.federation.flower.link import KEY, ROOT
from sfumato.federation.transport import Transport
from tests.federation.flower.certificates import encrypted, site_key
from tests.federation.flower.processes import Processes, superlink

pytestmark = [pytest.mark.federation, pytest.mark.filterwarnings("default")]
ECHO = "tests.federation.flower.echo"


def register(started: Processes, address: str, folder: Path, name: str) -> Path:
    """The key of a site, made known to the SuperLink by Flower's own command."""
    key = site_key(folder, name)
    settings = f'[superlink.here]\naddress = "{address}"\nroot-certificates = "{folder / "ca.pem"}"\n'
    (started.folder / "flower").mkdir(exist_ok=True)
    (started.folder / "flower" / "config.toml").write_text(settings)
    words = ("supernode", "register", f"{key}.pub", "here", "--name", name)
    command = started.start(f"register-{name}", str(Path(sys.executable).with_name("flwr")), *words)
    assert command.wait(timeout=60) == 0, started.told(f"register-{name}")
    return key


def test_a_site_goes_by_the_name_of_its_key_and_strangers_are_refused(started, tmp_path, monkeypatch):
    address = superlink(started, *encrypted(tmp_path), "--enable-supernode-auth")
    monkeypatch.setenv(ROOT, str(tmp_path / "ca.pem"))
    keys = {name: register(started, address, tmp_path, name) for name in ("north", "south")}
    started.python("north", ECHO, "north", address, **{KEY: str(keys["north"])})
    started.python("south", ECHO, "north", address, **{KEY: str(keys["south"])})  # which says that it is north
    assert started.python("stranger", ECHO, "north", address).wait(timeout=60) != 0
    assert "must be registered" in started.told("stranger")

    def lead(transport: Transport) -> None:
        assert transport.ask({"north": b"x"}, timeout=60)["north"].endswith(b"x")
        assert transport.ask({"south": b"x"}, timeout=2) == {}

    flower.run_coordinator(["north", "south"], lead, address, timeout=5)


def test_without_the_right_certificate_nothing_is_sent(started, tmp_path):
    address = superlink(started, *encrypted(tmp_path))
    (tmp_path / "other").mkdir()
    encrypted(tmp_path / "other")
    other = {ROOT: str(tmp_path / "other" / "ca.pem")}
    assert started.python("north", ECHO, "north", address, **other).wait(timeout=60) != 0
    assert "certificate" in started.told("north").lower()
