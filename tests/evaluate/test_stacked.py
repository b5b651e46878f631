"""Stacked training: the same as a loop over seeds, and it learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.errors import SfumatoError
from sfumato.evaluate import stacked, tabular
from sfumato.evaluate.stacked import Schedule, batches, train
from sfumato.run.progress import Recorder

SHORT = Schedule(steps=60, batch=32, rate=3e-3)


def toy(n=400, classes=3, seed=0, size=8):
    """Each class is a bright bar in its own place, in noise."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, n)
    pixels = random.integers(0, 120, (n, 1, size, size), dtype=np.uint8)
    for at in range(classes):
        pixels[labels == at, :, 2 * at : 2 * at + 2] += 120
    return pixels, labels


@pytest.mark.parametrize("name", ["cnn", "mlp", "logreg", "resnet", "wrn", "resnext"])
def test_stacked_equals_a_loop_over_seeds(name):
    x, y = toy(96)
    schedule = Schedule(steps=4, batch=16, rate=1e-3)
    together = train(name, x, y, x[:20], y[:20], classes=3, seeds=[3, 8], schedule=schedule, looks=2)
    apart = [train(name, x, y, x[:20], y[:20], classes=3, seeds=[s], schedule=schedule, looks=2) for s in (3, 8)]
    assert together.logits.shape == (2, 20, 3) and together.accuracies.shape == (2, 2)
    assert np.abs(together.logits - np.concatenate([one.logits for one in apart])).max() < 1e-4
    assert np.abs(together.logits[0] - together.logits[1]).max() > 1e-2  # the seeds do differ


@pytest.mark.parametrize("name", ["cnn", "mlp"])  # in turn on a CPU, and at once
def test_each_seed_may_learn_from_images_of_its_own(name):
    sets = [toy(96, seed=seed) for seed in (1, 2)]
    x, y = (np.stack(kind) for kind in zip(*sets, strict=True))
    test_x, test_y = toy(20)
    rest = {"classes": 3, "schedule": Schedule(steps=4, batch=16, rate=1e-3), "looks": 2}
    together = train(name, x, y, test_x, test_y, seeds=[3, 8], **rest)
    apart = [train(name, *one, test_x, test_y, seeds=[s], **rest) for one, s in zip(sets, (3, 8), strict=True)]
    assert np.abs(together.logits - np.concatenate([one.logits for one in apart])).max() < 1e-4


@pytest.mark.parametrize("name", ["cnn", "mlp", "logreg", "resnet", "wrn", "resnext"])
def test_a_separable_toy_is_learnt(name):
    x, y = toy()
    test_x, test_y = toy(100, seed=1)
    schedule = SHORT if name in ("cnn", "mlp", "logreg") else Schedule(steps=45, batch=32, rate=5e-3)
    made = train(name, x, y, test_x, test_y, classes=3, seeds=[0, 1], schedule=schedule, looks=1)
    assert made.accuracies[:, -1].min() > 0.95
    assert np.array_equal((made.logits.argmax(-1) == test_y).mean(1), made.accuracies[:, -1])


@pytest.mark.parametrize("name", ["forest", "boosting"])
def test_trees_learn_the_toy(name):
    x, y = toy()
    test_x, test_y = toy(seed=1)
    made = tabular.train(name, x, y, test_x, test_y, classes=3, seeds=[0, 1])
    assert made.accuracies.shape == (2, 1) and made.accuracies.min() > 0.95
    assert np.allclose(np.exp(made.logits).sum(-1), 1, atol=1e-5)
    assert not np.array_equal(made.logits[0], made.logits[1])


@pytest.mark.parametrize("name", ["forest", "boosting"])
def test_trees_without_some_classes_never_guess_them(name):
    x, y = toy()
    made = tabular.train(name, x[y != 1], y[y != 1], x, y, classes=3, seeds=[0])
    assert set(made.logits.argmax(-1).ravel()) == {0, 2}
    one = tabular.train(name, x[y == 2], y[y == 2], x, y, classes=3, seeds=[0])
    assert (one.logits.argmax(-1) == 2).all()


def test_trees_take_a_bounded_number_of_images():
    assert len(tabular._rows(50, 20, 0)) == 20 and len(tabular._rows(10, 20, 0)) == 10


def test_noise_gives_chance():
    random = np.random.default_rng(0)
    x, y = random.integers(0, 256, (600, 1, 8, 8), dtype=np.uint8), random.integers(0, 3, 600)
    test_x, test_y = toy(600, seed=1)
    made = train("mlp", x, y, test_x, test_y, classes=3, seeds=[0, 1, 2], schedule=SHORT)
    unseen = random.integers(0, 256, (3000, 1, 8, 8), dtype=np.uint8), random.integers(0, 3, 3000)
    again = train("mlp", x, y, *unseen, classes=3, seeds=[0, 1, 2], schedule=SHORT)
    assert made.accuracies[:, -1].max() < 0.7
    assert abs(again.accuracies[:, -1].mean() - 1 / 3) < 0.05


def test_every_seed_sees_every_image_once_a_round():
    rows = torch.cat(list(batches(12, 4, [0, 1], 3)), 1)
    assert [sorted(seed) for seed in rows.tolist()] == [list(range(12))] * 2
    assert rows[0].tolist() != rows[1].tolist()


def test_steps_do_not_grow_with_the_data_and_are_shown():
    shown, (x, y) = Recorder(), toy(500)
    train("logreg", x, y, x[:10], y[:10], classes=3, seeds=[0], schedule=Schedule(steps=5, batch=8), progress=shown)
    assert shown.lines[0] == ("start", "logreg", 5) and shown.lines[-1][:2] == ("advance", 5)


def test_fewer_images_than_a_batch_will_do():
    x, y = toy(20)
    made = train("cnn", x, y, x, y, classes=3, seeds=[0], schedule=Schedule(steps=4, batch=64), looks=2)
    assert made.accuracies.shape == (1, 2)


def test_the_last_rate_is_zero_so_the_last_step_is_the_result():
    net = torch.nn.Sequential(*list(stacked.build("logreg", (1, 8, 8), 3, [0])))
    x, y = toy(64)
    states = []
    for _ in stacked._fit(net, stacked._on_device(x, y, "cpu"), [0], Schedule(steps=50, batch=32, rate=0.01), "cpu"):
        states.append(net[1].weight.detach().clone())
    moves = [float((b - a).abs().max()) for a, b in zip(states, states[1:], strict=False)]
    assert moves[-1] < 0.05 * max(moves)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("fashion-mnist", 0.90)])
def test_the_cnn_reaches_its_mark_on_real_images(name, least):
    from sfumato import load
    from sfumato.evaluate.real import records

    with load(name) as box, load(name, split="test") as held:
        inside, out = records(box), records(held)
        made = train(
            "cnn",
            inside.read(slice(0, None)),
            inside.labels,
            out.read(slice(0, None)),
            out.labels,
            classes=10,
            seeds=[0],
            looks=1,
        )
    assert made.accuracies[0, -1] >= least


def test_a_classifier_without_numbers_does_not_judge():
    """The largest of no numbers is the first class, whose share would be taken for an accuracy."""
    x, y = toy(96)
    astray = Schedule(steps=6, batch=16, rate=1e30)
    with pytest.raises(SfumatoError, match="'mlp', found others after 6 steps"):
        train("mlp", x, y, x[:20], y[:20], classes=3, seeds=[0], schedule=astray, looks=1)
