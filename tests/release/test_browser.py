"""The pages in a real browser: they render, complain of nothing, and ask nobody for anything."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from sfumato.evaluate.report import make_html
from sfumato.release.documents.report import make_report
from tests.evaluate.test_report import fake_real, fake_report
from tests.release.files.test_fakes import fake_images, fake_release

BROWSER = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
    "--v=0",
    "--dump-dom",
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")


def opened(html: str, folder: Path) -> tuple[str, list[str], list[str]]:
    """What the browser made of a page: its elements, its complaints, and the addresses that the page asked for."""
    page, log = folder / "page.html", folder / "net.json"
    page.write_text(html, encoding="utf-8")
    asked = (f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", page.as_uri())
    done = subprocess.run([BROWSER, *FLAGS, *asked], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line], _requests(log)


def _requests(log: Path) -> list[str]:
    """What a page asks for has that page as its initiator; the browser's own errands have none."""
    wanted = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    return [one["url"] for one in wanted if one.get("initiator", "not an origin") != "not an origin"]


def pages() -> dict[str, str]:
    release = fake_release(fake_images(30))
    real = fake_real(public=True)
    return {
        "release": make_report(release.statement, release.images),
        "evaluation": make_html(fake_report(release, real), release, real),
    }


@pytest.mark.parametrize("name", ["release", "evaluation"])
def test_a_page_renders_without_a_complaint_or_a_request(name, tmp_path):
    elements, complaints, requests = opened(pages()[name], tmp_path)
    assert complaints == [] and requests == []
    assert "<svg" in elements and elements.rstrip().endswith("</html>") and "alert(1)&lt;/script&gt;" in elements


def test_complaints_and_requests_would_be_noticed(tmp_path):
    script = "<script>console.error('trouble')</script>"
    _, complaints, requests = opened(f'<!doctype html><img src="http://elsewhere.example/x.png">{script}', tmp_path)
    assert "trouble" in complaints[0] and requests == ["http://elsewhere.example/x.png"]
