"""What every form of the studio goes through, and who may send it."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from sfumato.studio.sessions import Session

STALE = "This form is not of your session, or too old; open its page again."
CUSTODIANS = "This is for custodians; open the studio by a custodian's link."


async def checked(request: Request) -> AsyncIterator[FormData]:
    """The fields of a form that carries the word of its session."""
    async with request.form(max_files=1, max_fields=60) as form:
        if not hmac.compare_digest(str(form.get("csrf", "")).encode(), request.state.session.csrf.encode()):
            raise HTTPException(403, STALE)
        yield form


def custodian(request: Request) -> Session:
    """The session, if it is a custodian's."""
    session: Session = request.state.session
    if not session.custodian:
        raise HTTPException(403, CUSTODIANS)
    return session


Form = Annotated[FormData, Depends(checked)]
Custodian = Annotated[Session, Depends(custodian)]


def text(form: FormData, name: str, most: int = 200) -> str:
    """One field, stripped; a file or a very long text is none."""
    value = form.get(name, "")
    return value.strip()[:most] if isinstance(value, str) else ""


def whole(form: FormData, name: str) -> int | None:
    """A field as a whole number, or None where it is empty."""
    value = text(form, name).replace(",", "")
    if not value:
        return None
    if not value.isdecimal() or len(value) > 12:
        raise HTTPException(400, f"Expected a whole number in the field “{name}”; go back and mend it.")
    return int(value)


def number(value: str, name: str) -> float:
    """A field as a number above 0."""
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1e6:
        raise HTTPException(400, f"Expected a number above 0 in the field “{name}”; go back and mend it.")
    return found
