"""What the site does beyond its configuration: a page of each method in the navigation, and nothing from a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

METHODS = Path(__file__).parent / "methods"
# What a browser fetches by itself; a link that a reader may follow is another thing.
FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(?:https?:)?//"
    r"|<link\b[^>]*\bhref=[\"']?(?:https?:)?//"
    r"|@import\s+(?:url\()?[\"']?(?:https?:)?//"
    r"|url\([\"']?(?:https?:)?//",
    re.IGNORECASE,
)


def on_config(config: Any) -> Any:
    """Add the pages of the methods to the navigation."""
    (section,) = (entry["Methods"] for entry in config.nav if "Methods" in entry)
    section += [f"methods/{page.name}" for page in sorted(METHODS.glob("*.md")) if page.name != "index.md"]
    return config


def on_post_build(config: Any) -> None:
    """Refuse a site whose pages or styles fetch anything from elsewhere."""
    fetching = fetched(Path(config.site_dir))
    if fetching:
        raise SystemExit("Pages fetch from elsewhere: " + "; ".join(fetching))


def fetched(site: Path) -> list[str]:
    """Each place of a built site that a browser would fetch from elsewhere."""
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    hits = ((file, FETCHED.search(file.read_text(errors="replace"))) for file in sorted(files))
    return [f"{file.relative_to(site)}: {hit[0]}" for file, hit in hits if hit]
