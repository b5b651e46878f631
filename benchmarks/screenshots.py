"""Pictures of a page for the documentation, at the widths of a desktop and of a phone, taken by Debian's chromium.

    sfumato evaluate demo/release --data fashion-mnist
    python -m benchmarks.screenshots demo/release-evaluation/report.html docs/images/evaluation

writes docs/images/evaluation-desktop.png and docs/images/evaluation-phone.png. A third and a fourth argument bound
their heights, in pixels of the page.

    python -m benchmarks.screenshots confirm:DATA:PERSON:EPSILON docs/images/confirmation

does the same for the screen on which a run of DATA is confirmed; nothing is spent.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

WIDTHS = {"desktop": 1280, "phone": 390}
HEIGHTS = {"desktop": 2400, "phone": 2400}
LARGEST = 400_000
TALLEST = 16_000
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def shot(page: Path, width: int, height: int, scale: int = 1) -> Image.Image:
    """The page from its top, laid out for a screen of this width.

    A window has a least width, so that the page sits in a frame within a wider one.
    """
    with tempfile.TemporaryDirectory() as home:
        frame = (
            f'<iframe src="{page.resolve().as_uri()}" style="border:0;display:block;width:{width}px;height:{height}px">'
        )
        holder = Path(home) / "holder.html"
        picture = Path(home) / "picture.png"
        holder.write_text(f'<!doctype html><body style="margin:0;background:#fff">{frame}</iframe>')
        asked = [
            f"--user-data-dir={home}/profile",
            f"--window-size={max(width, 800)},{height}",
            f"--force-device-scale-factor={scale}",
            f"--screenshot={picture}",
        ]
        program = shutil.which("chromium") or sys.exit("chromium is not installed")
        subprocess.run([program, *FLAGS, *asked, str(holder)], check=True, capture_output=True, timeout=120)
        with Image.open(picture) as image:
            return image.convert("RGB").crop((0, 0, width * scale, height * scale))


def trimmed(image: Image.Image) -> Image.Image:
    """Without the empty end of a page that is shorter than the picture."""
    last = image.getpixel((image.width // 2, image.height - 1))
    box = ImageChops.difference(image, Image.new("RGB", image.size, last)).getbbox()
    return image.crop((0, 0, image.width, min(image.height, box[3] + 40))) if box else image


def packed(image: Image.Image) -> bytes:
    """PNG with as many colours as a light file allows; a picture that is still heavy is made smaller."""
    for made in (image, *(image.quantize(n, method=Image.Quantize.FASTOCTREE) for n in (256, 128))):
        buffer = io.BytesIO()
        made.save(buffer, "PNG", optimize=True)
        if buffer.tell() <= LARGEST:
            return buffer.getvalue()
    return packed(image.resize((image.width * 9 // 10, image.height * 9 // 10), Image.Resampling.LANCZOS))


def confirmation(words: str, folder: str) -> Path:
    """A page with the screen of a terminal: what `sfumato synthesize` shows before it spends."""
    from rich.console import Console

    from sfumato.cli.confirm import QUESTION, show
    from sfumato.flow.request import HOUSE, Request, proposed

    data, person, epsilon = words.split(":")
    asked = Request(data=data, method=HOUSE, person=person or None, epsilon=float(epsilon))
    screen = Console(record=True, width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    show(screen, proposed(asked)[1].to_json(), "Before anything is spent")
    screen.print(QUESTION, end="")
    page = Path(folder) / "confirmation.html"
    page.write_text(screen.export_html(inline_styles=True))
    return page


def main(source: str, target: str, heights: dict[str, int]) -> None:
    """The pictures of one page."""
    with tempfile.TemporaryDirectory() as folder:
        page = confirmation(source.removeprefix("confirm:"), folder) if source.startswith("confirm:") else Path(source)
        for name, wide in WIDTHS.items():
            made = Path(f"{target}-{name}.png")
            made.write_bytes(packed(trimmed(shot(page, wide, min(heights[name], TALLEST)))))
            print(made, made.stat().st_size)


if __name__ == "__main__":
    heights = dict(zip(WIDTHS, (*map(int, sys.argv[3:5]), *list(HEIGHTS.values())[len(sys.argv[3:5]) :]), strict=True))
    main(sys.argv[1], sys.argv[2], heights)
