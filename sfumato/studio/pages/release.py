"""A release: its images first, then its statement in words, the curve and the box to decide by."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from sfumato.release.documents.decision import decision, to_do
from sfumato.release.files.sign import Signature
from sfumato.release.statement.curve import curve_svg
from sfumato.studio.studio import Studio
from sfumato.studio.views import page

ROW = 12  # images of a class on the first page
WHOLE = 96  # and on the page of one class
MOST_CLASSES = 40


def routes(studio: Studio) -> APIRouter:
    """The pages of a release."""
    router = APIRouter()
    looks = studio.looks

    @router.get("/release/{name}")
    def look(request: Request, name: str) -> Response:
        statement = looks.statement(name)
        images, once = looks.images(name)
        rows = [
            {"label": label, "name": each, "numbers": looks.members(name, label, 0, ROW)}
            for label, each in enumerate(images.classes[:MOST_CLASSES])
        ]
        return page(
            request,
            "release.html",
            name=name,
            s=statement,
            rows=rows,
            count=len(images),
            distinct=once,
            curve=curve_svg(statement["guarantee"]),
            evaluated=looks.evaluation(name) is not None,
            **decided(studio, name),
        )

    @router.get("/release/{name}/class/{label}")
    def of_class(request: Request, name: str, label: int, first: int = 0) -> Response:
        images, _ = looks.images(name)
        if not 0 <= label < len(images.classes) or first < 0:
            raise HTTPException(404, "There is no such class in the release.")
        numbers = looks.members(name, label, first, WHOLE + 1)
        more = first + WHOLE if len(numbers) > WHOLE else None
        told: dict[str, Any] = {"label": label, "first": first, "more": more, "class_name": images.classes[label]}
        return page(request, "class.html", name=name, numbers=numbers[:WHOLE], whole=WHOLE, **told)

    @router.get("/release/{name}/image/{number}.png")
    def picture(name: str, number: int) -> Response:
        return Response(looks.picture(name, number), media_type="image/png")

    @router.get("/release/{name}/image/{number}")
    def zoom(request: Request, name: str, number: int) -> Response:
        images, _ = looks.images(name)
        looks.picture(name, number)
        told: dict[str, Any] = {
            "number_of": number,
            "count": len(images),
            "class_name": images.classes[images.labels[number]],
        }
        return page(request, "image.html", name=name, near=looks.nearest(name, number), **told)

    return router


def decided(studio: Studio, name: str) -> dict[str, Any]:
    """The box that whoever publishes decides by."""
    statement = studio.looks.statement(name)
    images, _ = studio.looks.images(name)
    signed = signature(studio, name)
    return {"decision": decision(statement, images, signed), "to_do": to_do(statement, signed), "signed": signed}


def signature(studio: Studio, name: str) -> Signature | None:
    """Who signed a release, as its own file says; `verify` tells whether it is true."""
    try:
        told = json.loads((studio.looks.place(name) / "signature.json").read_bytes())
        return Signature(str(told["public_key"]), told.get("signer"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
