"""Data: which, whose presence is hidden, and what is declared public. After that the schema and the account alone."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from sfumato.studio.bars import account_bar
from sfumato.studio.forms import Custodian, Form, number, text, whole
from sfumato.studio.settings import DEMO_SETS
from sfumato.studio.studio import Studio
from sfumato.studio.views import page


def routes(studio: Studio) -> APIRouter:
    """The pages of data."""
    router = APIRouter()

    @router.get("/data")
    def data(request: Request, at: str = "") -> Response:
        return page(request, "data.html", sets=studio.sets.all(), **_browsed(studio, request, at))

    @router.get("/data/new")
    def new(request: Request, who: Custodian, at: str = "", named: str = "") -> Response:
        name = named if named in DEMO_SETS else studio.roots.path(at).name
        return page(request, "declare.html", name=name, at=at, named=named)

    @router.post("/data/find")
    def find(request: Request, who: Custodian, form: Form) -> Response:
        found = studio.roots.typed(text(form, "path", 1000))
        return RedirectResponse(f"/data/new?at={studio.roots.name(found)}", 303)

    @router.post("/data")
    def declare(request: Request, who: Custodian, form: Form) -> Response:
        named = text(form, "named")
        source = named if named in DEMO_SETS else str(studio.roots.path(text(form, "at")))
        return RedirectResponse(f"/data/{studio.sets.declare(source, _reading(form))}", 303)

    @router.get("/data/{name}")
    def one(request: Request, name: str) -> Response:
        custodian = request.state.session.custodian
        found = studio.sets.get(name)
        if custodian and studio.stale(found):
            found = studio.sets.look_again(name)
        account = found["account"] if custodian else None
        return page(request, "set.html", found=found, account=account, bar=account and account_bar(account))

    @router.post("/data/{name}/look")
    def look(request: Request, name: str, who: Custodian, form: Form) -> Response:
        studio.sets.look_again(name)
        return RedirectResponse(f"/data/{name}", 303)

    @router.post("/data/{name}/grant")
    def grant(request: Request, name: str, who: Custodian, form: Form) -> Response:
        studio.sets.grant(name, number(text(form, "total"), "total"))
        return RedirectResponse(f"/data/{name}", 303)

    @router.post("/data/{name}/forget")
    def forget(request: Request, name: str, who: Custodian, form: Form) -> Response:
        studio.sets.forget(name)
        return RedirectResponse("/data", 303)

    return router


def _browsed(studio: Studio, request: Request, at: str) -> dict[str, Any]:
    """What a custodian may choose from; an analyst sees declared sets alone."""
    if not request.state.session.custodian:
        return {"entries": [], "above": None, "public": (), "here": None}
    if not at:
        entries = [(studio.roots.name(root), root.name or "/", True) for root in studio.settings.roots]
        return {"entries": entries, "above": None, "public": DEMO_SETS, "here": None}
    path = studio.roots.path(at)
    top = path in studio.settings.roots
    above = "" if top else studio.roots.name(path.parent)
    return {"entries": list(studio.roots.within(path)), "above": above, "public": (), "here": (at, path.name)}


def _reading(form: FormData) -> dict[str, Any]:
    """How the data are read. The unit of protection has no default: whoever declares data must choose it."""
    unit = text(form, "unit")
    person = text(form, "person")
    if unit not in ("record", "person"):
        raise HTTPException(400, "Choose who is protected first: one record, or one person with all their records.")
    if (unit == "person") != bool(person):
        raise HTTPException(
            400, "To protect persons, name the column that says who is shown; otherwise leave it empty."
        )
    private = text(form, "count") == "private"
    reading: dict[str, Any] = {"size": whole(form, "size"), "grey": bool(text(form, "grey")), "private_count": private}
    reading |= {"label": text(form, "label") or None, "person": person or None}
    reading["records"] = whole(form, "records") if private else None
    return reading
