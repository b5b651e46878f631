"""Runs: the queue, how far each is, and what can be done; unfinished runs of the command line stand beside them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, RedirectResponse, StreamingResponse

from sfumato import api
from sfumato.studio.forms import Custodian, Form, text
from sfumato.studio.sessions import Sessions
from sfumato.studio.studio import Studio
from sfumato.studio.views import page

EVERY = 1.0  # seconds between two looks for open pages
SHOWN = 30


class Watch:
    """One look at the queue a second, however many pages are open."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._next = 0.0
        self._seen = "[]"
        self._lock = asyncio.Lock()

    async def seen(self) -> str:
        """The queue as JSON."""
        async with self._lock:
            if time.monotonic() >= self._next:
                self._seen = json.dumps(await asyncio.to_thread(self._studio.jobs.live))
                self._next = time.monotonic() + EVERY
        return self._seen


def routes(studio: Studio) -> APIRouter:
    """The queue."""
    router = APIRouter()
    watch = Watch(studio)

    @router.get("/runs")
    def runs(request: Request) -> Response:
        custodian = request.state.session.custodian
        jobs = [
            job for job in reversed(studio.jobs.all()) if custodian or job.asked["kind"] in ("synthesize", "resume")
        ]
        unfinished = studio.unfinished() if custodian else []
        return page(request, "runs.html", jobs=jobs[:SHOWN], unfinished=unfinished, releases=set(studio.looks.names()))

    @router.get("/runs/events")
    async def events(request: Request) -> Response:
        return StreamingResponse(_told(request, watch, studio.sessions), media_type="text/event-stream")

    @router.get("/runs/{name}/preview.png")
    def preview(name: str) -> Response:
        path = studio.jobs.place(name) / "preview.png"
        if not path.is_file():
            raise HTTPException(404, "There is no preview yet.")
        return FileResponse(path, media_type="image/png")

    @router.post("/runs/{name}/stop")
    def stop(name: str, who: Custodian, form: Form) -> Response:
        studio.jobs.stop(name)
        return RedirectResponse("/runs", 303)

    @router.post("/unfinished/resume")
    def resume(who: Custodian, form: Form) -> Response:
        run = _unfinished(studio, text(form, "run"))
        if any(job.asked.get("run") == run["run"] and job.state in ("waiting", "running") for job in studio.jobs.all()):
            raise HTTPException(409, "This run waits in the queue already.")
        title = f"{run['name']}: resumed"
        studio.jobs.add("resume", title, who.who, run=run["run"], data=run["data"], out=run["out"])
        return RedirectResponse("/runs", 303)

    @router.post("/unfinished/discard")
    def discard(who: Custodian, form: Form) -> Response:
        run = _unfinished(studio, text(form, "run"))
        if run["state"] == "begun" and text(form, "sure") != "yes":
            raise HTTPException(400, "This run is charged whether it is finished or not; tick the box to lose it.")
        api.discard_run(run["run"])
        return RedirectResponse("/runs", 303)

    return router


def _unfinished(studio: Studio, name: str) -> dict[str, Any]:
    found = next((run for run in studio.unfinished() if run["run"] == name), None)
    if found is None or found["state"] == "running":
        raise HTTPException(404, "There is no unfinished run of this name that nobody works on.")
    return found


async def _told(request: Request, watch: Watch, sessions: Sessions) -> AsyncIterator[str]:
    """Server-sent events: the queue whenever it has changed, and a word now and then; no longer than the session."""
    custodian = request.state.session.custodian
    last, quiet = "", 0
    while sessions.alive(request.state.cookie):
        seen = await watch.seen()
        if seen != last:
            last, quiet = seen, 0
            yield f"data: {seen if custodian else _less(seen)}\n\n"
        elif (quiet := quiet + 1) % 15 == 0:
            yield ": still here\n\n"
        await asyncio.sleep(EVERY)


def _less(seen: str) -> str:
    """An analyst is told how far runs are, and no more."""
    rows: list[dict[str, Any]] = json.loads(seen)
    return json.dumps([{key: row[key] for key in ("id", "state", "percent", "picture")} for row in rows])
