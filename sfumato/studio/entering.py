"""The way in and the way out."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from sfumato.studio.forms import Form
from sfumato.studio.guard import COOKIE
from sfumato.studio.sessions import Sessions
from sfumato.studio.settings import Settings
from sfumato.studio.views import page

WRONG = "This link does not work, or was used before; ask for a new one at the terminal."


def routes(settings: Settings, sessions: Sessions) -> APIRouter:
    """Links that open the studio, and the form that closes it."""
    router = APIRouter()

    @router.get("/enter")
    def enter(request: Request, token: str = "") -> Response:
        _not_too_often(sessions)
        if settings.password is None:
            return _opened(request, sessions, token)
        if not sessions.knows(token):
            raise _wrong(sessions)
        return page(request, "enter.html", token=token)

    @router.post("/enter")
    async def enter_with_password(request: Request) -> Response:
        _not_too_often(sessions)
        form = await request.form(max_files=0, max_fields=4)
        given = str(form.get("password", ""))
        right = settings.password is not None and await run_in_threadpool(settings.password.fits, given)
        if not right:
            raise _wrong(sessions)
        return _opened(request, sessions, str(form.get("token", "")))

    @router.post("/leave")
    def leave(request: Request, form: Form) -> Response:
        sessions.leave(request.state.cookie)
        request.state.session = None
        answer = page(request, "left.html")
        answer.delete_cookie(COOKIE)
        return answer

    return router


def _not_too_often(sessions: Sessions) -> None:
    if wait := sessions.throttle.wait():
        seconds = int(wait) + 1
        sentence = f"Too many wrong links; wait {seconds} seconds."
        raise HTTPException(429, sentence, headers={"Retry-After": str(seconds)})


def _wrong(sessions: Sessions) -> HTTPException:
    sessions.throttle.wrong()
    return HTTPException(401, WRONG)


def _opened(request: Request, sessions: Sessions, token: str) -> Response:
    """A page that leads on: a browser sends a strict cookie only with what a page of ours has asked for."""
    made = sessions.enter(token)
    if made is None:
        raise _wrong(sessions)
    name, session = made
    request.state.session = session
    answer = page(request, "entered.html")
    answer.set_cookie(COOKIE, name, httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return answer
