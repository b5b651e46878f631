"""Sites asked through a grid of Flower, by their own names.

Flower gives a site another number whenever it comes back, so every new number is greeted, and the reply is the name.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.federation.flower.link import looks, packed, unpacked

GREET, ASK, END = "query.greet", "query.ask", "query.end"
INTRODUCTION = 2.0  # seconds in which a node that is new and not busy says its name
FAREWELL = 5.0  # seconds in which sites hear that the run has ended


class FlowerTransport:
    """One message to each site for a question; the replies are fetched by the numbers of these messages."""

    def __init__(self, grid: Any, sites: Sequence[str]) -> None:
        self._grid = grid
        self._sites = tuple(sites)
        self._nodes: dict[str, int] = {}  # where a site was met last
        self._registered: dict[int, str] = {}  # who is there, with the name that the SuperLink has, if any
        self._greeted: set[int] = set()
        self._greetings: dict[str, int] = {}  # without a reply as yet

    @property
    def sites(self) -> Sequence[str]:
        """As they were given, whether they are there or not."""
        return self._sites

    def wait(self, timeout: float) -> None:
        """Until all sites are there."""
        for _ in looks(time.monotonic() + timeout):
            self._meet()
            if self._nodes.keys() >= set(self._sites):
                return

    def ask(self, requests: Mapping[str, bytes], timeout: float | None = None) -> Mapping[str, bytes]:
        """A site that is not there may still come; Flower forgets what nobody has fetched within the timeout."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        unsent, sent, replies = dict(requests), dict[str, str](), dict[str, bytes]()
        for _ in looks(until):
            sent |= self._sent_to_those_here(unsent, until)
            for number, body in self._heard(sent):
                name = sent.pop(number)
                replies |= {} if body is None else {name: body}
            if not unsent and not sent:
                break
        return replies

    def end(self) -> None:
        """Tell the sites that the run is over; those that do not hear it stay up."""
        until = time.monotonic() + FAREWELL
        told = self._sent(END, dict.fromkeys(self._nodes.values(), b""), until)
        for _ in looks(until):
            for number, _body in self._heard(told):
                del told[number]
            if not told:
                return

    def _sent_to_those_here(self, unsent: dict[str, bytes], until: float) -> dict[str, str]:
        """Names by the numbers of their messages; they are taken out of `unsent`."""
        if unsent:
            self._meet()
        here = {self._nodes[name]: name for name in unsent if name in self._nodes}
        sent = self._sent(ASK, {node: unsent.pop(name) for node, name in here.items()}, until)
        return {number: here[node] for number, node in sent.items()}

    def _meet(self) -> None:
        """Greet who is new and give them a moment to say their name; forget who went."""
        self._registered = {node.node_id: node.name for node in self._grid.get_nodes()}
        there = self._registered.keys()
        new = self._sent(GREET, dict.fromkeys(there - self._greeted, b""), math.inf)
        self._nodes = {name: node for name, node in self._nodes.items() if node in there}
        self._greeted = set(there)
        self._greetings = {number: node for number, node in self._greetings.items() if node in there} | new
        for _ in looks(time.monotonic() + INTRODUCTION):
            self._hear_names()
            if not new.keys() & self._greetings.keys():
                return

    def _hear_names(self) -> None:
        """Whoever was registered with a name, and so with a key, goes by no other."""
        for number, body in self._heard(self._greetings):
            node = self._greetings.pop(number)
            if body is not None and self._registered.get(node) in ("", body.decode()):
                self._nodes[body.decode()] = node

    def _sent(self, kind: str, bodies: Mapping[int, bytes], until: float) -> dict[str, int]:
        """Nodes by the numbers of the messages that are on their way to them; none for a node that just went."""
        from flwr.app import Message

        left = None if until == math.inf else max(until - time.monotonic(), 0.1)
        messages = [Message(packed(body), node, kind, ttl=left) for node, body in bodies.items()]
        numbers = self._grid.push_messages(messages) if messages else ()
        return {number: node for number, node in zip(numbers, bodies, strict=True) if number}

    def _heard(self, numbers: Mapping[str, Any]) -> list[tuple[str, bytes | None]]:
        """Replies by the numbers of the messages they answer; nothing in the place of an error."""
        replies = self._grid.pull_messages(list(numbers)) if numbers else ()
        return [(r.metadata.reply_to_message_id, None if r.has_error() else unpacked(r.content)) for r in replies]
