"""Audit: seeded faults that the auditors must catch, run live, and the audit of a method."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from sfumato.audit.gallery import BUGS
from sfumato.studio.forms import Custodian, Form, text
from sfumato.studio.jobs import Job
from sfumato.studio.pages.plan import method_names
from sfumato.studio.studio import Studio
from sfumato.studio.views import page

LEVELS = {
    0: "seconds, no luck involved",
    1: "minutes: games against each crossing",
    2: "long: games against whole plans",
}


def routes(studio: Studio) -> APIRouter:
    """The gallery and the audits."""
    router = APIRouter()

    @router.get("/audit")
    def look(request: Request, who: Custodian) -> Response:
        jobs = [job for job in reversed(studio.jobs.all()) if job.asked["kind"] in ("gallery", "audit")]
        last = {kind: next((job for job in jobs if job.asked["kind"] == kind), None) for kind in ("gallery", "audit")}
        rows = {kind: _rows(studio, job) for kind, job in last.items()}
        known = {row["id"]: row for row in rows["gallery"]}
        told: dict[str, Any] = {"last": last, "known": known, "findings": rows["audit"], "levels": LEVELS}
        return page(request, "audit.html", bugs=BUGS, methods=method_names(), **told)

    @router.post("/audit/gallery")
    def gallery(who: Custodian, form: Form) -> Response:
        level = _level(text(form, "level"))
        studio.jobs.add("gallery", f"seeded faults up to level {level}", who.who, level=level)
        return RedirectResponse("/audit", 303)

    @router.post("/audit/method")
    def method(who: Custodian, form: Form) -> Response:
        name, level = text(form, "method"), _level(text(form, "level"))
        if name not in method_names():
            raise HTTPException(400, "There is no method of this name; choose one of the list.")
        studio.jobs.add("audit", f"audit of {name}, level {level}", who.who, method=name, level=level)
        return RedirectResponse("/audit", 303)

    return router


def _level(value: str) -> int:
    if value not in ("0", "1", "2"):
        raise HTTPException(400, "Expected a level of 0, 1 or 2.")
    return int(value)


def _rows(studio: Studio, job: Job | None) -> list[dict[str, Any]]:
    """What is known so far."""
    if job is None:
        return []
    try:
        rows: list[dict[str, Any]] = json.loads((studio.jobs.place(job.id) / "rows.json").read_bytes())
    except (OSError, ValueError):
        return []
    return rows
