"""The door: every request passes here, and every answer leaves with the same headers. No traceback gets out."""

from __future__ import annotations

import secrets
import sys
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.studio.sessions import Sessions
from sfumato.studio.settings import Settings
from sfumato.studio.views import error_page

MIB = 2**20
BODY = 1 * MIB
UPLOAD = 512 * MIB
UPLOADS = "/verify/upload"
OPEN = ("/enter", "/static/")  # what needs no session
COOKIE = "sfumato-studio"
CSP = (
    "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    # Under no-referrer browsers send "Origin: null" with forms, and the origin could not be checked.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """Host, origin, session, size of the body; headers; one sentence for whatever goes wrong."""

    def __init__(self, app: ASGIApp, settings: Settings, sessions: Sessions) -> None:
        self.app = app
        self.settings = settings
        self.sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        started: list[int] = []
        try:
            self._admit(scope)
            await self.app(scope, _counted(scope, receive), _dressed(send, started))
        except HTTPException as refused:
            if not started:
                await self._say(scope, receive, send, refused.status_code, str(refused.detail), refused.headers)
        except Exception as error:
            mark = secrets.token_hex(4)
            print(f"studio: unexpected {type(error).__name__}, mark {mark}", file=sys.stderr)
            if not started:
                words = f"Something went wrong in the studio, and nothing was changed by it (mark {mark})."
                await self._say(scope, receive, send, 500, words, None)

    async def _say(self, scope: Scope, receive: Receive, send: Send, status: int, sentence: str, headers: Any) -> None:
        page: Response = error_page(Request(scope), status, sentence, headers)
        await page(scope, receive, _dressed(send, []))

    def _admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = _host(headers)
        if _name(host) not in self.settings.names:
            raise HTTPException(421, "This address is not the studio's; open the link as it was printed.")
        if scope["method"] not in ("GET", "HEAD"):
            _check_origin(headers, host)
        scope.setdefault("state", {})
        name = cookie(headers)
        session = self.sessions.find(name)
        scope["state"] |= {"session": session, "cookie": name, "settings": self.settings}
        if session is None and not scope["path"].startswith(OPEN):
            raise HTTPException(401, "Open the studio by a link from the terminal; each link works once.")


def cookie(headers: Headers) -> str | None:
    """The name of the session that a browser claims."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return found.value if found else None


def _host(headers: Headers) -> str:
    found = headers.getlist("host")
    return found[0].lower() if len(found) == 1 else ""


def _name(host: str) -> str:
    return host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host


def _check_origin(headers: Headers, host: str) -> None:
    """A form must come from a page of ours; a browser that names neither origin nor page is refused too."""
    said = headers.get("origin") or headers.get("referer") or ""
    parts = urlsplit(said)
    fetched = headers.get("sec-fetch-site", "same-origin")
    if parts.scheme not in ("http", "https") or parts.netloc.lower() != host or fetched != "same-origin":
        raise HTTPException(403, "This form was not sent by a page of the studio; open the page again.")


def _counted(scope: Scope, receive: Receive) -> Receive:
    """The body, refused as soon as it is larger than it may be, whatever its header said."""
    most = UPLOAD + MIB if scope["path"] == UPLOADS else BODY
    got = 0
    said = Headers(scope=scope).get("content-length", "0")
    if not said.isdecimal() or int(said) > most:
        raise HTTPException(413, f"This is more than the studio takes ({most // MIB} MiB).")

    async def counted() -> Message:
        nonlocal got
        message = await receive()
        got += len(message.get("body", b""))
        if got > most:
            raise HTTPException(413, f"This is more than the studio takes ({most // MIB} MiB).")
        return message

    return counted


def _dressed(send: Send, started: list[int]) -> Send:
    async def dressed(message: Message) -> None:
        if message["type"] == "http.response.start":
            started.append(message["status"])
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Content-Security-Policy", CSP)
        await send(message)

    return dressed
