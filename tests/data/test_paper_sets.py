"""The sets of the papers, on small copies of their layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sfumato.data import load, places365
from sfumato.data.private import records
from sfumato.types import Unit
from tests.made_up import expects


def put(path: Path, level: int, size: tuple[int, int] = (6, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (level, level, 0)).save(path)


def levels(box) -> list[int]:
    return records(box).read(slice(None))[:, 0, 0, 0].tolist()


FACES = {  # image: partition, black, blond, brown, male, identity
    "000001.png": (0, 1, -1, -1, 1, 11),
    "000002.png": (0, -1, 1, -1, -1, 12),
    "000003.png": (1, -1, -1, 1, -1, 11),
    "000004.png": (2, 1, -1, -1, -1, 13),
    "000005.png": (0, 1, -1, 1, 1, 14),
    "000006.png": (1, -1, -1, -1, 1, 14),
}


@pytest.fixture(params=["flat", "official"])
def celeba(tmp_path, request) -> Path:
    root = tmp_path / "celeba"
    anno, evaluation, img = ("Anno", "Eval", "Img") if request.param == "official" else ("", "", "")
    for level, name in enumerate(FACES, start=1):
        put(root / img / "img_align_celeba" / name, level)
    for place in (anno, evaluation):
        (root / place).mkdir(exist_ok=True)
    rows = [f"{name}  {a: d} {b: d} {c: d} {m: d}" for name, (_, a, b, c, m, _) in FACES.items()]
    head = "Black_Hair Blond_Hair Brown_Hair Male "
    (root / anno / "list_attr_celeba.txt").write_text("\n".join([str(len(FACES)), head, *rows]) + "\n")
    (root / anno / "identity_CelebA.txt").write_text("".join(f"{name} {row[5]}\n" for name, row in FACES.items()))
    lines = "".join(f"{name} {row[0]}\n" for name, row in FACES.items())
    (root / evaluation / "list_eval_partition.txt").write_text(lines)
    return root


def test_celeba_gender(celeba):
    box = load(f"celeba-gender:{celeba}")
    assert box.spec.name == "celeba-gender" and not box.spec.public
    assert box.spec.classes == ("female", "male") and box.spec.shape == (3, 8, 6)
    assert levels(box) == [1, 2, 3, 5, 6] and records(box).labels.tolist() == [1, 0, 0, 1, 1]
    test = load(f"celeba-gender:{celeba}", split="test", size=4)
    assert levels(test) == [4] and test.spec.classes == ("female", "male") and test.spec.shape == (3, 4, 4)


def test_celeba_hair_keeps_faces_with_exactly_one_colour(celeba):
    box = load(f"celeba-hair:{celeba}")
    assert box.spec.classes == ("black", "blond", "brown")
    assert levels(box) == [1, 2, 3] and records(box).labels.tolist() == [0, 1, 2]


def test_celeba_persons(celeba):
    box = load(f"celeba-gender:{celeba}", person="identity")
    assert box.spec.unit is Unit.PERSON and box.spec.records == 3
    assert records(box).persons.tolist() == [0, 1, 0, 2, 2]
    expects(f"celeba-gender:{celeba}", "write --person identity", person="who")


def test_damaged_celeba(celeba):
    expects(f"celeba-gender:{celeba}", "has no split val; it has train, test", split="val")
    expects(f"celeba-gender:{celeba}", "column Smiling to use as label", label="Smiling")
    attributes = next(celeba.rglob("list_attr_celeba.txt"))
    whole = attributes.read_text()
    for text, says in (
        (whole.replace("Male", "Mail"), "list_attr_celeba.txt has no attribute Male"),
        (whole.replace(" 1\n", " 5\n"), "entry 3, is not one image and its attributes"),
        ("", "has no attribute Male"),
        (whole[: whole.index("000003")], "list_attr_celeba.txt has no row for 000003.png"),
        (whole.replace("000002.png", "../000002.png"), "which leaves the folder"),
    ):
        attributes.write_text(text)
        expects(f"celeba-gender:{celeba}", says)
    attributes.write_bytes(b"\xff\xfe")
    expects(f"celeba-gender:{celeba}", "list_attr_celeba.txt is not text")
    attributes.write_text(whole)
    next(celeba.rglob("000003.png")).unlink()
    expects(f"celeba-gender:{celeba}", "000003.png cannot be read as an image .No such file")
    parts = next(celeba.rglob("list_eval_partition.txt"))
    parts.write_text(parts.read_text() + "000001.png 2\n")
    expects(f"celeba-gender:{celeba}", "list_eval_partition.txt, entry 7, is not one image and its value")
    parts.unlink()
    expects(f"celeba-gender:{celeba}", r"celeba has no list_eval_partition.txt; put the aligned CelebA images")
    expects(f"celeba-gender:{attributes}", "is not a folder")


def test_ffhq(tmp_path):
    root = tmp_path / "ffhq"
    names = [f"{number:05d}.png" for number in range(60)]
    for level, name in enumerate(names):
        put(root / "00000" / name, level, (10, 10))
    rows = "".join(f"00000/{name},{'male' if at % 2 else 'female'}\n" for at, name in enumerate(names))
    expects(f"ffhq-gender:{root}", "ffhq has no metadata file; add metadata.csv with file_name and gender")
    (root / "metadata.csv").write_text("file_name,gender\n" + rows)
    train, test = load(f"ffhq-gender:{root}"), load(f"ffhq-gender:{root}", split="test")
    assert train.spec.shape == (3, 128, 128) and not train.spec.public
    assert train.spec.classes == test.spec.classes == ("female", "male")
    assert sorted(levels(train) + levels(test)) == list(range(60))
    assert 1 <= test.spec.records <= 15
    assert levels(test) == levels(load(f"ffhq-gender:{root}", split="test", size=4))
    assert load(f"ffhq-gender:{root}", size=16).spec.shape == (3, 16, 16)
    assert [level % 2 for level in levels(train)] == records(train).labels.tolist()
    (root / "metadata.csv").write_text("file_name,sex\n" + rows)
    expects(f"ffhq-gender:{root}", "has no column gender to use as label; it has file_name, sex")


HIERARCHY = """,level 1,,,level 2,
category,indoor,"outdoor, natural","outdoor, man-made",shopping and dining,sport
'/a/airfield',0,0,1,0,0
'/c/church/indoor',1,0,0,0,0
'/b/beach',0,1,0,0,0
'/b/balcony/exterior',1,0,1,0,0
"""


@pytest.mark.parametrize(
    ("train", "names"),
    [
        ("train", {"airfield": 1, "church-indoor": 2, "beach": 3, "balcony-exterior": 4, "unknown": 5}),
        ("data_256", {"a/airfield": 1, "c/church/indoor": 2, "b/beach": 3, "b/balcony/exterior": 4}),
    ],
)
def test_places(tmp_path, monkeypatch, train, names):
    root = tmp_path / "places"
    for name, level in names.items():
        for number in range(5):
            put(root / train / name / f"{number}.png", level)
        put(root / "val" / name / "v.png", level)
    (root / "hierarchy.csv").write_text(HIERARCHY)
    monkeypatch.setattr(places365, "PUBLISHED", {"train": 5, "test": 1})
    box = load(f"places365-3:{root}")
    assert box.spec.classes == ("indoor", "outdoor-man-made", "outdoor-natural") and not box.spec.public
    assert np.bincount(records(box).labels).tolist() == [5, 5, 5]
    assert {(label, level) for label, level in zip(records(box).labels.tolist(), levels(box), strict=True)} == {
        (0, 2),
        (1, 1),
        (2, 3),
    }
    assert load(f"places365-3:{root}", split="test").spec.records == 3
    expects(f"places365-3:{root}", "has no split dev; it has test, train", split="dev")


def test_one_image_of_places_does_not_let_another_in(tmp_path, monkeypatch):
    """What is kept of a set without one file is what was kept, without that file: no rank, no count."""
    root = tmp_path / "places"
    for number in range(40):
        put(root / "train" / "airfield" / f"{number}.png", number)
    (root / "hierarchy.csv").write_text(HIERARCHY)
    monkeypatch.setattr(places365, "EACH", 20)
    monkeypatch.setattr(places365, "PUBLISHED", {"train": 40, "test": 1})
    kept = set(levels(load(f"places365-3:{root}")))
    assert 5 < len(kept) < 35
    for number in range(40):
        file = root / "train" / "airfield" / f"{number}.png"
        file.rename(tmp_path / "away.png")
        assert set(levels(load(f"places365-3:{root}"))) == kept - {number}
        (tmp_path / "away.png").rename(file)


def test_the_share_of_places_that_is_kept_is_public():
    """From the published sizes and the table of categories: about 40,000 of a class of the whole set."""
    classes = {f"{name}-{number}": name for name in places365.HEADINGS.values() for number in range(100)}
    shares = places365.shares(classes, "train")
    assert {name: share * 100 * 1_803_460 / 365 for name, share in shares.items()} == pytest.approx(
        dict.fromkeys(places365.HEADINGS.values(), 40_000)
    )
    assert set(places365.shares(classes, "test").values()) == {1.0}  # 100 a category: all of them


def test_places_without_its_table(tmp_path):
    root = tmp_path / "places"
    put(root / "airfield" / "1.png", 1)
    expects(f"places365-3:{root}", r"places has 0 .csv files; put the table of scene categories")
    (root / "h.csv").write_text("category,inside,outside\n")
    expects(f"places365-3:{root}", r"h.csv has no row with the headings indoor, outdoor natural")
    (root / "h.csv").write_bytes(b"\xff\xfe")
    expects(f"places365-3:{root}", r"h.csv cannot be read as CSV")
    (root / "h.csv").write_text(HIERARCHY)
    assert load(f"places365-3:{root}").spec.records == 1  # so few categories are kept whole
    (root / "airfield").rename(root / "elsewhere")
    expects(f"places365-3:{root}", "has no images")
