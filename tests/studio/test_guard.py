"""The door: whoever has no business here is refused, with a sentence and without a traceback."""

from __future__ import annotations

import re
import time

import pytest

from sfumato.studio import entering, guard
from sfumato.studio.guard import CSP
from sfumato.studio.server import PAGES as PAGES_OF
from tests.studio.people import ADDRESS, opened, settings_in

PAGES = ("/", "/data", "/data/new", "/plans", "/runs", "/runs/events", "/compare", "/verify", "/audit")
ODD = ("\0", "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "'\"><script>alert(1)</script>")


@pytest.fixture
def studio(tmp_path):
    return opened(settings_in(tmp_path))


def refused(answer, status: int) -> None:
    """The status, in a whole page with all headers, that tells nothing of the inside."""
    assert answer.status_code == status, answer.text
    assert "<main" in answer.text and "Traceback" not in answer.text and 'File "' not in answer.text
    assert answer.headers["content-security-policy"] == CSP and answer.headers["cache-control"] == "no-store"


def posts(app) -> list[str]:
    """Every address that takes a form."""
    studio = app.state.studio
    routers = [entering.routes(studio.settings, studio.sessions), *(each.routes(studio) for each in PAGES_OF)]
    paths = {route.path for router in routers for route in router.routes if "POST" in route.methods}
    return sorted(re.sub(r"\{\w+\}", "x", path) for path in paths)


@pytest.mark.parametrize("path", PAGES)
def test_without_a_link_nothing_opens(studio, path):
    refused(studio[1]["nobody"].get(path), 401)


def test_a_token_works_once(studio):
    app, people = studio
    token = app.state.studio.sessions.token("custodian")
    first, second = (people["nobody"].client.get("/enter", params={"token": token}) for _ in range(2))
    kept = first.headers["set-cookie"].lower()
    assert first.status_code == 200 and "httponly" in kept and "samesite=strict" in kept and token not in kept
    refused(second, 401)


def test_a_wrong_token_and_a_forged_cookie_are_refused(studio):
    browser = studio[1]["nobody"]
    refused(browser.get("/enter", params={"token": "x" * 43}), 401)
    browser.client.cookies.set(guard.COOKIE, "x" * 43)
    refused(browser.get("/"), 401)


def test_a_thousand_wrong_tokens_are_refused_quickly(studio):
    app, people = studio
    began = time.monotonic()
    answers = [people["nobody"].get("/enter", params={"token": f"{n:043}"}) for n in range(1000)]
    assert time.monotonic() - began < 60
    codes = [answer.status_code for answer in answers]
    assert set(codes) == {401, 429} and codes.count(401) < 200
    slow = next(answer for answer in answers if answer.status_code == 429)
    assert int(slow.headers["retry-after"]) >= 1 and "Traceback" not in slow.text
    good = app.state.studio.sessions.token("custodian")
    assert people["nobody"].get("/enter", params={"token": good}).status_code == 429  # waits like everybody
    assert people["custodian"].get("/").status_code == 200  # who is inside stays so


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "evil.example:8765", "0.0.0.0:8765"])
def test_another_host_is_refused(studio, host):
    refused(studio[1]["custodian"].get("/", headers={"host": host}), 421)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "https://x@127.0.0.1:8765", ""]
)
def test_a_form_from_elsewhere_is_refused(studio, origin):
    refused(studio[1]["custodian"].post("/leave", headers={"origin": origin}), 403)


def test_a_cross_site_form_is_refused_whatever_else_it_says(studio):
    refused(studio[1]["custodian"].post("/leave", headers={"sec-fetch-site": "cross-site"}), 403)


def test_every_form_asks_for_the_word_of_its_session(studio):
    app, people = studio
    paths = posts(app)
    assert len(paths) > 15
    for path in paths:
        if path != "/enter":
            for word in ("", "0" * 64, people["analyst"].csrf):
                refused(people["custodian"].post(path, {"csrf": word}), 403)
            refused(people["nobody"].post(path), 401)


@pytest.mark.parametrize(
    "path", ["/verify", "/audit", "/internal/x", "/internal/x/report", "/publish/x", "/data/new?named=digits"]
)
def test_an_analyst_sees_nothing_internal(studio, path):
    refused(studio[1]["analyst"].get(path), 403)


def test_an_analyst_may_only_plan_withdraw_and_leave(studio):
    app, people = studio
    allowed = {"/enter", "/leave", "/plan/x", "/approve/x/withdraw"}
    for path in set(posts(app)) - allowed:
        refused(people["analyst"].post(path), 403)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "path",
    [
        "/release/{}",
        "/release/{}/image/0.png",
        "/data/{}",
        "/approve/{}",
        "/runs/{}/preview.png",
        "/static/{}",
        "/data?at={}",
    ],
)
def test_odd_names_lead_nowhere(studio, path, odd):
    answer = studio[1]["custodian"].get(path.format(odd.replace("\0", "%00")))
    assert answer.status_code == 404 and "root:" not in answer.text and "<script>alert" not in answer.text


def test_a_body_that_is_too_large_is_refused_before_it_is_read(studio, monkeypatch):
    people = studio[1]
    refused(people["custodian"].post("/leave", {"x": "y" * (2 * guard.MIB)}), 413)
    monkeypatch.setattr(guard, "UPLOAD", guard.MIB)
    big = b"0" * (3 * guard.MIB)
    refused(people["custodian"].post("/verify/upload", files={"file": ("a.zip", big)}), 413)


def test_a_body_that_hides_its_length_is_counted(studio):
    def pieces():
        for _ in range(40):
            yield b"x" * 2**16

    kind = {"origin": ADDRESS, "content-type": "application/x-www-form-urlencoded"}
    refused(studio[1]["custodian"].client.post("/leave", content=pieces(), headers=kind), 413)


def test_what_breaks_inside_is_one_sentence(studio, monkeypatch, capsys):
    app, people = studio
    secret = "patient 4711"

    def broken():
        raise RuntimeError(secret)

    monkeypatch.setattr(app.state.studio.looks, "cards", broken)
    answer = people["custodian"].get("/")
    refused(answer, 500)
    assert secret not in answer.text and secret not in capsys.readouterr().err


def test_the_headers_are_on_every_answer(studio):
    for path in ("/", "/static/studio.css", "/static/live.js", "/nothing"):
        headers = studio[1]["custodian"].get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin" and "server" not in headers


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_there_is_no_description_for_strangers(studio, path):
    refused(studio[1]["custodian"].get(path), 404)


def test_whoever_leaves_is_out(studio):
    browser = studio[1]["custodian"]
    assert browser.post("/leave").status_code == 200
    refused(browser.get("/"), 401)
