"""`--set field=value`: text into the typed fields of a method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_type_hints

from sfumato.errors import InputError
from sfumato.methods.base import Method

TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse(cls: type[Method], given: Mapping[str, str]) -> dict[str, Any]:
    """Each value as its field's type.

    >>> from sfumato.methods.embedding.dp_merf import DPMERF
    >>> parse(DPMERF, {"features": "500", "bandwidth": "0.5"})
    {'features': 500, 'bandwidth': 0.5}
    """
    known = cls().settings()
    types = get_type_hints(cls)
    for field in given:
        if field not in known:
            raise InputError(f"Expected a setting of {', '.join(known)}, found '{field}'.")
    return {field: _value(field, text, types[field]) for field, text in given.items()}


def _value(field: str, text: str, kind: type) -> Any:
    try:
        return TRUTH[text.lower()] if kind is bool else kind(text)
    except (ValueError, KeyError, OverflowError) as error:
        raise InputError(f"Expected --set {field}=VALUE of type {kind.__name__}, found '{text}'.") from error
