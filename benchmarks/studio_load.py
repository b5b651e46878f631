"""What 50 open pages with live updates cost: a run that trains beside them, and pages that are asked for meanwhile.

    python -m benchmarks.studio_load [--pages 50] [--rounds 4] [--seconds 8]

Starts a demo, begins a run and, in turns, lets it train alone and with so many pages that listen to the events of the
queue while others are loaded. The steps that the run itself reports give its pace in each turn. Prints one line of
JSON: the ratio of the paces (above 1: slower with the pages) and the median time of a page in milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import select
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2

from benchmarks.studio_pages import demo

LONG = "features=200\nsteps=1000000"
PAGES = ("/", "/runs", "/plans", "/data", "/compare")


class Visitor:
    """A session of the custodian."""

    def __init__(self, link: str) -> None:
        self.address = re.match(r"https?://[^/]+", link)[0]  # type: ignore[index]
        self.client = httpx2.Client(base_url=self.address, follow_redirects=True, timeout=60)
        self.client.get(link)
        self.csrf = self.client.get("/").text.split('name="csrf" value="')[1].split('"')[0]

    def post(self, path: str, /, **fields: str) -> str:
        answer = self.client.post(path, data={"csrf": self.csrf, **fields}, headers={"origin": self.address})
        assert answer.status_code == 200, answer.text
        return str(answer.url).rpartition("/")[2]

    def rows(self) -> Iterator[dict[str, Any]]:
        """The queue, each time that it changes."""
        with self.client.stream("GET", "/runs/events", timeout=None) as told:
            for line in told.iter_lines():
                if line.startswith("data: "):
                    yield from json.loads(line[6:])

    def steps(self) -> int:
        """How far the run is."""
        return next(int(row["done"]) for row in self.rows() if row["stage"] == "training" and row["done"])


def begun(visitor: Visitor) -> None:
    """A run that trains for longer than this takes."""
    data = re.search(r"/plan/([\w-]+)\">Plan with digits", visitor.client.get("/plans").text)[1]  # type: ignore[index]
    plan = visitor.post(f"/plan/{data}", method="dp-merf", epsilon="1", name="long", count="100", set=LONG)
    visitor.post(f"/approve/{plan}", price="1")
    visitor.steps()


@contextlib.contextmanager
def listening(visitor: Visitor, pages: int) -> Iterator[None]:
    """So many pages that are open and told of everything; plain sockets, so that they take little of the machine."""
    address = urlsplit(visitor.address)
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.client.cookies.items())
    asked = f"GET /runs/events HTTP/1.1\r\nHost: {address.netloc}\r\nCookie: {cookie}\r\n\r\n".encode()
    open_ones = [socket.create_connection((str(address.hostname), address.port or 80)) for _ in range(pages)]
    for each in open_ones:
        each.sendall(asked)
    ends = threading.Event()
    thread = threading.Thread(target=_drain, args=(open_ones, ends))
    thread.start()
    time.sleep(1.5)
    try:
        yield
    finally:
        ends.set()
        thread.join()
        for each in open_ones:
            each.close()


def _drain(open_ones: list[socket.socket], ends: threading.Event) -> None:
    """Read what comes; every page must have been told something."""
    got = dict.fromkeys(open_ones, 0)
    while not ends.is_set():
        for each in select.select(open_ones, [], [], 0.5)[0]:
            got[each] += len(each.recv(2**16))
    assert min(got.values()) > 1000, "a page was told nothing"


def pace(visitor: Visitor, seconds: float, times: list[float] | None = None) -> float:
    """Steps a second of the run; with `times`, pages are asked for meanwhile, four a second."""
    first, began = visitor.steps(), time.monotonic()
    while time.monotonic() - began < seconds:
        if times is not None:
            asked = time.monotonic()
            assert visitor.client.get(PAGES[len(times) % len(PAGES)]).status_code == 200
            times.append(time.monotonic() - asked)
        time.sleep(0.25)
    last = visitor.steps()
    return (last - first) / (time.monotonic() - began)


def main() -> None:
    """Measure in turns, so that what else the machine does falls on both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=8.0)
    asked = parser.parse_args()
    alone: list[float] = []
    watched: list[float] = []
    times: list[float] = []
    with demo("--device", "cpu") as link:
        visitor = Visitor(link)
        begun(visitor)
        for _ in range(asked.rounds):
            alone.append(pace(visitor, asked.seconds))
            with listening(visitor, asked.pages):
                watched.append(pace(visitor, asked.seconds, times))
        name = next(row["id"] for row in visitor.rows())
        visitor.post(f"/runs/{name}/stop")
        visitor.client.close()
    ratios = [a / b for a, b in zip(alone, watched, strict=True)]
    told = {
        "pages": asked.pages,
        "slower": round(statistics.median(ratios), 3),
        "ratios": [round(r, 3) for r in ratios],
    }
    told |= {"steps_a_second_alone": round(statistics.median(alone), 1), "pages_asked": len(times)}
    print(json.dumps(told | {"median_page_ms": round(1000 * statistics.median(times), 1)}))


if __name__ == "__main__":
    main()
