"""Approve: the price is confirmed by typing it, by one custodian or by two. Then the run waits for its turn."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from sfumato.flow.request import Request as Asked
from sfumato.studio.bars import account_bar, stacked
from sfumato.studio.forms import Custodian, Form, text
from sfumato.studio.plans import proposal_of
from sfumato.studio.sets import spec_of
from sfumato.studio.store import now
from sfumato.studio.studio import Studio
from sfumato.studio.views import page

HOPELESS = "Nothing useful can come of this plan; tick that you want it all the same, or withdraw it."
MISTYPED = "The epsilon that was typed is not the price of this plan; nothing was approved."


def routes(studio: Studio) -> APIRouter:
    """A plan that was handed in, and the word that lets it run."""
    router = APIRouter()
    once = threading.Lock()

    @router.get("/approve/{name}")
    def look(request: Request, name: str) -> Response:
        plan = _plan(studio, name)
        found = _found(studio, plan)
        custodian = request.state.session.custodian
        proposal = plan["proposal"]
        if custodian and found and not plan["job"]:
            unused = tuple(found["unused"])
            timed = [row for row in proposal["rows"] if row["name"] == "time"]
            proposal = proposal_of(Asked(**plan["request"]), spec_of(found), found["account"], unused)
            proposal["rows"] += timed
        return page(
            request,
            "approve.html",
            plan=plan,
            found=found,
            proposal=proposal,
            account=account_bar(found["account"]) if custodian and found else None,
            bar=stacked([(s["name"], s["share"]) for s in proposal["shares"]], "Share of each crossing"),
            needed=studio.settings.approvals,
            mine=any(each["who"] == request.state.session.who for each in plan["approvals"]),
        )

    @router.post("/approve/{name}")
    def approve(request: Request, name: str, who: Custodian, form: Form) -> Response:
        with once:
            plan = _plan(studio, name)
            _check(plan, text(form, "price"), text(form, "force"), who.who)
            approvals = [*plan["approvals"], {"who": who.who, "when": now(), "studio": studio.born}]
            job = _queue(studio, plan, approvals) if len(approvals) >= studio.settings.approvals else None
            studio.plans.put(name, plan | {"approvals": approvals, "job": job})
        return RedirectResponse("/runs" if job else f"/approve/{name}", 303)

    @router.post("/approve/{name}/withdraw")
    def withdraw(request: Request, name: str, form: Form) -> Response:
        plan = studio.plans.get(name)
        if plan["job"]:
            raise HTTPException(409, "This plan was approved already; stop its run instead.")
        if not request.state.session.custodian and plan["by"] != request.state.session.who:
            raise HTTPException(403, "A plan is withdrawn by whoever handed it in, or by a custodian.")
        studio.plans.drop(name)
        return RedirectResponse("/plans", 303)

    return router


def _plan(studio: Studio, name: str) -> dict[str, Any]:
    """A plan with the approvals that count: after a restart nobody knows who gave those before, and they are void."""
    plan = studio.plans.get(name)
    kept = [each for each in plan["approvals"] if plan["job"] or each["studio"] == studio.born]
    return plan | {"approvals": kept}


def _check(plan: dict[str, Any], typed: str, forced: str, who: str) -> None:
    if plan["job"]:
        raise HTTPException(409, "This plan was approved already.")
    if any(each["who"] == who for each in plan["approvals"]):
        raise HTTPException(409, "You have approved this plan; the second word is another custodian's.")
    try:
        right = float(typed) == plan["request"]["epsilon"]
    except ValueError:
        right = False
    if not right:
        raise HTTPException(400, MISTYPED)
    if plan["proposal"]["hopeless"] and forced != "yes":
        raise HTTPException(400, HOPELESS)


def _queue(studio: Studio, plan: dict[str, Any], approvals: list[dict[str, Any]]) -> str:
    asked = plan["request"]
    by = " and ".join(each["who"] for each in approvals)
    title = f"{Path(asked['out']).name}: {asked['method']}, epsilon {asked['epsilon']:g}"
    force = bool(plan["proposal"]["hopeless"])  # each who approved has ticked it
    return studio.jobs.add("synthesize", title, by, request=asked, out=asked["out"], force=force)


def _found(studio: Studio, plan: dict[str, Any]) -> dict[str, Any] | None:
    """The declared data of a plan, unless they were forgotten."""
    try:
        return studio.sets.get(plan["data"])
    except HTTPException:
        return None
