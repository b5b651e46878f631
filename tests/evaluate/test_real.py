"""The door for evaluation: shapes and classes follow the release, uses of a private test set are counted."""

from __future__ import annotations

import json
import os
import stat

import numpy as np
import pytest

from sfumato import load
from sfumato.errors import InputError
from sfumato.evaluate.real import count_access, counts_path, open_real, open_test
from sfumato.types import Images


def like(shape=(1, 8, 8), classes=("0", "1", "2")):
    return Images(np.zeros((2, *shape), np.uint8), np.zeros(2, np.int64), tuple(classes))


def split_file(path, n=30, size=8, channels=(), shared=0, seed=0):
    random = np.random.default_rng(seed)
    train, test = (random.integers(0, 256, (n, size, size, *channels), dtype=np.uint8) for _ in range(2))
    test[:shared] = train[:shared]
    labels = np.arange(n) % 3
    np.savez(path, train_images=train, train_labels=labels, test_images=test, test_labels=labels)
    return str(path)


def test_both_splits_in_the_shape_of_the_release(tmp_path):
    data = split_file(tmp_path / "a.npz", channels=(3,), size=12)
    real = open_real(data, like())
    assert real.train.pixels.shape == real.test.pixels.shape == (30, 1, 8, 8)
    assert real.private and not real.shared.any() and real.train.labels.tolist() == (np.arange(30) % 3).tolist()


def test_a_grey_set_for_a_colour_release(tmp_path):
    real = open_real(split_file(tmp_path / "a.npz"), like((3, 8, 8)))
    assert real.test.pixels.shape == (30, 3, 8, 8)
    assert np.array_equal(real.test.pixels[:, 0], real.test.pixels[:, 2])


def test_test_images_that_are_training_images_are_found(tmp_path):
    real = open_real(split_file(tmp_path / "a.npz", shared=4), like())
    assert real.shared.tolist() == [True] * 4 + [False] * 26


def test_labels_follow_the_classes_of_the_release(tmp_path):
    real = open_real(split_file(tmp_path / "a.npz"), like(classes=("2", "x", "0", "1")))
    assert real.test.labels[:3].tolist() == [2, 3, 0]
    with pytest.raises(InputError, match="class '2', which the release does not know"):
        open_real(split_file(tmp_path / "b.npz"), like(classes=("0", "1")))


def test_without_a_test_split_a_test_set_must_be_named(tmp_path):
    with pytest.raises(InputError, match="--test"):
        open_real("digits", like(classes=tuple("0123456789")))
    real = open_real("digits", like(classes=tuple("0123456789")), test="digits")
    assert real.shared.all() and not real.private and real.accesses == 0


def test_a_box_stays_open_and_needs_its_test_set(tmp_path):
    data = split_file(tmp_path / "a.npz")
    with load(data) as box, load(data, split="test") as held:
        with pytest.raises(InputError, match="test="):
            open_real(box, like())
        assert len(open_real(box, like(), test=held).test) == 30
        assert len(open_real(box, like(), test=held).train) == 30


def test_another_shape_is_refused(tmp_path):
    with pytest.raises(InputError, match="1x8x8 and the release of 1x8x9"):
        open_real(split_file(tmp_path / "a.npz"), like((1, 8, 9)))


def test_uses_of_a_private_test_set_are_counted_beside_the_ledger(tmp_path):
    data = split_file(tmp_path / "a.npz")
    assert [open_real(data, like()).accesses for _ in range(3)] == [1, 2, 3]
    path = counts_path()
    assert str(path.parent) == os.path.dirname(os.environ["SFUMATO_LEDGER"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())[data]["count"] == 3
    assert open_real(data, like(), ledger=tmp_path / "other" / "ledger").accesses == 1
    assert open_real(split_file(tmp_path / "b.npz", seed=5), like()).accesses == 1


def test_a_public_test_set_is_free_even_beside_private_training_images(tmp_path):
    data = split_file(tmp_path / "a.npz")
    real = open_real(data, like(classes=tuple("0123456789")), test="digits")
    assert real.accesses == 0 and real.private and not counts_path().exists()


def test_a_refused_evaluation_counts_nothing(tmp_path):
    with pytest.raises(InputError):
        open_real(split_file(tmp_path / "a.npz"), like((1, 8, 9)))
    assert not counts_path().exists()


def test_a_damaged_list_is_not_overwritten():
    path = counts_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"a": 3}')
    with pytest.raises(InputError, match="no readable list"):
        count_access("a")
    assert path.read_text() == '{"a": 3}'


def test_groups_as_names_and_as_a_column(tmp_path):
    from PIL import Image

    data = split_file(tmp_path / "a.npz")
    assert open_real(data, like(), groups=["x", "y"] * 15).groups.tolist() == ["x", "y"] * 15
    with pytest.raises(InputError, match="30 test images, found 2"):
        open_real(data, like(), groups=["x", "y"])
    folder = tmp_path / "test"
    folder.mkdir()
    lines = ["file_name,label,hospital"]
    for number in range(6):
        Image.fromarray(np.full((8, 8), number, np.uint8)).save(folder / f"{number}.png")
        lines.append(f"{number}.png,{number % 3},{'north' if number < 2 else 'south'}")
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n")
    real = open_real(data, like(), test=str(folder), groups="hospital")
    assert real.groups.tolist() == ["north"] * 2 + ["south"] * 4 and real.test.labels.tolist() == [0, 1, 2] * 2


def test_a_closed_box_of_the_test_set_alone(tmp_path):
    with open_test(split_file(tmp_path / "a.npz"), like()) as box:
        assert box.spec.records == 30 and box.spec.shape == (1, 8, 8)
    assert not counts_path().exists()
