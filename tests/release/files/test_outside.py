"""What lies in a release folder without being of it: named, not read, and no door for anything else."""

from __future__ import annotations

import json

import pytest

from sfumato import DPMERF, Budget, api
from sfumato.release.files.outside import outside
from tests.cli.test_cli import call


@pytest.fixture(scope="module")
def made():
    return api.synthesize(DPMERF(features=10, steps=1), "digits", Budget(epsilon=2), count=5)


@pytest.fixture
def release(made, tmp_path):
    return made.save(tmp_path / "release")


def put(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def test_what_people_and_hubs_add_is_told_and_not_refused(release):
    put(release, "LICENSE", ".gitattributes", ".git/objects/a", ".cache/huggingface/b", ".huggingface/c")
    (release / ".git" / "link").symlink_to("/nowhere")  # is not looked at
    status, out, _ = call("verify", release)
    told = " ".join(out.split())
    assert status == 0 and "not sealed" in told
    assert all(name in told for name in ("LICENSE", ".git", ".cache", ".huggingface", ".gitattributes"))
    assert outside(release) == [".cache", ".git", ".gitattributes", ".huggingface", "LICENSE"]


@pytest.mark.parametrize(
    "name", ["notes.txt", ".env", "images/LICENSE", "generator/.git/x", ".cache2/x", "LICENSE/inside", ".github/x"]
)
def test_anything_else_is_refused(release, name):
    put(release, name)
    assert call("verify", release)[0] == 4


def test_a_link_is_never_outside(release, tmp_path):
    (release / "LICENSE").symlink_to(tmp_path / "somewhere")
    assert call("verify", release)[0] == 4


def test_a_card_that_a_hub_edited_is_refused_with_a_hint(release):
    card = (release / "README.md").read_text().replace("---\n", "---\nlicense: mit\n", 1)
    (release / "README.md").write_text(card)
    status, out, _ = call("verify", release)
    assert status == 4 and "Where a hub edited its front matter" in " ".join(out.split())


def test_not_signed_is_not_ok(release):
    status, out, _ = call("verify", release)
    row = next(line for line in out.splitlines() if line.startswith("signature"))
    assert status == 0 and "Verified, not signed" in out and "not signed" in row and " ok" not in row
    found = json.loads(call("verify", release, "--json")[1])
    assert {r["check"]: r["state"] for r in found["checks"]}["signature"] == "not signed"
