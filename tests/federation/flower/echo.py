"""A site that gives back what it is asked, with its name and the number of its process before it.

A coordinator that asks without end, for a test to kill: `python -m tests.federation.flower.echo lead ADDRESS SITES`.
"""

from __future__ import annotations

import os
import sys
import time

from sfumato.federation import flower
from sfumato.federation.transport import Transport


def answer(name: str, asked: bytes) -> bytes:
    """What the site says; `fail` fails, and `wait` takes its time."""
    print("asked", asked[:20].decode("ascii", "ignore"), flush=True)
    if asked == b"fail":
        raise ValueError("the record of a patient")
    if asked == b"wait":
        time.sleep(8)
    return b"%s %d %s" % (name.encode(), os.getpid(), asked)


def ask_on(transport: Transport) -> None:
    while True:
        replies = transport.ask(dict.fromkeys(transport.sites, b"again"), timeout=5)
        print(sorted(replies), flush=True)


if __name__ == "__main__":
    who, address, *sites = sys.argv[1:]
    if who == "lead":
        flower.run_coordinator(sites, ask_on, address, timeout=30)
    else:
        flower.run_site(who, lambda asked: answer(who, asked), address)
