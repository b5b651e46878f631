"""Flower calls its makers unless it is told not to; here nobody but the SuperLink is called."""

from __future__ import annotations

import json

import pytest

from sfumato.federation import flower
from tests.federation.flower.processes import ROOT, superlink

pytestmark = [pytest.mark.federation, pytest.mark.filterwarnings("default")]

# Python imports this at its start wherever it is found, and so it sees every process of Flower.
SEEN = """
import json, os, sys
def see(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        host = arguments[0] if event == "socket.getaddrinfo" else arguments[1][0]
        with open(os.environ["SEEN"], "a") as file:
            file.write(json.dumps(str(host)) + "\\n")
sys.addaudithook(see)
"""


def test_nobody_but_the_superlink_is_called(started, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(SEEN)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    address = superlink(started)
    started.python("north", "tests.federation.flower.echo", "north", address)
    asked = {"north": b"x"}
    assert flower.run_coordinator(["north"], lambda transport: transport.ask(asked, 60), address, 60).keys() == {
        "north"
    }
    seen = {json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()}
    assert seen == {"127.0.0.1"}
