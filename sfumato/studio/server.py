"""The application, and how it is served."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from sfumato.errors import InputError, SfumatoError
from sfumato.studio import entering
from sfumato.studio.guard import Guard
from sfumato.studio.pages import approve, audit, compare, data, internal, plan, publish, release, runs, start, verify
from sfumato.studio.sessions import ANALYST, CUSTODIAN, Sessions
from sfumato.studio.settings import Settings, hold
from sfumato.studio.studio import Studio
from sfumato.studio.views import HERE, error_page

PAGES = (start, data, plan, approve, runs, release, internal, compare, verify, publish, audit)
PAUSE = 0.5  # seconds between two looks at the queue
HIDDEN = "This cannot be done as asked; a custodian sees the reason."


def make_app(settings: Settings, sessions: Sessions | None = None, *, work: bool = True) -> FastAPI:
    """The whole studio; without `work` its queue stands still, for tests."""
    studio = Studio(settings, sessions or Sessions())

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(_work(studio)) if work else None
        yield
        if task:
            task.cancel()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan, redirect_slashes=False)
    app.state.studio = studio
    app.include_router(entering.routes(settings, studio.sessions))
    for each in PAGES:
        app.include_router(each.routes(studio))
    app.mount("/static", StaticFiles(directory=HERE / "static", follow_symlink=False))
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(SfumatoError, _wrong)
    app.add_exception_handler(RequestValidationError, _misspelt)
    app.add_middleware(Guard, settings=settings, sessions=studio.sessions)
    return app


async def _work(studio: Studio) -> None:
    """Keep the queue moving; a job that cannot be begun does not stop it."""
    while True:
        with contextlib.suppress(OSError, SfumatoError, HTTPException):
            await asyncio.to_thread(studio.step)
        await asyncio.sleep(PAUSE)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = "There is no such page in the studio." if error.detail == "Not Found" else str(error.detail)
    return error_page(request, error.status_code, words, error.headers)


def _misspelt(request: Request, error: Exception) -> Response:
    return error_page(request, 404, "There is no such page in the studio.")


def _wrong(request: Request, error: Exception) -> Response:
    """A sentence of ours may name a file of the data: it is for a custodian."""
    session = request.state.session
    return error_page(request, 400, " ".join(str(error).split()) if session and session.custodian else HIDDEN)


def serve(settings: Settings, tell: Callable[[list[tuple[str, str]]], None]) -> None:
    """Listen until stopped; `tell` gets (role, link) of each new link, at the start and on SIGUSR1."""
    import uvicorn

    lock = hold(settings.state)
    sessions = Sessions()
    for name in ("uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logging.getLogger(name).disabled = True  # a request, or a traceback, may hold what is private
    app = make_app(settings, sessions)
    listening = _listen(settings)
    links = _links(settings, sessions, listening)
    signal.signal(signal.SIGUSR1, lambda *_: tell(links()))
    tell(links())
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=2)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        if settings.socket:
            settings.socket.unlink(missing_ok=True)
        os.close(lock)


def _listen(settings: Settings) -> socket.socket:
    try:
        if settings.socket is None:
            family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
            return socket.create_server((settings.host.strip("[]"), settings.port), family=family)
        return _unix(settings.socket)
    except OSError as error:
        where = settings.socket or f"{settings.host}:{settings.port}"
        raise InputError(f"Nothing can listen at {where} ({error.strerror}); choose another --port.") from error


def _unix(path: Path) -> socket.socket:
    """A socket file that its owner alone can open."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        if path.is_socket():
            path.unlink()
        made.bind(str(path))
    finally:
        os.umask(before)
    return made


def _links(settings: Settings, sessions: Sessions, listening: socket.socket) -> Callable[[], list[tuple[str, str]]]:
    """A function that makes new links: a custodian's for each approval that is asked for, and an analyst's."""
    at = "localhost" if settings.socket else f"{settings.host}:{_port(listening)}"

    def links() -> list[tuple[str, str]]:
        roles = [*[CUSTODIAN] * settings.approvals, ANALYST]
        return [(role, f"http://{at}/enter?token={sessions.token(role)}") for role in roles]

    return links


def _port(listening: socket.socket) -> int:
    found: Any = listening.getsockname()
    return int(found[1])
