"""Internal: what was measured on real images. For custodians alone, and marked so on every page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, RedirectResponse

from sfumato.studio.forms import Custodian, Form, text
from sfumato.studio.guard import CSP
from sfumato.studio.studio import Studio
from sfumato.studio.views import page

EFFORTS = ("quick", "default", "full")
# The report has its own style and its pictures within it; it runs nothing and asks for nothing, in a box of its own.
SEALED = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'; sandbox"


def routes(studio: Studio) -> APIRouter:
    """The pages of evaluations."""
    router = APIRouter()

    @router.get("/internal/{name}")
    def look(request: Request, name: str, who: Custodian) -> Response:
        place = studio.looks.evaluation(name)
        told: dict[str, Any] = {
            "name": name,
            "sets": studio.sets.all(),
            "efforts": EFFORTS,
            "working": _working(studio, name),
        }
        answer = page(request, "internal.html", evaluation=_sections(place), **told)
        answer.headers["Content-Security-Policy"] = f"{CSP}; frame-src 'self'"
        return answer

    @router.get("/internal/{name}/report")
    def report(name: str, who: Custodian) -> Response:
        place = studio.looks.evaluation(name)
        if place is None or not (place / "report.html").is_file():
            raise HTTPException(404, "This release was not evaluated yet.")
        return FileResponse(place / "report.html", headers={"Content-Security-Policy": SEALED})

    @router.post("/internal/{name}")
    def evaluate(name: str, who: Custodian, form: Form) -> Response:
        found = studio.sets.get(text(form, "data"))
        effort = text(form, "effort")
        if effort not in EFFORTS:
            raise HTTPException(400, "Expected an effort of quick, default or full.")
        reading = found["reading"]
        options: dict[str, Any] = {"effort": effort, "device": studio.settings.device, "ledger": studio.settings.ledger}
        options |= {key: reading[key] for key in ("label", "person") if reading.get(key)}
        options["test_split"] = text(form, "test_split") or "test"
        place = str(studio.looks.place(name))
        studio.jobs.add(
            "evaluate", f"{name}: evaluation, internal", who.who, release=place, data=found["source"], options=options
        )
        return RedirectResponse("/runs", 303)

    return router


def _sections(place: Path | None) -> dict[str, Any] | None:
    """The headline of an evaluation, where it can be read."""
    if place is None:
        return None
    try:
        sections: dict[str, Any] = json.loads((place / "evaluation.json").read_bytes())["sections"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return sections


def _working(studio: Studio, name: str) -> bool:
    place = str(studio.settings.folder / name)
    return any(job.asked.get("release") == place and job.state in ("waiting", "running") for job in studio.jobs.all())
