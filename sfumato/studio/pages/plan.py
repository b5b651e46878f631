"""Plan: a method, an epsilon in an attacker's odds, and the price. Nothing here opens a file of data."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from sfumato import api
from sfumato.errors import SfumatoError
from sfumato.flow.make import AUTO
from sfumato.flow.request import HOUSE
from sfumato.flow.request import Request as Asked
from sfumato.methods.registry import RECOMMENDED
from sfumato.release import ensure_free
from sfumato.studio import odds
from sfumato.studio.bars import stacked
from sfumato.studio.forms import Form, number
from sfumato.studio.measured import recommended
from sfumato.studio.plans import asked_fields, proposal_of, time_of
from sfumato.studio.roots import inside, plain_name
from sfumato.studio.sets import spec_of
from sfumato.studio.store import new_id, now
from sfumato.studio.studio import Studio
from sfumato.studio.views import page

FIELDS = ("method", "epsilon", "count", "name", "set", "labels", "license", "title", "contact", "seed")
DEFAULTS = {"method": HOUSE, "epsilon": "1", "count": "1000", "name": "", "set": "", "labels": AUTO, "seed": "0"}


def routes(studio: Studio) -> APIRouter:
    """The pages of plans."""
    router = APIRouter()

    @router.get("/plans")
    def plans(request: Request) -> Response:
        return page(request, "plans.html", plans=studio.plans.all(), sets=studio.sets.all(), jobs=_states(studio))

    @router.get("/plan/{name}")
    def plan(request: Request, name: str) -> Response:
        found = studio.sets.get(name)
        chosen = DEFAULTS | {"name": _free(studio), "license": "", "title": "", "contact": ""} | _given(request)
        asked = bool(request.query_params)
        return page(request, "plan.html", **_planned(studio, request, found, chosen, asked))

    @router.post("/plan/{name}")
    def hand_in(request: Request, name: str, form: Form) -> Response:
        found = studio.sets.get(name)
        asked = request_of(studio, found, DEFAULTS | _texts(form))
        ensure_free(asked.out)
        proposal = proposal_of(asked, spec_of(found), unused=tuple(found["unused"]))
        proposal["rows"].append(time_of(asked, spec_of(found)))
        kept = {"request": asked_fields(asked), "data": name, "by": request.state.session.who, "when": now()}
        kept |= {"proposal": proposal, "approvals": [], "job": None}
        return RedirectResponse(f"/approve/{studio.plans.put(new_id(), kept)}", 303)

    return router


def _planned(
    studio: Studio, request: Request, found: dict[str, Any], chosen: dict[str, str], asked: bool
) -> dict[str, Any]:
    """All that the page shows; a plan that cannot be made says why."""
    spec = spec_of(found)
    account = found["account"] if request.state.session.custodian else None
    told: dict[str, Any] = {"proposal": None, "bar": None, "problem": None}
    try:
        made = request_of(studio, found, chosen)
        if asked:
            told["proposal"] = proposal_of(made, spec, account, tuple(found["unused"]))
            told["bar"] = stacked(
                [(s["name"], s["share"]) for s in told["proposal"]["shares"]], "Share of each crossing"
            )
        wanted = made.epsilon
    except (HTTPException, SfumatoError) as error:
        told["problem"] = str(error.detail if isinstance(error, HTTPException) else error)
        wanted = 1.0
    return told | {
        "found": found,
        "chosen": chosen,
        "scale": odds.scale(),
        "odds": odds.right(wanted, 1e-5),
        "recommended": recommended(spec, wanted),
        "methods": [name for name in method_names() if name not in RECOMMENDED],
    }


@cache
def method_names() -> list[str]:
    """All methods."""
    return [method["name"] for method in api.methods()]


def request_of(studio: Studio, found: dict[str, Any], chosen: dict[str, str]) -> Asked:
    """What a form asks for, as a request of the command line."""
    if chosen["method"] not in method_names():
        raise HTTPException(400, "There is no method of this name; choose one of the list.")
    count, seed = (_whole(chosen, name) for name in ("count", "seed"))
    more: dict[str, Any] = {name: chosen.get(name) or None for name in ("license", "title", "contact")}
    return Asked(
        data=found["source"],
        method=chosen["method"],
        epsilon=number(chosen["epsilon"], "epsilon"),
        count=count,
        seed=seed,
        labels=_labels(chosen["labels"]),
        settings=_settings(chosen["set"]),
        device=studio.settings.device,
        ledger=studio.settings.ledger,
        out=str(inside(studio.settings.folder, plain_name(chosen["name"]))),
        **more,
        **found["reading"],
    )


def _labels(value: str) -> str:
    """Shares of the labels that cost something, or even ones; never a file of the server."""
    if value not in (AUTO, "uniform") and not value.startswith("private:"):
        raise HTTPException(400, "Expected labels as auto, uniform, or private: with a share such as private:0.1.")
    return value


def _whole(chosen: dict[str, str], name: str) -> int:
    text = chosen[name].replace(",", "")
    if not text.isdecimal() or len(text) > 9:
        raise HTTPException(400, f"Expected a whole number in the field “{name}”.")
    return int(text)


def _settings(text: str) -> dict[str, str]:
    """Lines of field=value."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any("=" not in line for line in lines):
        raise HTTPException(400, "Expected settings as field=value, one a line.")
    return {line.partition("=")[0].strip(): line.partition("=")[2].strip() for line in lines}


def _given(request: Request) -> dict[str, str]:
    return _texts(request.query_params)


def _texts(given: FormData | QueryParams) -> dict[str, str]:
    found = {name: given.get(name) for name in FIELDS}
    texts = {name: value.strip()[:2000] for name, value in found.items() if isinstance(value, str)}
    other = given.get("other")
    return texts | ({"method": other} if isinstance(other, str) and other else {})


def _free(studio: Studio) -> str:
    """A name that no release has, and that no plan asks for."""
    taken = {path.name for path in studio.settings.folder.iterdir()}
    taken |= {plan["request"]["out"].rpartition("/")[2] for plan in studio.plans.all()}
    return next(name for number in range(1, 10_000) if (name := f"release-{number}") not in taken)


def _states(studio: Studio) -> dict[str, str]:
    return {job.id: job.state for job in studio.jobs.all()}
