"""Start: what is here."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from sfumato.studio.bars import account_bar
from sfumato.studio.studio import Studio
from sfumato.studio.views import page

SHOWN = 6  # images of a release


def routes(studio: Studio) -> APIRouter:
    """The first page."""
    router = APIRouter()

    @router.get("/")
    def start(request: Request) -> Response:
        custodian = request.state.session.custodian
        sets = [found | _account(studio, found, custodian) for found in studio.sets.all()]
        waiting = [plan for plan in studio.plans.all() if not plan["job"]]
        cards = studio.looks.cards()
        return page(
            request,
            "start.html",
            releases=[
                card | {"shown": [] if card["broken"] else studio.looks.first(card["name"], SHOWN)} for card in cards
            ],
            sets=sets,
            waiting=waiting,
            jobs=[job for job in studio.jobs.all() if job.state in ("running", "waiting")],
            unfinished=studio.unfinished() if custodian else [],
        )

    return router


def _account(studio: Studio, found: dict[str, Any], custodian: bool) -> dict[str, Any]:
    """The account as a bar, as it was last looked at."""
    return {"bar": account_bar(found["account"]), "stale": studio.stale(found)} if custodian else {"bar": None}
