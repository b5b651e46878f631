from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from sfumato.errors import InputError
from sfumato.release.files.hashes import canonical, differences, listing, make_hashes, read_hashes, root_hash


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "b.txt").write_text("two")
    (tmp_path / "a.txt").write_text("one")
    return tmp_path


def test_every_other_file_is_listed(folder: Path) -> None:
    (folder / "hashes.json").write_text("{}")
    (folder / "signature.json").write_text("{}")
    assert listing(folder) == {
        "a.txt": {"sha256": hashlib.sha256(b"one").hexdigest(), "size": 3},
        "images/b.txt": {"sha256": hashlib.sha256(b"two").hexdigest(), "size": 3},
    }


def test_the_form_is_fixed_and_the_root_is_its_hash(folder: Path) -> None:
    data = make_hashes(folder, "ab" * 32)
    assert data == make_hashes(folder, "ab" * 32) == canonical(read_hashes(data)) and data.endswith(b"}\n")
    assert root_hash(data) == hashlib.sha256(data).hexdigest() != root_hash(make_hashes(folder))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text + " ",
        lambda text: text.replace(",", ", ", 1),
        lambda text: text.replace("a.txt", "\\u0061.txt"),
        lambda text: text.replace('{"files"', '{"files":{},"files"', 1),
        lambda text: text.replace("sfumato-hashes/1", "sfumato-hashes/2"),
        lambda text: text.replace('"signed_by":null', '"signed_by":3'),
        lambda text: json.dumps(json.loads(text)),
        lambda text: "[]",
        lambda text: "",
    ],
)
def test_any_other_form_is_refused(folder: Path, spoil) -> None:
    with pytest.raises(InputError, match=r"hashes\.json"):
        read_hashes(spoil(make_hashes(folder).decode()).encode())


def test_differences_name_the_files(folder: Path) -> None:
    stated = listing(folder)
    assert differences(folder, stated) == []
    (folder / "a.txt").write_text("oNe")
    (folder / "images" / "b.txt").unlink()
    (folder / "c.txt").write_text("new")
    assert differences(folder, stated) == [
        "a.txt was changed.",
        "c.txt is not in hashes.json.",
        "images/b.txt is missing.",
    ]


def test_a_link_is_no_file(folder: Path) -> None:
    (folder / "c.txt").symlink_to(folder / "a.txt")
    assert "c.txt" not in listing(folder)
