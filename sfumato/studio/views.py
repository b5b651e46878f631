"""Pages: templates with autoescape, and what every page is told."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sfumato.release.statement.numbers import epsilon, one_in, percent, show
from sfumato.studio.sessions import Session

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
NAV = (
    ("/", "Start", False),
    ("/data", "Data", False),
    ("/plans", "Plans", False),
    ("/runs", "Runs", False),
    ("/compare", "Compare", False),
    ("/verify", "Verify", True),
    ("/audit", "Audit", True),
)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"show": show, "eps": epsilon, "one_in": one_in, "percent": percent}
    return made


def page(request: Request, template: str, **values: Any) -> Response:
    """A page for whoever asks; names of data never stand in its title."""
    session: Session | None = getattr(request.state, "session", None)
    settings = getattr(request.state, "settings", None)
    numbers = count(1)
    told = {
        "session": session,
        "csrf": session.csrf if session else "",
        "demo": bool(settings and settings.demo),
        "nav": [(at, name) for at, name, inside in NAV if session and (session.custodian or not inside)],
        "at": "/" + request.url.path.split("/")[1],
        "number": lambda: next(numbers),  # of what needs a name on the page
    }
    return HTMLResponse(_environment().get_template(template).render(told | values))


def error_page(request: Request, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """One sentence."""
    answer = page(request, "error.html", sentence=sentence, status=status)
    answer.status_code = status
    answer.headers.update(headers or {})
    return answer
