"""Who is here: one-time tokens, the sessions they open, and how many wrong ones are borne."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

CUSTODIAN = "custodian"
ANALYST = "analyst"
IDLE = 12 * 3600.0  # seconds without a request after which a session ends
MOST_WRONG = 10  # in a minute
LONGEST_WAIT = 60.0


@dataclass
class Session:
    """A browser that came by a link; `who` tells two links of one role apart."""

    role: str
    who: str
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    seen: float = 0.0

    @property
    def custodian(self) -> bool:
        """Whether this one may approve, run and see what is internal."""
        return self.role == CUSTODIAN

    @property
    def csrf(self) -> str:
        """The word that every form of this session carries."""
        return hmac.new(self.secret, b"form", hashlib.sha256).hexdigest()


class Throttle:
    """Bears a few wrong tries a minute, then refuses all for a while that doubles with each further lot."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: deque[float] = deque(maxlen=MOST_WRONG)
        self._until = 0.0
        self._wait = 2.0

    def wait(self) -> float:
        """Seconds until the next try is looked at; 0 where it may be now."""
        return max(0.0, self._until - self._clock())

    def wrong(self) -> None:
        """One wrong try."""
        now = self._clock()
        self._wrong.append(now)
        if len(self._wrong) == MOST_WRONG and now - self._wrong[0] < 60:
            self._until = now + self._wait
            self._wait = min(LONGEST_WAIT, 2 * self._wait)
            self._wrong.clear()


class Sessions:
    """Tokens that were printed and not used, and the sessions of those that were. All of it in memory."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens: dict[bytes, tuple[str, str]] = {}
        self._sessions: dict[bytes, Session] = {}
        self._lock = threading.Lock()
        self._numbers = {CUSTODIAN: 0, ANALYST: 0}
        self.throttle = Throttle(clock)

    def token(self, role: str) -> str:
        """A new one-time token."""
        made = secrets.token_urlsafe(32)
        with self._lock:
            self._numbers[role] += 1
            self._tokens[_hash(made)] = (role, f"{role} {self._numbers[role]}")
        return made

    def knows(self, token: str) -> bool:
        """Whether a token is good; it stays so."""
        return _hash(token) in self._tokens

    def enter(self, token: str) -> tuple[str, Session] | None:
        """Exchange a token for a session, by its secret name; the token is dead afterwards."""
        with self._lock:
            found = self._tokens.pop(_hash(token), None)
            if found is None:
                return None
            name = secrets.token_urlsafe(32)
            session = Session(*found, seen=self._clock())
            self._sessions[_hash(name)] = session
            return name, session

    def find(self, name: str | None) -> Session | None:
        """The session of a cookie, if it is one and not too old."""
        if not name:
            return None
        session = self._sessions.get(_hash(name))
        now = self._clock()
        if session is None or now - session.seen > IDLE:
            return None
        session.seen = now
        return session

    def alive(self, name: str | None) -> bool:
        """Whether a session goes on; asking does not keep it awake."""
        session = self._sessions.get(_hash(name or ""))
        return session is not None and self._clock() - session.seen <= IDLE

    def leave(self, name: str | None) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(_hash(name or ""), None)


def _hash(text: str) -> bytes:
    """Secrets are looked up by their hash, so that the time it takes tells nothing of them."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
