"""The pages: what they ask for, what they refuse, and what they show to whom."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import sfumato
from sfumato.studio import worker
from sfumato.studio.pages import runs
from tests.studio.people import TINY, Browser, opened, scans, settings_in, tiny_release

ROOT = Path(sfumato.__file__).parent / "studio"
SET = "\n".join(f"{field}={value}" for field, value in TINY.items())
ASKED = {"method": "dp-merf", "epsilon": "2", "count": "30", "name": "made", "set": SET}


@pytest.fixture
def home(tmp_path):
    scans(settings_in(tmp_path).roots[0])
    return tmp_path


def declared(browser, **fields) -> str:
    at = str(browser.post("/data/find", {"path": "scans.npz"}).url).partition("at=")[2]
    return str(browser.post("/data", {"at": at, "unit": "record", "count": "public", **fields}).url).rpartition("/")[2]


def handed_in(browser, data: str, **fields) -> str:
    return str(browser.post(f"/plan/{data}", ASKED | fields).url).rpartition("/")[2]


def carried_out(studio) -> None:
    """Work off the queue here, without a process for each job."""
    for job in studio.jobs.all():
        place = studio.jobs.place(job.id)
        if job.state == "waiting":
            (place / "result.json").write_text(json.dumps(worker.carried_out(place)))


def test_pages_load_nothing_from_elsewhere_and_have_no_inline_script_or_style():
    for path in [*ROOT.glob("templates/*"), *ROOT.glob("static/*.css"), *ROOT.glob("static/*.js")]:
        text = path.read_text()
        assert not re.search(r"https?://|//[a-z]+\.|@import|url\(", text.replace("// ", "")), path.name
        assert not re.search(r"\sstyle=|<style|\son\w+=|<script>", text), path.name


def test_the_unit_of_protection_must_be_chosen(home):
    _, people = opened(settings_in(home))
    custodian = people["custodian"]
    at = str(custodian.post("/data/find", {"path": "scans.npz"}).url).partition("at=")[2]
    page = custodian.get(f"/data/new?at={at}").text
    assert page.index('name="unit"') < page.index('name="count"') and 'name="unit" value="record" checked' not in page
    assert custodian.post("/data", {"at": at, "count": "public"}).status_code == 400
    assert custodian.post("/data", {"at": at, "unit": "person"}).status_code == 400
    assert custodian.post("/data", {"at": at, "unit": "record"}).status_code == 200


def test_an_analyst_plans_without_the_account_and_does_not_approve(home):
    app, people = opened(settings_in(home))
    data = declared(people["custodian"])
    assert "Its account" in people["custodian"].get(f"/data/{data}").text
    assert "Its account" not in people["analyst"].get(f"/data/{data}").text
    page = people["analyst"].get(f"/plan/{data}", params=ASKED).text
    assert "sfumato synthesize" in page and "Hand in for approval" in page and "scans.npz" not in page.split("<main")[0]
    plan = handed_in(people["analyst"], data)
    assert 'name="price"' not in people["analyst"].get(f"/approve/{plan}").text
    assert people["analyst"].post(f"/approve/{plan}", {"price": "2"}).status_code == 403
    assert app.state.studio.jobs.all() == []


def test_a_plan_opens_no_file_of_data(home):
    _, people = opened(settings_in(home))
    data = declared(people["custodian"])
    (home / "data" / "scans.npz").unlink()
    assert "The plan, and its price" in people["custodian"].get(f"/plan/{data}", params=ASKED).text


@pytest.mark.parametrize("typed", ["", "3", "two", "nan", "1.9999999", "2 or so"])
def test_a_mistyped_price_approves_nothing(home, typed):
    app, people = opened(settings_in(home))
    plan = handed_in(people["custodian"], declared(people["custodian"]))
    assert people["custodian"].post(f"/approve/{plan}", {"price": typed}).status_code == 400
    assert app.state.studio.jobs.all() == []


def test_an_approval_counts_once(home):
    app, people = opened(settings_in(home))
    plan = handed_in(people["custodian"], declared(people["custodian"]))
    codes = [people["custodian"].post(f"/approve/{plan}", {"price": "2.0"}).status_code for _ in range(2)]
    assert codes == [200, 409] and len(app.state.studio.jobs.all()) == 1


def test_two_custodians_approve_by_two_links(home):
    app, people = opened(settings_in(home, approvals=2))
    first, plan = people["custodian"], handed_in(people["analyst"], declared(people["custodian"]))
    assert [first.post(f"/approve/{plan}", {"price": "2"}).status_code for _ in range(2)] == [200, 409]
    assert app.state.studio.jobs.all() == []
    second = Browser(app, app.state.studio.sessions, "custodian")
    assert second.post(f"/approve/{plan}", {"price": "2"}).status_code == 200
    (job,) = app.state.studio.jobs.all()
    assert job.asked["by"] == "custodian 1 and custodian 2"


def test_a_word_given_before_a_restart_is_void(home):
    settings = settings_in(home, approvals=2)
    _, people = opened(settings)
    plan = handed_in(people["analyst"], declared(people["custodian"]))
    people["custodian"].post(f"/approve/{plan}", {"price": "2"})
    app, people = opened(settings)
    assert "Approved by" not in people["custodian"].get(f"/approve/{plan}").text
    people["custodian"].post(f"/approve/{plan}", {"price": "2"})
    assert app.state.studio.jobs.all() == []


@pytest.mark.parametrize(
    "fields",
    [
        {"epsilon": "0"},
        {"epsilon": "x"},
        {"name": "../out"},
        {"name": "a/b"},
        {"method": "none"},
        {"labels": "/etc/passwd"},
        {"count": "-1"},
        {"set": "steps"},
        {"set": "nothing=3"},
    ],
)
def test_a_wrong_plan_says_why(home, fields):
    app, people = opened(settings_in(home))
    data = declared(people["custodian"])
    page = people["custodian"].get(f"/plan/{data}", params=ASKED | fields)
    assert page.status_code == 200 and "Not possible:" in page.text
    assert people["custodian"].post(f"/plan/{data}", ASKED | fields).status_code == 400
    assert app.state.studio.plans.all() == []


def test_a_grant_is_the_custodian_s_and_what_is_too_dear_is_warned_of(home):
    app, people = opened(settings_in(home))
    data = declared(people["custodian"])
    assert people["custodian"].post(f"/data/{data}/grant", {"total": "1"}).status_code == 200
    assert "this one would be refused" in people["custodian"].get(f"/plan/{data}", params=ASKED).text
    plan = handed_in(people["custodian"], data)
    people["custodian"].post(f"/approve/{plan}", {"price": "2"})
    carried_out(app.state.studio)
    (job,) = app.state.studio.jobs.all()
    assert job.state == "failed" and not (home / "releases" / "made").exists()
    assert job.result["words"] in people["custodian"].get("/runs").text.replace("&#39;", "'")
    assert job.result["words"] not in people["analyst"].get("/runs").text.replace("&#39;", "'")


def test_the_story_without_a_browser(home):
    settings = settings_in(home)
    app, people = opened(settings)
    custodian, analyst = people["custodian"], people["analyst"]
    data = declared(custodian)
    custodian.post(f"/data/{data}/grant", {"total": "10"})
    for name in ("made", "other"):
        plan = handed_in(analyst, data, name=name, title="A title", license="cc-by-4.0")
        custodian.post(f"/approve/{plan}", {"price": "2"})
        carried_out(app.state.studio)
    assert "finished" in custodian.get(f"/data/{data}").text
    for who in (custodian, analyst):
        assert "Before you publish" in who.get("/release/made").text and "A title" in who.get("/").text
        assert "Most alike" in who.get("/release/made/image/3").text
        assert "Comparable" in who.get("/compare?release=made&release=other").text
    tried = custodian.post("/publish/made", {"way": "zip", "to": "out", "act": "try"})
    assert "Would be sent" in tried.text and not (settings.folder / "out.zip").exists()
    assert custodian.post("/publish/made", {"way": "zip", "to": "out", "act": "send"}).status_code == 400
    assert (
        '<h2 id="sent">Sent'
        in custodian.post("/publish/made", {"way": "zip", "to": "out", "act": "send", "sure": "yes"}).text
    )
    assert (settings.folder / "out.zip").is_file()


@pytest.mark.parametrize("name", ["../out", "/tmp/out", ".out", "a/b", ""])
def test_a_published_file_stays_in_the_folder(home, name):
    settings = settings_in(home)
    tiny_release(settings)
    _, people = opened(settings)
    answer = people["custodian"].post("/publish/first", {"way": "zip", "to": name, "act": "send", "sure": "yes"})
    assert answer.status_code == 400 and not list(home.rglob("*.zip"))


def test_releases_of_another_unit_are_set_apart(home):
    settings = settings_in(home)
    app, people = opened(settings)
    tiny_release(settings, "a")
    tiny_release(settings, "b")
    data = declared(people["custodian"])
    plan = handed_in(people["custodian"], data)
    people["custodian"].post(f"/approve/{plan}", {"price": "2"})
    carried_out(app.state.studio)
    page = people["custodian"].get("/compare?release=a&release=b&release=made").text
    assert "Set apart" in page and "not comparable: other data" in page


def test_an_evaluation_is_for_custodians_and_its_report_is_sealed(home):
    settings = settings_in(home)
    _, people = opened(settings)
    place = tiny_release(settings)
    beside = place.with_name("first-evaluation")
    beside.mkdir()
    sections = {"headline": None, "release": {"guarantee": {}}}
    (beside / "evaluation.json").write_text(json.dumps({"sections": sections}))
    (beside / "report.html").write_text("<h1>real images</h1>")
    page = people["custodian"].get("/internal/first")
    assert "INTERNAL" in page.text and "frame-src 'self'" in page.headers["content-security-policy"]
    assert re.search(r"<iframe [^>]*sandbox[ >]", page.text)
    report = people["custodian"].get("/internal/first/report")
    assert (
        "sandbox" in report.headers["content-security-policy"]
        and "script" not in report.headers["content-security-policy"]
    )
    assert people["analyst"].get("/internal/first/report").status_code == 403


def test_live_updates_end_with_the_session_and_tell_an_analyst_less(home):
    app, people = opened(settings_in(home))
    studio = app.state.studio
    studio.jobs.add("evaluate", "a title", "custodian 1")

    async def told(browser) -> list[str]:
        name = browser.client.cookies["sfumato-studio"]
        state = SimpleNamespace(session=studio.sessions.find(name), cookie=name)
        stream = runs._told(SimpleNamespace(state=state), runs.Watch(studio), studio.sessions)
        first = await anext(stream)
        studio.sessions.leave(name)
        return [first, *[line async for line in stream]]

    whole, less = (asyncio.run(told(people[who])) for who in ("custodian", "analyst"))
    assert len(whole) == len(less) == 1 and '"note"' in whole[0]
    assert json.loads(less[0][6:])[0].keys() == {"id", "state", "percent", "picture"}


def test_a_method_is_audited_and_a_fault_caught_in_the_queue(home):
    app, people = opened(settings_in(home))
    people["custodian"].post("/audit/gallery", {"level": "0"})
    people["custodian"].post("/audit/method", {"method": "dp-merf", "level": "0"})
    titles = [job.asked["title"] for job in app.state.studio.jobs.all()]
    assert sorted(titles) == ["audit of dp-merf, level 0", "seeded faults up to level 0"]
    for job in app.state.studio.jobs.all():
        if job.asked["kind"] == "audit":
            assert worker.carried_out(app.state.studio.jobs.place(job.id))["verdict"] == "pass"
    assert "audit of dp-merf" in people["custodian"].get("/audit").text
