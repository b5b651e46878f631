"""Verify: a release of the folder, a folder under the roots, or a zip file from elsewhere; with every check."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from sfumato import api
from sfumato.studio.forms import Custodian, Form, text
from sfumato.studio.studio import Studio
from sfumato.studio.uploads import unpacked
from sfumato.studio.views import page


def routes(studio: Studio) -> APIRouter:
    """The form and its answers."""
    router = APIRouter()

    @router.get("/verify")
    def form_of(request: Request, who: Custodian) -> Response:
        return page(request, "verify.html", names=studio.looks.names(), verdict=None, subject="")

    @router.post("/verify")
    def verify(request: Request, who: Custodian, form: Form) -> Response:
        name, typed = text(form, "release"), text(form, "path", 1000)
        place = studio.roots.typed(typed) if typed else studio.looks.place(name)
        verdict = api.verify(place, public_key=public_key(form)).to_json()
        return page(request, "verify.html", names=studio.looks.names(), verdict=verdict, subject=place.name)

    @router.post("/verify/upload")
    def upload(request: Request, who: Custodian, form: Form) -> Response:
        file = form.get("file")
        if not isinstance(file, UploadFile) or not file.size:
            raise HTTPException(400, "Choose a zip file of a release first.")
        with unpacked(file.file, studio.uploads) as place:
            verdict = api.verify(place, public_key=public_key(form)).to_json()
        return page(request, "verify.html", names=studio.looks.names(), verdict=verdict, subject="the uploaded file")

    return router


def public_key(form: FormData) -> str | None:
    """A key in hex, never the name of a file."""
    key = text(form, "key").lower()
    if key and not re.fullmatch(r"[0-9a-f]{64}", key):
        raise HTTPException(400, "Expected a public key of 64 hex digits, or none.")
    return key or None
