"""YAML in its plainest form: nested mappings and lists of quoted text and numbers, one value a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Characters that JSON may leave bare and YAML takes for line breaks or refuses.
_BARE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


@dataclass(frozen=True)
class Blank:
    """A value that only a person knows: null, with a comment that says what belongs there."""

    comment: str


def to_yaml(value: Mapping[str, Any]) -> str:
    """A mapping as YAML text.

    >>> print(to_yaml({"a": {"b": 1e-05, "c": [{"d": "x"}]}, "e": Blank("say what")}), end="")
    a:
      b: 1.0e-05
      c:
        - d: "x"
    e: null  # say what
    """
    return "".join(f"{line}\n" for line in _mapping(value))


def _mapping(value: Mapping[str, Any]) -> Iterator[str]:
    for key, part in value.items():
        if isinstance(part, Mapping | list | tuple):
            yield f"{key}:"
            yield from (f"  {line}" for line in _block(part))
        else:
            yield f"{key}: {scalar(part)}"


def _block(value: Mapping[str, Any] | Sequence[Any]) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _mapping(value)
        return
    for part in value:
        lines = list(_mapping(part)) if isinstance(part, Mapping) else [scalar(part)]
        yield from (f"- {line}" if number == 0 else f"  {line}" for number, line in enumerate(lines))


def scalar(value: Any) -> str:
    """One value; text is always quoted, so that nothing in it can be taken for structure."""
    if isinstance(value, Blank):
        return f"null  # {value.comment}"
    if isinstance(value, float):
        mantissa, e, exponent = repr(value).partition("e")
        # Readers of YAML 1.1 take 1e-05 for text unless it has a point.
        return f"{mantissa}.0e{exponent}" if e and "." not in mantissa else repr(value)
    quoted = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _BARE.sub(lambda match: f"\\u{ord(match.group()):04x}", quoted)
