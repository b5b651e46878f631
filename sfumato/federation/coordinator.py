"""The coordinator of a federation: what a method's barrier stands in front of when the records lie at several sites.

A method asks as always. Each question goes to all sites; what comes back are masked words, which open as one noisy sum
or not at all. Whatever was opened is on the disk before the method sees it: a coordinator that was killed reads it
there, and asks nothing twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import InputError, RankLost, Unfinished
from sfumato.federation.agreement import TRUSTED, Agreement
from sfumato.federation.lessons import Lessons
from sfumato.federation.log import Log
from sfumato.federation.masks import Words, unmasked
from sfumato.federation.transport import Transport
from sfumato.privacy.inside import Query
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.one_of_several import central_noise, noised, refuse_batch
from sfumato.privacy.partitions import PartitionHandle, PartitionSum, TeacherModel
from sfumato.privacy.plan import Crossing
from sfumato.privacy.shares import in_steps
from sfumato.remote import wire
from sfumato.types import DataSpec

TRIES = 3  # at a question, before the run stops
BEHIND = 2  # times that a site is sent what it has missed
Reply = Mapping[str, Any]


class SitesMissing(RankLost):
    """Too few sites answer; the run can be resumed when they are back."""


@dataclass(frozen=True)
class SourceOfShares:
    """What the statement says of the noise."""

    source: str
    sampler: str


@dataclass(frozen=True)
class Asked:
    """A question as it goes to the sites."""

    number: int
    crossing: str
    query: bytes
    size: int


class Federation:
    """Sites behind one barrier; `Barrier.before` takes it as it takes the private side of one machine."""

    def __init__(
        self,
        agreement: Agreement,
        transport: Transport,
        folder: Path | None = None,
        *,
        timeout: float | None = None,
        tries: int = TRIES,
        device: str = "cpu",
        noise: Any = None,  # of a trusted coordinator; a test may give its own
        told: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.agreement = agreement
        self.spec: DataSpec = agreement.spec
        self.odometer = Odometer(agreement.plan)
        self._trusted = agreement.trust == TRUSTED
        self._central = (noise or central_noise()) if self._trusted else None
        self.noise = self._central or _source_of(agreement)
        self._transport = transport
        self._log = Log(folder)
        self._lessons = Lessons(agreement, self._log)
        self._timeout = timeout
        self._tries = tries
        self._device = device
        self._told = told
        self._run = self._begun()
        self._last: dict[str, list[int]] = {}  # question and attempt that each site had answered when it joined

    def _begun(self) -> str:
        """The name of the run: that of the folder, where one goes on."""
        known = self._log.get("run")
        if known is None:
            known = f"{secrets.token_hex(16)} {self.agreement.digest}".encode()
            self._log.put("run", known)
        run, _, digest = known.decode().partition(" ")
        if digest != self.agreement.digest:
            raise InputError("The plan changed since this run began; restore the file, or begin elsewhere.")
        return run

    def join(self) -> None:
        """Meet all sites: every one must be there once, with the same plan and the same code."""
        if set(self._transport.sites) != set(self.agreement.sites):
            found = ", ".join(self._transport.sites)
            raise InputError(f"Expected the sites {', '.join(self.agreement.sites)}, found {found}.")
        about = {"agreement": self.agreement.digest, "code": wire.fingerprint()}
        joined = self._all({"kind": "join", **about})
        self._all({"kind": "meet", "keys": {name: reply["key"] for name, reply in joined.items()}})
        for name, reply in joined.items():
            self._last[name] = list(reply["asked"])
            self._lessons.learned(name, reply)

    def _all(self, request: dict[str, Any]) -> dict[str, Reply]:
        replies: dict[str, Reply] = {}
        for _ in range(self._tries):
            missing = [name for name in self.agreement.sites if name not in replies]
            replies |= self._ask(dict.fromkeys(missing, request))
            if len(replies) == len(self.agreement.sites):
                return replies
        raise SitesMissing(f"Expected all sites at the start, and {_names(replies, self.agreement)} did not answer.")

    def _ask(self, requests: Mapping[str, dict[str, Any]]) -> dict[str, Reply]:
        """Replies of those that answered; a site that refuses ends the run with what it says."""
        sent = {name: wire.encode(request | {"run": self._run}) for name, request in requests.items()}
        came = self._transport.ask(sent, self._timeout)
        replies = {name: wire.decode(came[name]) for name in self.agreement.sites if name in came}
        for reply in replies.values():
            if "refused" in reply:
                begun = any(self.odometer.used.values())
                raise (Unfinished if begun else InputError)(str(reply["refused"]))
        return replies

    def hold(self, model: TeacherModel, parts: int) -> PartitionHandle:
        """Teachers at all sites."""
        return self._lessons.hold(model, parts)

    def train(self, held: PartitionHandle, *public: Any) -> None:
        """One update of all of them; it travels with the next question."""
        self._lessons.train(held, public)

    def release(self, name: str, query: Query, *public: Any) -> Tensor:
        """The noisy sum over all sites that answer."""
        refuse_batch(name, query)
        crossing = self.odometer.charge(name, query.queries if isinstance(query, PartitionSum) else 1)
        if query.bound != crossing.bound:
            raise ValueError(f"Expected {crossing.bound} as planned for crossing '{name}', found {query.bound}.")
        shape = query.answer_shape(len(self.spec.classes))
        # Uses only grow, and travel in checkpoints: their sum numbers the questions, also for a coordinator that
        # goes on from an earlier checkpoint.
        asked = Asked(
            sum(self.odometer.used.values()),
            name,
            wire.encode((query, public), numbers=self._lessons.number),
            int(np.prod(shape)),
        )
        steps = self._known(asked, crossing).reshape(shape)
        answer = noised(steps, crossing).to(self._device)
        self.odometer.answered(name, answer)
        return answer

    def _known(self, asked: Asked, crossing: Crossing) -> NDArray[np.int64]:
        """The answer from the log, or from the sites and then in the log."""
        place = f"answer-{asked.number}"
        if (kept := self._log.get(place)) is not None:
            return np.frombuffer(kept, "<i8")
        steps = self._summed(asked)
        if self._central is not None:
            steps = in_steps(noised(steps, crossing, self._central), crossing)
        self._log.put(place, steps.astype("<i8").tobytes())
        self._log.drop(f"opening-{asked.number}")
        return steps

    def _summed(self, asked: Asked) -> NDArray[np.int64]:
        """By as many attempts as it takes; one whose opening has begun is opened to its end."""
        if (begun := self._log.get(f"opening-{asked.number}")) is not None:
            return self._opened(asked.number, wire.decode(begun))
        first = 1 + max((attempt for question, attempt in self._last.values() if question == asked.number), default=0)
        for attempt in range(first, first + self._tries):
            words = self._words(asked, attempt)
            if len(words) < self.agreement.least:
                missing = _names(words, self.agreement)
                self._told(f"question {asked.number}, attempt {attempt}: {missing} did not answer")
                continue
            if self._trusted:
                return np.asarray(np.sum([each.view(np.int64) for each in words.values()], axis=0), np.int64)
            if (steps := self._masked(asked.number, attempt, words)) is not None:
                return steps
        raise SitesMissing(
            f"Fewer than {self.agreement.least} of {len(self.agreement.sites)} sites answer; nothing more is spent. "
            "Start the others again, and then this command."
        )

    def _words(self, asked: Asked, attempt: int) -> dict[str, Words]:
        """The messages of this attempt; a site that has missed updates gets them and is asked again."""
        found: dict[str, Words] = {}
        waiting: Sequence[str] = self.agreement.sites
        for _ in range(BEHIND):
            replies = self._ask({name: self._question(asked, attempt, name) for name in waiting})
            for name, reply in replies.items():
                self._lessons.learned(name, reply)
                if "words" in reply and len(reply["words"]) == 8 * asked.size:
                    found[name] = np.frombuffer(reply["words"], "<u8").astype(np.uint64)
            waiting = [name for name, reply in replies.items() if "behind" in reply]
            if not waiting:
                break
        return found

    def _question(self, asked: Asked, attempt: int, site: str) -> dict[str, Any]:
        about = {"question": asked.number, "attempt": attempt, "crossing": asked.crossing, "query": asked.query}
        return {"kind": "sum", **about, "hear": self._lessons.due(site), "stand": self._lessons.stand()}

    def _masked(self, number: int, attempt: int, words: dict[str, Words]) -> NDArray[np.int64] | None:
        """Open the sum, if all that answered are still there. Nobody reveals a thing before that is known."""
        answered = sorted(words)
        request = {"question": number, "attempt": attempt, "answered": answered}
        there = self._ask({name: {"kind": "ready", **request} for name in answered})
        if set(there) != set(answered):
            self._told(f"question {number}, attempt {attempt}, is thrown away unread: a site was lost")
            return None
        opening = {"request": request, "words": {name: each.tobytes() for name, each in words.items()}}
        self._log.put(f"opening-{number}", wire.encode(opening))
        return self._opened(number, opening)

    def _opened(self, number: int, opening: Mapping[str, Any]) -> NDArray[np.int64]:
        """The sum of those that answered. Some may have revealed their seeds: there is no other attempt after this."""
        request = {"kind": "open", **opening["request"]}
        words = {name: np.frombuffer(each, np.uint64) for name, each in opening["words"].items()}
        revealed: dict[str, Reply] = {}
        for _ in range(self._tries):
            revealed |= self._ask({name: request for name in words if name not in revealed})
            if len(revealed) == len(words):
                return unmasked(words, revealed)
        lost = ", ".join(name for name in words if name not in revealed)
        raise SitesMissing(
            f"{lost} was lost while the sum of question {number} was opened; nothing more is spent. Start it again by "
            "--resume, and then this command."
        )

    def end(self) -> list[str]:
        """Tell all sites that the run is over; the names of those that were not reached."""
        replies = self._ask({name: {"kind": "end"} for name in self.agreement.sites})
        return [name for name in self.agreement.sites if name not in replies]


def _names(replies: Mapping[str, Any], agreement: Agreement) -> str:
    return ", ".join(name for name in agreement.sites if name not in replies)


def _source_of(agreement: Agreement) -> SourceOfShares:
    several = f"shares of {len(agreement.sites)} sites, each from ChaCha20 keyed by its operating system"
    return SourceOfShares(several, "exact discrete Gaussian on a public grid, in shares")
