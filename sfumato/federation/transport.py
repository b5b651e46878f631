"""How bytes reach the sites and come back. What they mean is not known here, so that any network can be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T", covariant=True)
Answer = Callable[[bytes], bytes]  # what a site does with a request; one request at a time


class Transport(Protocol):
    """Carries bytes to sites and their replies back."""

    @property
    def sites(self) -> Sequence[str]:
        """Their names, in a fixed order."""

    def ask(self, requests: Mapping[str, bytes], timeout: float | None = None) -> Mapping[str, bytes]:
        """The replies of those that answered within `timeout` seconds; who is missing has dropped out of this question.

        A reply that comes later is thrown away: it is never taken for the reply to another request. A site gets no
        request twice, unless it is asked again.
        """


class Lead(Protocol[T]):
    """What a coordinator does once it can reach its sites."""

    def __call__(self, transport: Transport) -> T:
        """Lead the run to its end."""


class Carrier(Protocol):
    """A module that carries a federation over a network: two functions, one for each side."""

    def run_coordinator(self, sites: Sequence[str], lead: Lead[T], address: str, timeout: float) -> T:
        """Wait at `address` until all `sites` are there, or `timeout` seconds have passed; then let it lead."""

    def run_site(self, name: str, answer: Answer, address: str) -> None:
        """Answer what the coordinator at `address` asks of the site `name`, until it says that the run has ended.

        `answer` keeps its state in this process: a reply must come from the process that called this.
        """


class InProcess:
    """All sites in one process, for trials and tests.

    `silent` sites are not reached at all; those that are `late` do what they are asked, and their reply is lost. So is
    the reply of one that raises.
    """

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.silent: set[str] = set()
        self.late: set[str] = set()
        self.raised: dict[str, Exception] = {}

    @property
    def sites(self) -> Sequence[str]:
        """In the order in which they were given."""
        return tuple(self.answers)

    def ask(self, requests: Mapping[str, bytes], timeout: float | None = None) -> Mapping[str, bytes]:
        """One after the other; nobody waits, so `timeout` is not used."""
        replies = {name: self._reply(name, asked) for name, asked in requests.items() if name not in self.silent}
        return {name: reply for name, reply in replies.items() if reply is not None and name not in self.late}

    def _reply(self, name: str, asked: bytes) -> bytes | None:
        try:
            return self.answers[name](asked)
        except Exception as error:  # whatever it is, the others do not fall with it
            self.raised[name] = error
            return None
