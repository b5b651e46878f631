"""Zip files from strangers."""

from __future__ import annotations

import io
import zipfile

import pytest

from sfumato.studio import uploads
from tests.studio.people import opened, settings_in, tiny_release


def packed(files: dict[str, bytes], kind=zipfile.ZIP_DEFLATED, link: str | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as made:
        for name, data in files.items():
            made.writestr(name, data)
        if link:
            entry = zipfile.ZipInfo("r/link")
            entry.external_attr = 0o120777 << 16
            made.writestr(entry, link)
    return buffer.getvalue()


@pytest.fixture
def studio(tmp_path):
    return tmp_path, opened(settings_in(tmp_path))[1]["custodian"]


BAD = {
    "a path upwards": (packed({"../evil": b"x"}), 400),
    "an absolute path": (packed({"/tmp/evil": b"x"}), 400),
    "a backslash": (packed({"..\\evil": b"x"}), 400),
    "a link": (packed({"r/a": b"x"}, link="/etc/passwd"), 400),
    "a bomb": (packed({"r/zeros": bytes(50 * 2**20)}), 413),
    "no zip": (b"PK\3\4 nonsense", 400),
    "nothing": (b"", 400),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_zip_is_refused_and_leaves_nothing(studio, name):
    home, custodian = studio
    data, status = BAD[name]
    answer = custodian.post("/verify/upload", files={"file": ("a.zip", data)})
    assert answer.status_code == status and "Traceback" not in answer.text
    left = home / "state" / "uploads"
    assert not left.exists() or list(left.iterdir()) == []
    assert not (home / "evil").exists() and not (home / "state" / "evil").exists()


def test_too_many_files_are_refused(studio, monkeypatch):
    monkeypatch.setattr(uploads, "MOST_FILES", 3)
    data = packed({f"r/{n}": b"x" for n in range(4)})
    assert studio[1].post("/verify/upload", files={"file": ("a.zip", data)}).status_code == 413


def test_a_size_that_its_header_hides_is_counted(monkeypatch, tmp_path):
    """The total is counted while writing; a header that lies about it changes nothing."""
    data = packed({"r/a": bytes(range(256)) * 40}, zipfile.ZIP_STORED)
    monkeypatch.setattr(uploads, "check", lambda packed: packed.infolist())
    monkeypatch.setattr(uploads, "MOST_BYTES", 100)
    with pytest.raises(Exception, match="more than the studio takes"), uploads.unpacked(io.BytesIO(data), tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_release_that_was_zipped_verifies_and_a_changed_one_does_not(studio):
    home, custodian = studio
    place = tiny_release(settings_in(home))
    files = {f"first/{p.relative_to(place)}": p.read_bytes() for p in place.rglob("*") if p.is_file()}
    good = custodian.post("/verify/upload", files={"file": ("a.zip", packed(files))})
    assert good.status_code == 200 and "verified, not signed" in good.text
    changed = files | {"first/README.md": b"trust me"}
    bad = custodian.post("/verify/upload", files={"file": ("a.zip", packed(changed))})
    assert bad.status_code == 200 and "REFUSED" in bad.text
