"""Publish: the decision box once more, a rehearsal that sends nothing, and then the real thing."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from sfumato import api
from sfumato.studio.forms import Custodian, Form, text
from sfumato.studio.pages.release import decided
from sfumato.studio.pages.verify import public_key
from sfumato.studio.roots import inside, plain_name
from sfumato.studio.studio import Studio
from sfumato.studio.views import page

WAYS = {"zip": "One zip file beside the release", "folder": "A copy as a folder", "hf": "A hub, by its own login"}


def routes(studio: Studio) -> APIRouter:
    """The form and what came of it."""
    router = APIRouter()

    @router.get("/publish/{name}")
    def form_of(request: Request, name: str, who: Custodian) -> Response:
        return _page(studio, request, name, None)

    @router.post("/publish/{name}")
    def publish(request: Request, name: str, who: Custodian, form: Form) -> Response:
        earnest = text(form, "act") == "send"
        if earnest and text(form, "sure") != "yes":
            raise HTTPException(400, "Tick the box that you have read what is to know before publishing.")
        if earnest and studio.settings.demo and text(form, "way") == "hf":
            raise HTTPException(400, "A demo sends nothing to a hub; choose a zip file or a folder.")
        to = _destination(studio, form)
        private = bool(text(form, "private")) and to.startswith("hf:")
        facts = api.publish(
            studio.looks.place(name), to, dry_run=not earnest, public_key=public_key(form), private=private
        )
        return _page(studio, request, name, facts)

    return router


def _page(studio: Studio, request: Request, name: str, facts: dict[str, Any] | None) -> Response:
    told: dict[str, Any] = {"s": studio.looks.statement(name), "ways": WAYS, "facts": facts}
    return page(request, "publish.html", name=name, **told, **decided(studio, name))


def _destination(studio: Studio, form: FormData) -> str:
    """Files go into the studio's own folder; a hub has names of its own."""
    way, name = text(form, "way"), text(form, "to")
    if way not in WAYS:
        raise HTTPException(400, "Choose where to publish: a zip file, a folder or a hub.")
    if way == "hf":
        return f"hf:{name}"
    plain = plain_name(name.removesuffix(".zip")) + (".zip" if way == "zip" else "")
    return f"{way}:{inside(studio.settings.folder, plain)}"
