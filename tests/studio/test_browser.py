"""The whole story in a real browser: demo data, plan, approve, run, look, compare, verify, publish; and a kill -9."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from sfumato.api import budget_of
from tests.studio.servers import Server, until

CHROMIUM = Path("/usr/bin/chromium")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed"),
]
QUICK, SLOW = "features=64\nsteps=60", "features=64\nsteps=2000"


@pytest.fixture
def page():
    """A page that remembers what it complained of, and whom it asked for anything."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        made = browser.new_page()
        made.complaints, made.asked = [], set()
        made.on("console", lambda m: made.complaints.append(m.text) if m.type in ("error", "warning") else None)
        made.on("pageerror", lambda error: made.complaints.append(str(error)))
        made.on("request", lambda request: made.asked.add(re.match(r"\w+://[^/]+", request.url)[0]))
        yield made
        browser.close()


def seen(found) -> None:
    sync_api.expect(found).to_be_visible(timeout=30_000)


def enter(page, server: Server) -> None:
    page.goto(server.links["custodian"][0])
    page.wait_for_url(f"{server.address}/")


def plan(page, server: Server, name: str, epsilon: str, settings: str) -> None:
    """Filled in, handed in, and approved by typing the price."""
    page.goto(f"{server.address}/plans")
    page.get_by_role("link", name="Plan with digits").click()
    page.locator("#other").select_option("dp-merf")
    page.get_by_label("Epsilon, the price").fill(epsilon)
    page.get_by_label("Synthetic images").fill("60")
    page.get_by_label("Name of the release").fill(name)
    page.get_by_text("Licence, title, settings").click()
    page.get_by_label("Settings of the method").fill(settings)
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_role("button", name="Hand in").click()
    page.get_by_label(re.compile("Type the price")).fill(epsilon)
    page.get_by_role("button", name="Approve").click()


def granted(page, server: Server, total: str) -> None:
    page.goto(f"{server.address}/data")
    page.get_by_role("link", name="digits", exact=True).first.click()
    page.get_by_label(re.compile("Grant in all")).fill(total)
    page.get_by_role("button", name="Set the total").click()


def test_the_whole_story(page, tmp_path):
    with Server(tmp_path, "--demo") as server:
        enter(page, server)
        granted(page, server, "8")
        for number, (name, epsilon) in enumerate((("one", "2"), ("two", "1"))):
            plan(page, server, name, epsilon, QUICK)
            page.locator(".run.is-done").nth(number).wait_for(timeout=90_000)  # by itself, through live updates
        page.get_by_role("link", name="Look at the release").last.click()
        seen(page.get_by_role("heading", name="Before you publish"))
        page.locator(".class .grid a").first.click()
        seen(page.get_by_role("heading", name="Most alike"))
        page.goto(f"{server.address}/compare?release=one&release=two")
        seen(page.get_by_role("heading", name="Comparable", exact=True))
        page.goto(f"{server.address}/release/one")
        page.get_by_role("button", name="Verify, with every check").click()
        seen(page.get_by_role("heading", name="one: verified, not signed"))
        page.goto(f"{server.address}/publish/one")
        page.get_by_label(re.compile("I have read")).check()
        page.get_by_label(re.compile("Name of the file")).fill("out")
        page.get_by_role("button", name="Publish", exact=True).click()
        seen(page.get_by_role("heading", name="Sent"))
        (packed,) = tmp_path.rglob("out.zip")
        page.goto(f"{server.address}/verify")
        page.get_by_label("File, up to").set_input_files(packed)
        page.get_by_role("button", name="Verify").last.click()
        seen(page.get_by_role("heading", name="the uploaded file: verified"))
        assert page.complaints == [] and page.asked == {server.address}


def test_the_slider_speaks_of_odds_and_a_term_explains_itself(page, tmp_path):
    with Server(tmp_path, "--demo") as server:
        enter(page, server)
        page.goto(f"{server.address}/plans")
        page.get_by_role("link", name="Plan with digits").click()
        slider = page.get_by_label("Privacy, in an attacker's odds")
        slider.wait_for()
        slider.focus()
        slider.press("Home")
        assert page.get_by_label("Epsilon, the price").input_value() == "0.1"
        assert slider.get_attribute("aria-valuetext") == "epsilon 0.1, right at most 51 %"
        page.goto(f"{server.address}/data")
        page.get_by_role("link", name="digits", exact=True).first.click()
        page.get_by_role("button", name="one record").press("Enter")
        seen(page.get_by_text("hides whether any single record"))


def test_a_kill_in_the_middle_is_resumed_and_charged_once(page, tmp_path):
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    (home / "releases").mkdir()
    books = str(home / "books.sqlite")  # without a file by name the ledger of a public set is thrown away
    with Server(home, "--ledger", books) as server:
        enter(page, server)
        page.goto(f"{server.address}/data/new?named=digits")
        page.get_by_role("radio", name=re.compile("One record")).check()
        page.get_by_role("button", name="Declare").click()
        plan(page, server, "one", "2", SLOW)
        until(lambda: list((home / "sfumato_runs").glob("*/checkpoint.safetensors")))
        (started,) = home.rglob("jobs/*/started")
        server.end()
        os.kill(int(started.read_text()), signal.SIGKILL)
    with Server(home, "--ledger", books) as server:
        enter(page, server)
        page.goto(f"{server.address}/runs")
        page.get_by_role("button", name="Resume, at no further cost").click()
        page.locator(".run.is-done").wait_for(timeout=120_000)
        page.goto(f"{server.address}/data")
        page.get_by_role("link", name="digits", exact=True).first.click()
        seen(page.get_by_text("epsilon 2 of 2 spent by 1 run"))
    assert len(budget_of("digits", ledger=books)["history"]) == 1
