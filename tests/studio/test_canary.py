"""Marked records: no page, picture, address, log or file of progress tells anything of them."""

from __future__ import annotations

import base64
import html
import io
import json
import re
from urllib.parse import urljoin, urlsplit

import numpy as np
import pytest
from PIL import Image

from sfumato.studio import worker
from tests.studio.people import TINY, opened, settings_in

COUNTS = (137, 211, 173)  # of the labels; and 521 in all
DECLARED = 400
PERSONS = ("Zephyrina Quill", "Ottoline Marsh")
NAME = "quarantined-ward"
INTERNAL = ("/internal/", "/leave", "/static/", "/runs/events", "/enter")


@pytest.fixture
def records(tmp_path):
    """Images of marked pixels, odd label counts and persons with names."""
    labels = np.repeat(np.arange(3), COUNTS)
    random = np.random.default_rng(7)
    images = random.choice(np.array([3, 97, 181, 251], np.uint8), (len(labels), 8, 8))
    persons = np.array([PERSONS[n % 2] if n < 8 else f"person-{n:05}" for n in range(len(labels))])
    settings = settings_in(tmp_path)
    np.savez(tmp_path / "data" / f"{NAME}.npz", images=images, labels=labels, patient=persons)
    return settings, images


def crawled(browser) -> dict[str, object]:
    """Every page that links lead to, from the start on; internal ones aside, which show real images on purpose."""
    found, ahead = {}, ["/"]
    while ahead:
        path = ahead.pop()
        if path in found or path.startswith(INTERNAL):
            continue
        found[path] = browser.get(path)
        if "html" in found[path].headers["content-type"]:
            links = re.findall(r'(?:href|src)="([^"#]+)', found[path].text)
            ahead += [urljoin(path, html.unescape(link)) for link in links]
    return found


def tiles(data: bytes) -> set[bytes]:
    """Every 8x8 square of a picture that lies on its grid."""
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("L"))
    rows, columns = (side // 8 for side in pixels.shape)
    return {pixels[8 * r : 8 * r + 8, 8 * c : 8 * c + 8].tobytes() for r in range(rows) for c in range(columns)}


def pictures_in(answer) -> list[bytes]:
    if answer.headers["content-type"] == "image/png":
        return [answer.content]
    inline = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", answer.text)
    return [base64.b64decode(data) for data in inline]


def scan(answers: dict[str, object], real: set[bytes]) -> None:
    for path, answer in answers.items():
        assert answer.status_code == 200, path
        assert NAME not in urlsplit(path).path + urlsplit(path).query
        for picture in pictures_in(answer):
            assert not tiles(picture) & real, f"{path} shows a record"
        text = html.unescape(answer.text) if "html" in answer.headers["content-type"] else ""
        tell(text, path)
        title = re.search(r"<title>(.*?)</title>", text)
        assert title is None or NAME not in title[1]


def tell(text: str, where: str) -> None:
    for person in PERSONS:
        assert person not in text and person.split()[0] not in text, where
    for number in (*COUNTS, sum(COUNTS)):
        assert not re.search(rf"(?<![\w.,-]){number}(?![\w.,-]*\w)", text), f"{where} tells {number}"


def declared(browser, **fields) -> str:
    at = str(browser.post("/data/find", {"path": f"{NAME}.npz"}).url).partition("at=")[2]
    answer = browser.post("/data", {"at": at, "count": "private", "records": str(DECLARED), "unit": "record", **fields})
    assert answer.status_code == 200, answer.text
    return str(answer.url).rpartition("/")[2]


def test_nothing_tells_of_the_records(records, capfd):
    settings, images = records
    real = {image.tobytes() for image in images}
    app, people = opened(settings)
    custodian, analyst = people["custodian"], people["analyst"]
    names = [declared(custodian), declared(custodian, unit="person", person="patient")]
    asked = {"method": "dp-merf", "epsilon": "2", "count": "30", "name": "made"}
    asked["set"] = "\n".join(f"{field}={value}" for field, value in TINY.items())
    scan(crawled(custodian) | crawled(analyst), real)

    for name in names:
        scan({f"/plan/{name}": analyst.get(f"/plan/{name}", params=asked)}, real)
    plan = str(analyst.post(f"/plan/{names[0]}", asked).url).rpartition("/")[2]
    custodian.post(f"/approve/{plan}", {"price": "2"})
    (job,) = app.state.studio.jobs.all()
    place = app.state.studio.jobs.place(job.id)
    result = worker.carried_out(place)
    assert result["state"] == "done", result
    (place / "result.json").write_text(json.dumps(result))

    pages = crawled(custodian)
    assert len([path for path in pages if path.endswith(".png")]) > 20  # the crawl has seen the pictures
    scan(pages | crawled(analyst), real)
    for line in (place / "progress.jsonl").read_text().splitlines():
        told = json.loads(line)
        assert told.keys() <= {"stage", "total", "done", "note", "picture"} and "loss" not in line
        assert re.fullmatch(r"epsilon [\d.e+-]+", told.get("note", "epsilon 0"))
        tell(line, "progress")
    tell(json.dumps(app.state.studio.jobs.live()), "events")
    spoken = capfd.readouterr()
    tell(spoken.out + spoken.err, "the log")


def test_a_refusal_names_no_record_to_an_analyst(records):
    settings, _ = records
    _, people = opened(settings)
    at = str(people["custodian"].post("/data/find", {"path": f"{NAME}.npz"}).url).partition("at=")[2]
    wrong = people["custodian"].post("/data", {"at": at, "unit": "person", "person": "nobody", "count": "public"})
    assert wrong.status_code == 400
    tell(html.unescape(wrong.text), "the refusal")


def test_the_scan_would_find_a_record_and_a_count(records):
    _, images = records
    buffer = io.BytesIO()
    Image.fromarray(np.hstack([images[5], images[6]])).save(buffer, "PNG")
    assert tiles(buffer.getvalue()) & {image.tobytes() for image in images}
    with pytest.raises(AssertionError, match="tells 137"):
        tell("<td>137</td>", "a page")
