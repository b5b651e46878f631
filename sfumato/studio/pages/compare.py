"""Compare: releases side by side, grids first. Accuracies were measured on real images, and are for custodians."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from sfumato import api
from sfumato.studio.studio import Studio
from sfumato.studio.views import page

MOST = 6
EACH = 6  # images of a class
CLASSES = 10
MEASURED = ("accuracy", "real", "fid", "test")


def routes(studio: Studio) -> APIRouter:
    """Choose, and look."""
    router = APIRouter()

    @router.get("/compare")
    def compare(request: Request) -> Response:
        chosen = list(dict.fromkeys(request.query_params.getlist("release")))
        if len(chosen) > MOST:
            raise HTTPException(400, f"At most {MOST} releases fit side by side; choose fewer.")
        rows = _rows(studio, chosen, request.state.session.custodian) if len(chosen) > 1 else []
        groups = [("Comparable", [row for row in rows if row["comparable"]])]
        groups.append(
            ("Set apart: another unit, relation, delta or data", [row for row in rows if not row["comparable"]])
        )
        told: dict[str, Any] = {"chosen": chosen, "groups": [group for group in groups if group[1]]}
        return page(request, "compare.html", cards=studio.looks.cards(), private=_private(rows), **told)

    return router


def _rows(studio: Studio, names: list[str], custodian: bool) -> list[dict[str, Any]]:
    """The rows of `sfumato compare`, which writes its page where nobody keeps it."""
    places = [studio.looks.place(name) for name in names]
    with tempfile.TemporaryDirectory(dir=studio.uploads) as folder:
        found = api.compare(places, Path(folder) / "comparison")["rows"]
    rows = [row | {"grid": _grid(studio, name), "name": name} for row, name in zip(found, names, strict=True)]
    return rows if custodian else [row | dict.fromkeys(MEASURED) | {"notes": []} for row in rows]


def _grid(studio: Studio, name: str) -> list[tuple[str, list[int]]]:
    images, _ = studio.looks.images(name)
    classes = enumerate(images.classes[:CLASSES])
    return [(each, studio.looks.members(name, label, 0, EACH)) for label, each in classes]


def _private(rows: list[dict[str, Any]]) -> bool:
    return any(row["accuracy"] or row["fid"] for row in rows)
