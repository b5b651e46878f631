"""Templates: HTML with autoescape, Markdown with its own escape; names found in data are never trusted."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

_SPECIAL = re.compile(r"([\\`*\[\]|])")


def escape_markdown(value: Any) -> Any:
    """Text that Markdown shows as it is, on one line; what is marked safe passes."""
    from markupsafe import Markup

    if isinstance(value, Markup):
        return value
    text = _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))
    return text.replace("<", "&lt;").replace(">", "&gt;")


@cache
def _environment(html: bool) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=html,
        finalize=None if html else escape_markdown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render_html(template: str, **values: Any) -> str:
    """An HTML page; every value is escaped."""
    return _environment(True).get_template(template).render(**values)


def render_text(template: str, **values: Any) -> str:
    """A Markdown page; every value is escaped."""
    return _environment(False).get_template(template).render(**values)
