"""The allowed folders cannot be left."""

from __future__ import annotations

import os

import pytest
from starlette.exceptions import HTTPException

from sfumato.studio.roots import Roots, inside, plain_name
from tests.studio.people import opened, scans, settings_in

OUT = ("../secret.npz", "/etc/passwd", "link/secret.npz", "linked.npz", "..", "a/../../secret.npz", "\0", "~root", "/")


@pytest.fixture
def home(tmp_path):
    settings_in(tmp_path)
    scans(tmp_path / "data")
    scans(tmp_path, name="secret.npz")
    os.symlink(tmp_path, tmp_path / "data" / "link")
    os.symlink(tmp_path / "secret.npz", tmp_path / "data" / "linked.npz")
    return tmp_path


@pytest.mark.parametrize("text", OUT)
def test_no_typed_path_leaves_the_roots(home, text):
    with pytest.raises(HTTPException) as refused:
        Roots((home / "data",)).typed(text)
    assert refused.value.status_code == 404 and str(home) not in str(refused.value.detail)


def test_what_lies_inside_is_found(home):
    roots = Roots((home / "data",))
    assert roots.typed("scans.npz") == roots.typed(str(home / "data" / "scans.npz")) == home / "data" / "scans.npz"


def test_links_out_are_not_listed_and_names_tell_no_path(home):
    roots = Roots((home / "data",))
    rows = list(roots.within(home / "data"))
    assert [name for _, name, _ in rows] == ["scans.npz"]
    assert "scans" not in rows[0][0] and roots.path(rows[0][0]) == home / "data" / "scans.npz"


def test_a_file_that_became_a_link_is_refused(home):
    roots = Roots((home / "data",))
    name = roots.name(home / "data" / "scans.npz")
    (home / "data" / "scans.npz").unlink()
    os.symlink(home / "secret.npz", home / "data" / "scans.npz")
    with pytest.raises(HTTPException):
        roots.path(name)


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "a\0", "x" * 81, "-rf", "a b"])
def test_new_files_have_plain_names(name):
    with pytest.raises(HTTPException):
        plain_name(name)


def test_inside_follows_links(home):
    with pytest.raises(HTTPException):
        inside(home / "data", "link")


@pytest.mark.parametrize("text", OUT)
def test_the_pages_refuse_them_too(home, text):
    _, people = opened(settings_in(home))
    for path, field in (("/data/find", "path"), ("/verify", "path")):
        answer = people["custodian"].post(path, {field: text})
        assert answer.status_code == 404 and "root:" not in answer.text and "Traceback" not in answer.text
