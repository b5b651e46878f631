"""Pictures of every page of the studio, at the widths of a desktop and of a phone, and what axe-core finds on them.

    npm install --prefix /tmp/axe axe-core
    python -m benchmarks.studio_pages docs/images/studio --axe /tmp/axe/node_modules/axe-core/axe.min.js

Starts a demo of its own, goes through the whole story in Debian's chromium, and ends it. Prints a line of JSON a page
and scheme; exit status 1 where axe-core finds a serious or critical violation.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = "/usr/bin/chromium"
WIDTHS = {"desktop": (1200, 900), "phone": (390, 844)}
TINY = "features=200\nsteps=300"
SERIOUS = ("serious", "critical")


@contextmanager
def demo(*options: str) -> Iterator[str]:
    """The custodian's link of a studio that ends with the block."""
    command = [sys.executable, "-m", "sfumato", "studio", "--demo", "--port", "0", "--json", *options]
    with tempfile.TemporaryDirectory() as place:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"TMPDIR": place})
        assert server.stdout
        try:
            yield json.loads(server.stdout.readline())["links"][0]["link"]
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()


def run_one(page: Any, name: str, epsilon: str, settings: str) -> None:
    """Plan, approve and wait, as a person does."""
    page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/")[2] + "/plans")
    page.get_by_role("link", name="Plan with digits").click()
    page.locator("#other").select_option("dp-merf")
    page.get_by_label("Epsilon, the price").fill(epsilon)
    page.get_by_label("Synthetic images").fill("300")
    page.get_by_label("Name of the release").fill(name)
    page.get_by_text("Licence, title, settings").click()
    page.get_by_label("Licence, such as").fill("cc-by-4.0")
    page.get_by_label("Settings of the method").fill(settings)
    page.get_by_role("button", name="Show the plan").click()


def approve(page: Any, epsilon: str) -> None:
    """Type the price."""
    page.get_by_label(re.compile("Type the price")).fill(epsilon)
    page.get_by_role("button", name="Approve").click()


def _small(picture: bytes, path: Path) -> None:
    """A picture in few colours, for a repository."""
    from PIL import Image

    Image.open(io.BytesIO(picture)).convert("RGB").quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)


class Camera:
    """Takes each page at both widths, and asks axe-core in both schemes."""

    def __init__(self, page: Any, out: Path, axe: str | None) -> None:
        self.page = page
        self.out = out
        self.axe = Path(axe).read_text() if axe else None
        self.bad = 0

    def __call__(self, name: str) -> None:
        self.page.wait_for_load_state()
        for width, (wide, high) in WIDTHS.items():
            self.page.set_viewport_size({"width": wide, "height": high})
            self.page.wait_for_function("[...document.images].every(image => image.complete)")
            too_wide = self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
            _small(self.page.screenshot(full_page=True, scale="css"), self.out / f"{name}-{width}.png")
            told: dict[str, Any] = {"page": name, "width": width, "scrolls_sideways": too_wide}
            for scheme in ("dark", "light") if self.axe else ():
                self.page.emulate_media(color_scheme=scheme)
                told[scheme] = self._violations()
            print(json.dumps(told), flush=True)
        self.page.set_viewport_size({"width": 1200, "height": 900})

    def _violations(self) -> list[str]:
        """Run in the browser's own tools, which the page's policy does not bind."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("Runtime.evaluate", {"expression": self.axe})
        asked = {"expression": "axe.run().then(r => JSON.stringify(r.violations))", "awaitPromise": True}
        found = json.loads(session.send("Runtime.evaluate", asked)["result"]["value"])
        session.detach()
        self.bad += sum(each["impact"] in SERIOUS for each in found)
        return [f"{v['impact']}: {v['id']} ({v['nodes'][0]['html'][:120]})" for v in found]


def story(page: Any, camera: Camera, link: str) -> None:
    """Every page, in the order in which a custodian meets them."""
    page.goto(link)
    page.wait_for_url("**/")
    page.get_by_role("link", name="Data", exact=True).click()
    camera("data")
    page.get_by_role("link", name="digits", exact=True).last.click()
    camera("declare")
    page.get_by_role("link", name="Data", exact=True).click()
    page.get_by_role("link", name="digits", exact=True).first.click()
    page.get_by_label(re.compile("Grant in all")).fill("8")
    page.get_by_role("button", name="Set the total").click()
    for number, epsilon in enumerate(("2", "1"), 1):
        run_one(page, f"digits-{number}", epsilon, TINY.replace("300", "6000") if number == 1 else TINY)
        if number == 1:
            camera("plan")
        page.get_by_role("button", name="Hand in").click()
        if number == 1:
            camera("approve")
        approve(page, epsilon)
        if number == 1:
            page.get_by_text("training").wait_for(timeout=60_000)
            camera("runs")
        page.wait_for_selector(".run.is-done >> nth=" + str(number - 1), timeout=90_000)
    page.wait_for_timeout(3000)  # in which the account is looked at again
    page.goto(page.url.replace("/runs", "/"))
    camera("start")
    after(page, camera)


def after(page: Any, camera: Camera) -> None:
    """What can be done with a release."""
    page.get_by_role("link", name="Data", exact=True).click()
    page.get_by_role("link", name="digits", exact=True).first.click()
    camera("set")
    page.get_by_role("link", name="Sfumato studio").click()
    page.get_by_role("link", name="digits-1", exact=True).click()
    camera("release")
    page.locator(".class .grid a").first.click()
    camera("image")
    page.go_back()
    page.locator(".class h3 a").first.click()
    camera("class")
    page.go_back()
    page.get_by_role("link", name="Publish", exact=True).click()
    page.get_by_role("button", name="Only show").click()
    camera("publish")
    page.get_by_role("link", name="Back to the release").click()
    page.get_by_role("button", name="Verify, with every check").click()
    camera("verify")
    page.get_by_role("link", name="Compare").click()
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Compare").click()
    camera("compare")
    page.get_by_role("link", name="Audit").click()
    page.get_by_role("button", name="Run them now").click()
    page.wait_for_selector(".faults .ok", timeout=90_000)
    camera("audit")
    page.goto(page.url.replace("/audit", "/internal/digits-1"))
    page.get_by_label("The real data").select_option(label="digits")
    page.get_by_label("Part of the data").fill("train")  # the set has no other
    page.get_by_role("button", name="Evaluate").click()
    page.get_by_role("link", name="See the evaluation").click(timeout=180_000)
    page.wait_for_timeout(1000)
    camera("internal")
    page.get_by_role("link", name="Plans").click()
    camera("plans")
    page.goto(page.url.replace("/plans", "/nothing"))
    camera("refusal")


def main() -> None:
    """Go through the story once."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--axe", help="the file axe.min.js")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with demo("--device", "cpu") as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda message: print("console:", message.text) if message.type == "error" else None)
        camera = Camera(page, asked.out, asked.axe)
        story(page, camera, link)
        browser.close()
    sys.exit(bool(camera.bad))


if __name__ == "__main__":
    main()
