"""A federation over Flower, whose SuperLink keeps messages until a site fetches them: sites only call out.

No code travels. Flower itself would start a process for each message to a site and run in it what the coordinator has
sent; here the process that holds a site's records fetches its messages, and runs what is installed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from sfumato.federation.flower.coordinator import led
from sfumato.federation.flower.link import link_at, need_flower
from sfumato.federation.flower.site import serve
from sfumato.federation.flower.transport import ASK, END, GREET, FlowerTransport
from sfumato.federation.transport import Answer, Lead

T = TypeVar("T")


def run_coordinator(sites: Sequence[str], lead: Lead[T], address: str, timeout: float) -> T:
    """Join the SuperLink at `address`, wait for the sites, lead, and tell them that it is over.

    Where leading fails nobody is told, and the sites stay up for a coordinator that goes on.
    """
    need_flower()
    with led(link_at(address)) as grid:
        transport = FlowerTransport(grid, sites)
        transport.wait(timeout)
        found = lead(transport)
        transport.end()
    return found


def run_site(name: str, answer: Answer, address: str) -> None:
    """Fetch requests from the SuperLink at `address` and answer them, until a coordinator says that the run has ended.

    An error stays here: the coordinator learns that there is no reply, and not why.
    """
    need_flower()
    replies = {GREET: lambda asked: name.encode(), ASK: answer, END: lambda asked: b""}
    serve(link_at(address), replies, last=END)
