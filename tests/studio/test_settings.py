"""Closed by default: what would open the studio to others is refused without a password."""

from __future__ import annotations

import pytest

from sfumato.errors import InputError
from sfumato.studio.settings import hold, set_up
from tests.studio.people import opened, settings_in


@pytest.fixture(autouse=True)
def _state(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_STUDIO", str(tmp_path / "own"))


def test_by_default_it_is_loopback_with_a_private_state(tmp_path):
    made = set_up(str(tmp_path / "here"))
    assert made.host == "127.0.0.1" and made.roots == (tmp_path / "here",)
    assert made.state.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"host": "192.0.2.1"}, "give a password"),
        ({"host": "0.0.0.0"}, "give a password"),
        ({"approval": "three"}, "one or two"),
        ({"port": 70000}, "--port"),
        ({"demo": True, "ledger": "x"}, "leave out"),
    ],
)
def test_what_is_unsafe_is_refused(tmp_path, options, says):
    with pytest.raises(InputError, match=says):
        set_up(None if "demo" in options else str(tmp_path), **options)


def test_all_addresses_at_once_are_refused_with_a_password_too(tmp_path):
    file = _password(tmp_path)
    with pytest.raises(InputError, match="no name to check"):
        set_up(str(tmp_path), host="0.0.0.0", password_file=str(file))
    assert set_up(str(tmp_path), host="192.0.2.1", password_file=str(file)).names == {"192.0.2.1"}


def test_a_password_must_be_long_and_unseen(tmp_path):
    file = _password(tmp_path, "short")
    with pytest.raises(InputError, match="at least 12"):
        set_up(str(tmp_path), password_file=str(file))
    file.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        set_up(str(tmp_path), password_file=str(file))


def test_two_studios_do_not_share_a_queue(tmp_path):
    held = hold(tmp_path)
    with pytest.raises(InputError, match="Another studio"):
        hold(tmp_path)
    assert held


def test_with_a_password_a_link_alone_does_not_open(tmp_path):
    from sfumato.studio.passwords import Password

    app, people = opened_with(tmp_path, Password.of("correct horse battery"))
    token = app.state.studio.sessions.token("custodian")
    browser = people
    assert 'type="password"' in browser.get("/enter", params={"token": token}).text
    assert browser.post("/enter", {"token": token, "password": "wrong"}).status_code == 401
    assert browser.post("/enter", {"token": token, "password": "correct horse battery"}).status_code == 200
    assert browser.get("/").status_code == 200


def opened_with(home, password):
    from sfumato.studio.server import make_app
    from sfumato.studio.sessions import Sessions
    from tests.studio.people import Browser

    sessions = Sessions()
    app = make_app(settings_in(home, password=password), sessions, work=False)
    return app, Browser(app, sessions, None)


def _password(home, words="correct horse battery"):
    file = home / "password"
    file.write_text(f"{words}\n")
    file.chmod(0o600)
    return file


def test_a_demo_is_marked_on_every_page(tmp_path):
    _, people = opened(settings_in(tmp_path, demo=True))
    for path in ("/", "/data", "/plans", "/runs", "/compare", "/verify", "/audit", "/nothing"):
        assert "DEMO" in people["custodian"].get(path).text
