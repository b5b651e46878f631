"""A studio in a process of its own, which can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from tests.studio.people import scans

START = 60  # seconds
TERMINAL = [sys.executable, "-m", "sfumato", "studio", "--port", "0", "--device", "cpu", "--json"]


class Server:
    """`sfumato studio`, with the links that it prints."""

    def __init__(self, home: Path, *options: str) -> None:
        places = {
            name: str(home / name.lower())
            for name in ("SFUMATO_LEDGER", "SFUMATO_RUNS", "SFUMATO_CACHE", "SFUMATO_STUDIO")
        }
        own = () if "--demo" in options else ("--folder", str(home / "releases"), "--root", str(home / "data"))
        environment = os.environ | places | {"OMP_NUM_THREADS": "1", "TMPDIR": str(home)}
        self.process = subprocess.Popen([*TERMINAL, *own, *options], stdout=subprocess.PIPE, env=environment)
        self.visitors: list[Visitor] = []
        self.links = self.told()
        self.address = "{0.scheme}://{0.netloc}".format(urlsplit(self.links["custodian"][0]))

    def told(self) -> dict[str, list[str]]:
        """The next links."""
        assert self.process.stdout
        found: dict[str, list[str]] = {}
        for row in json.loads(self.process.stdout.readline())["links"]:
            found.setdefault(row["role"], []).append(row["link"])
        return found

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGINT)

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Killed at once, or asked to end."""
        if self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(20)
        self.process.stdout.close()
        for visitor in self.visitors:
            visitor.client.close()


class Visitor:
    """A browser without a window."""

    def __init__(self, server: Server, role: str = "custodian", number: int = 0) -> None:
        self.client = httpx2.Client(base_url=server.address, follow_redirects=True, timeout=60)
        server.visitors.append(self)
        assert self.client.get(server.links[role][number]).status_code == 200
        self.csrf = self.client.get("/").text.split('name="csrf" value="')[1].split('"')[0]
        self.origin = server.address

    def get(self, path: str) -> str:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def post(self, path: str, /, **fields: str) -> httpx2.Response:
        answer = self.client.post(path, data={"csrf": self.csrf, **fields}, headers={"origin": self.origin})
        assert answer.status_code == 200, answer.text
        return answer

    def declared(self, name: str = "scans.npz", **fields: str) -> str:
        """The name of a declared data set."""
        at = str(self.post("/data/find", path=name).url).partition("at=")[2]
        return str(self.post("/data", at=at, **({"unit": "record", "count": "public"} | fields)).url).rpartition("/")[2]

    def approved(self, data: str, epsilon: str = "2", **fields: str) -> None:
        """A plan, handed in and approved."""
        asked = {"method": "dp-merf", "epsilon": epsilon, "count": "30", "name": "made", "set": "", **fields}
        plan = str(self.post(f"/plan/{data}", **asked).url).rpartition("/")[2]
        self.post(f"/approve/{plan}", price=epsilon)


def until(condition, seconds: float = 60):
    """Wait for something to be so; what it gave."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError("it never came about")


def home_in(folder: Path) -> Path:
    for name in ("releases", "data"):
        (folder / name).mkdir()
    scans(folder / "data", n=300)
    return folder
