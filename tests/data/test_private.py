"""The box shows its spec and nothing else."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest

from sfumato.data import load
from sfumato.data.private import _INSIDE, PrivateImages, records, with_classes
from sfumato.errors import InputError
from sfumato.types import Unit

PIXELS = np.random.default_rng(5).integers(0, 256, (6, 4, 4), dtype=np.uint8)
LABELS = np.array([3, 3, 1, 1, 2, 3])


@pytest.fixture
def box(tmp_path, monkeypatch) -> PrivateImages:
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path))
    return load((PIXELS, LABELS))


def test_records_open_the_box(box):
    inside = records(box)
    assert len(inside) == 6
    assert inside.labels.tolist() == [2, 2, 0, 0, 1, 2] and inside.labels.dtype == np.int64
    assert inside.persons is None
    assert inside.digests.shape == (6, 32) and inside.digests.dtype == np.uint8
    assert np.array_equal(inside.read(slice(None))[:, 0], PIXELS)
    assert box.spec.classes == ("1", "2", "3") and box.spec.records == 6


def test_the_box_itself_gives_nothing_away(box):
    for reach in (len, list, iter, lambda b: b[0], pickle.dumps, copy.copy, copy.deepcopy, vars):
        with pytest.raises(TypeError):
            reach(box)
    assert repr(box) == f"PrivateImages({box.spec!r})"
    public = {name for name in dir(box) if not name.startswith("__")}
    assert public == {"spec", "close", "_spec", "unused", "_unused"}
    with pytest.raises(AttributeError):
        box.spec = None
    with pytest.raises(AttributeError):
        box.records = None


def test_a_closed_box_stays_closed(box):
    inside = records(box)
    with box as same:
        assert same is box
    box.close()
    with pytest.raises(InputError, match="arrays was closed; load it again"):
        records(box)
    with pytest.raises((AssertionError, ValueError)):
        inside.read(slice(None))


def test_a_forgotten_box_frees_what_is_inside(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path))
    gc.collect()
    before = len(_INSIDE)
    box = load((PIXELS, LABELS))
    assert len(_INSIDE) == before + 1
    del box
    gc.collect()
    assert len(_INSIDE) == before


def test_persons_are_coded_densely_and_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path))
    box = load((PIXELS, LABELS, np.array(["eve", "ann", "eve", "bob", "ann", "eve"])))
    assert box.spec.unit is Unit.PERSON and box.spec.records == 3
    assert records(box).persons.tolist() == [0, 1, 0, 2, 1, 0]


def test_digests_name_images_by_content_mode_and_size(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path))

    def names(images, **options):
        return [bytes(row) for row in records(load((images, None), **options)).digests]

    plain = names(PIXELS)
    assert len(set(plain)) == 6
    assert names(PIXELS, size=8) == plain  # the original counts, not what became of it
    assert names(PIXELS[:, None]) == plain
    colour = np.repeat(PIXELS[..., None], 3, axis=3)
    assert names(colour, grey=True) == names(colour) == names(colour.transpose(0, 3, 1, 2))
    assert not set(names(colour)) & set(plain)
    assert not set(names(PIXELS.reshape(6, 2, 8))) & set(plain)
    changed = PIXELS.copy()
    changed[2, 0, 0] ^= 1
    assert [a == b for a, b in zip(names(changed), plain, strict=True)] == [True, True, False, True, True, True]


def test_records_go_by_the_classes_that_several_sets_have_in_common():
    box = load((np.zeros((4, 8, 8), np.uint8), np.array(["ill", "odd", "ill", "odd"])))
    among = with_classes(box, ("well", "odd", "ill"))
    assert among.spec.classes == ("well", "odd", "ill") and among.spec.records == 4
    assert records(among).labels.tolist() == [2, 1, 2, 1]
    assert (records(among).digests == records(box).digests).all()
    with pytest.raises(InputError, match="found odd too"):
        with_classes(box, ("well", "ill"))
