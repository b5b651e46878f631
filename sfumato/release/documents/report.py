"""report.html: one self-contained page to look at."""

from __future__ import annotations

import base64
import io
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.images import png
from sfumato.release.documents.decision import decision, to_do
from sfumato.release.documents.render import render_html
from sfumato.release.files.gate import POINTS
from sfumato.release.files.names import public_command
from sfumato.release.files.sign import Signature
from sfumato.release.statement.curve import curve_svg
from sfumato.release.statement.numbers import epsilon, one_in, percent, show
from sfumato.release.statement.statement import TITLES
from sfumato.release.statement.wording import MU, opinion_words
from sfumato.types import Images

if TYPE_CHECKING:
    from sfumato.run.preview import Snapshots

COLUMNS = 10
PAIR = 25  # images of each of two classes, which lie side by side
MOST_CLASSES = 40
LARGEST = 128
SHOWN = 56  # pixels of the page for an image of a preview
MACHINE = ("curve", "accounted", "checks")


def make_report(
    statement: dict[str, Any],
    images: Images,
    snapshots: Snapshots | None = None,
    *,
    command: str | None = None,
    signed: Signature | None = None,
) -> str:
    """The report of a release. It loads nothing from anywhere, and runs no script.

    The command is the statement's own unless one is given; `signed` says by which key the folder is signed.
    """
    command = public_command(command) if command else statement["reproducibility"].get("command")
    return render_html(
        "report.html.j2",
        s=statement,
        title=statement.get("publication", {}).get("title"),
        decision=decision(statement, images, signed),
        to_do=to_do(statement, signed),
        rows=sample_rows(images, PAIR if len(images.classes) == 2 else COLUMNS),
        pair=len(images.classes) == 2,
        snapshots=snapshot_rows(snapshots, images),
        hidden_classes=max(0, len(images.classes) - MOST_CLASSES),
        small=max(images.pixels.shape[2:]) < 64,
        count=len(images),
        curve=curve_svg(statement["guarantee"]),
        points=[(TITLES[name], list(flat(statement[name]))) for name in POINTS],
        success=statement["plain_words"]["attacker_success"],
        command=_one_option_a_line(command) if command else None,
        show=show,
        eps=epsilon,
        one_in=one_in,
        percent=percent,
        opinion=opinion_words,
        mu=MU,
    )


def _one_option_a_line(command: str) -> str:
    try:
        words = [shlex.quote(word) for word in shlex.split(command)]
    except ValueError:  # an open quote
        return command
    return " ".join(f"\\\n    {word}" if word.startswith("--") else word for word in words)


def sample_rows(images: Images, most: int = COLUMNS) -> list[dict[str, Any]]:
    """The first images of each class as data addresses, one row a class."""
    rows = []
    for number, name in enumerate(images.classes[:MOST_CLASSES]):
        members = np.flatnonzero(images.labels == number)
        pictures = [_address(images.pixels[member]) for member in members[:most]]
        rows.append({"name": name, "count": len(members), "pictures": pictures})
    return rows


def snapshot_rows(snapshots: Snapshots | None, images: Images) -> list[dict[str, Any]]:
    """The previews of a run as data addresses, one row a moment."""
    if snapshots is None:
        return []
    width = SHOWN * snapshots.pixels.shape[3] // images.pixels.shape[3]
    return [
        {"step": step, "total": snapshots.total, "epsilon": spent, "picture": _packed(png(pixels)), "width": width}
        for pixels, step, spent in zip(snapshots.pixels, snapshots.steps, snapshots.epsilons, strict=True)
    ]


def _address(pixels: np.ndarray) -> str:
    data = png(pixels) if max(pixels.shape[1:]) <= LARGEST else _thumbnail(pixels)
    return _packed(data)


def _packed(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _thumbnail(pixels: np.ndarray) -> bytes:
    from PIL import Image

    with Image.open(io.BytesIO(png(pixels))) as image:
        image.thumbnail((LARGEST, LARGEST))
        buffer = io.BytesIO()
        image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def flat(point: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """One point of the statement as names and the lines beneath them; long lists of numbers are for machines."""
    return [(name.replace("_", " "), lines(value)) for name, value in point.items() if name not in MACHINE]


def lines(value: Any) -> list[str]:
    """A value as lines of text: a list of sentences or objects has one line for each."""
    if value == []:
        return ["none"]
    if isinstance(value, list) and all(isinstance(part, dict | list) or len(str(part)) > 24 for part in value):
        return [show(part, 6) for part in value]
    return [show(value, 6)]
