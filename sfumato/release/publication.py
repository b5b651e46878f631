"""What a publisher says of a release: its licence, its title, and whom to ask. Chosen by a person, never by data."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sfumato.errors import InputError

LONGEST = 200
LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,60}")


def publication(license: str | None, title: str | None, contact: str | None) -> dict[str, str]:
    """Those that were given, checked; empty where none was.

    >>> publication("CC-BY-4.0", None, None)
    {'license': 'cc-by-4.0'}
    """
    if license is not None and not LICENCE.fullmatch(license):
        raise InputError(f"Expected --license as a short name such as cc-by-4.0, found {license!r}.")
    for name, words in (("title", title), ("contact", contact)):
        if words is not None and not (words.isprintable() and 0 < len(words.strip()) <= LONGEST):
            raise InputError(f"Expected --{name} as one line of up to {LONGEST} characters, found {words!r}.")
    given = {"license": license and license.lower(), "title": title, "contact": contact}
    return {name: words for name, words in given.items() if words is not None}


def problems(stated: object) -> list[str]:
    """What is wrong with the publication of a statement."""
    if not isinstance(stated, Mapping) or not stated:
        return ["The publication of the statement is empty."]
    try:
        same = publication(*(stated.get(name) for name in ("license", "title", "contact"))) == dict(stated)
    except (InputError, AttributeError, TypeError):
        same = False
    return [] if same else ["The publication of the statement is not as it is written."]
