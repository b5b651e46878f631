"""Publishing: what is sealed goes, all of it and nothing else; a hub is a stand-in that keeps what it is given."""

from __future__ import annotations

import fnmatch
import json
import shutil
import sys
import types
import zipfile
from pathlib import Path

import pytest

from sfumato import DPMERF, Budget, InputError, api
from sfumato.errors import AuditFailed, SfumatoError
from sfumato.flow.send import publish
from sfumato.release import make_key
from tests.cli.test_cli import call, refused


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A signed release with a licence, and what people and hubs put beside it."""
    home = tmp_path_factory.mktemp("made")
    make_key(home / "key.pem")
    said = {"license": "CC-BY-4.0", "title": "Digits, made up", "contact": "data office"}
    method = DPMERF(features=10, steps=1)
    api.synthesize(method, "digits", Budget(2.0), count=6, out=home / "release", key=home / "key.pem", **said)
    (home / "release" / "LICENSE").write_text("as you like it")
    (home / "release" / ".git").mkdir()
    (home / "release" / ".git" / "config").write_text("a secret of the custodian")
    (home / "release" / ".cache").mkdir()
    (home / "release" / ".gitattributes").write_text("*.png binary")
    return home / "release"


@pytest.fixture
def release(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "release"))


def names(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


SECRET = {".git/config", ".gitattributes"}


def hub(place: Path, fail: bool = False) -> types.ModuleType:
    """A stand-in: its repositories are folders, and it adds a file of its own."""

    class HfApi:
        def create_repo(self, *, repo_id: str, repo_type: str, private: bool, exist_ok: bool) -> None:
            (place / repo_type / repo_id).mkdir(parents=True, exist_ok=exist_ok)
            (place / "private").write_text(str(private))

        def upload_folder(self, *, repo_id, repo_type, folder_path, allow_patterns, commit_message):
            if fail:
                raise ConnectionError("no road\nto the hub")
            for name in names(Path(folder_path)):
                if any(fnmatch.fnmatch(name, pattern) for pattern in allow_patterns):
                    target = place / repo_type / repo_id / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(Path(folder_path) / name, target)
            (place / repo_type / repo_id / ".gitattributes").write_text("*.png filter=lfs")
            return types.SimpleNamespace(commit_url=f"hub/{repo_id}/1")

    module = types.ModuleType("huggingface_hub")
    module.HfApi = HfApi
    return module


def test_a_copy_has_what_was_sealed_and_the_licence(release, tmp_path):
    facts = publish(release, f"folder:{tmp_path / 'copy'}")
    assert names(tmp_path / "copy") == names(release) - SECRET and facts["sent"]
    assert facts["left_behind"] == [".cache", ".git", ".gitattributes"] and facts["warnings"] == []
    assert api.verify(tmp_path / "copy").ok
    with pytest.raises(InputError, match="exists"):
        publish(release, f"folder:{tmp_path / 'copy'}")


def test_a_zip_is_the_same_to_the_byte(release, tmp_path):
    publish(release, f"zip:{tmp_path / 'a.zip'}")
    (tmp_path / "there").mkdir()
    publish(release, f"zip:{tmp_path / 'there' / 'a.zip'}")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "there" / "a.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as packed:
        packed.extractall(tmp_path / "out")
    assert names(tmp_path / "out" / "a") == names(release) - SECRET and api.verify(tmp_path / "out" / "a").ok


def test_a_hub_gets_it_whole_and_what_it_adds_is_outside_the_seal(release, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub(tmp_path / "hub"))
    facts = publish(release, "hf:ward/digits", private=True)
    there = tmp_path / "hub" / "dataset" / "ward" / "digits"
    assert facts["address"] == "hub/ward/digits/1" and (tmp_path / "hub" / "private").read_text() == "True"
    assert names(there) == names(release) - SECRET | {".gitattributes"}
    verdict = api.verify(there)
    assert verdict.ok and ("outside", True) in [row[:2] for row in verdict.rows]


def test_a_dry_run_sends_nothing(release, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub(tmp_path / "hub"))
    for to in ("hf:ward/digits", f"folder:{tmp_path / 'copy'}", f"zip:{tmp_path / 'a.zip'}"):
        status, out, _ = call("publish", release, "--to", to, "--dry-run")
        assert status == 0 and "Would be sent (nothing was)" in out and "images" in out and ".git" in out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["release"]


def test_what_does_not_verify_is_not_sent(release, tmp_path):
    with open(release / "README.md", "a") as file:
        file.write("more")
    with pytest.raises(AuditFailed, match="does not verify"):
        publish(release, f"zip:{tmp_path / 'a.zip'}")
    status, _, err = call("publish", release, "--to", f"zip:{tmp_path / 'a.zip'}")
    assert status == 4 and "hashes" in err and not (tmp_path / "a.zip").exists()


def test_a_signature_may_be_asked_for(release, tmp_path):
    with pytest.raises(AuditFailed, match="signature"):
        publish(release, f"zip:{tmp_path / 'a.zip'}", public_key="0" * 64)


def test_what_is_still_to_do_is_a_warning(tmp_path):
    api.synthesize(DPMERF(features=10, steps=1), "digits", Budget(2.0), count=6, out=tmp_path / "release")
    status, out, _ = call("publish", tmp_path / "release", "--to", f"zip:{tmp_path / 'a.zip'}", "--json")
    told = json.loads(out)["warnings"]
    assert status == 0 and ["not signed" in told[0], "no licence" in told[1]] == [True, True]


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("elsewhere:x", "Expected --to as hf:NAME"),
        ("zip:", "Expected --to as hf:NAME"),
        ("zip", "Expected --to as hf:NAME"),
        ("hf:../x", "Expected --to hf:NAME"),
        ("zip:/no/such/a.zip", "There is no folder /no/such"),
    ],
)
def test_a_wrong_place_is_one_sentence(to, words, release):
    assert words in refused("publish", release, "--to", to)


def test_a_hub_needs_its_library_and_may_fail(release, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "needs the package huggingface_hub" in refused("publish", release, "--to", "hf:ward/x")
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub(tmp_path / "hub", fail=True))
    with pytest.raises(SfumatoError, match="ConnectionError: no road to the hub"):
        publish(release, "hf:ward/x")
    assert "leave it out" in refused("publish", release, "--to", "zip:a.zip", "--private")
