"""The official DataLens evaluation: a slow descent, looked at after every epoch."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.evaluate.official import OfficialSchedule, network, official
from sfumato.run.progress import Recorder


def halves(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images that are bright above or below."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    pixels = random.integers(0, 60, (count, 1, 12, 12))
    for i, label in enumerate(labels):
        pixels[i, 0, 6 * label : 6 * label + 6] += 150
    return pixels.astype(np.uint8), labels


def test_accuracy_after_each_epoch_rises_on_an_easy_set():
    schedule = OfficialSchedule(epochs=6, batch=32, learning_rate=0.1)
    progress = Recorder()
    found = official(*halves(256, 0), *halves(100, 1), classes=2, schedule=schedule, progress=progress)
    assert found.shape == (6,) and found[-1] > 0.95
    assert progress.lines[-1] == ("advance", 6, "")


def test_the_same_seed_gives_the_same_epochs_and_leaves_chance_alone():
    import torch

    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    schedule = OfficialSchedule(epochs=2, batch=32)
    one, two = (official(*halves(64, 0), *halves(50, 1), classes=2, seed=3, schedule=schedule) for _ in range(2))
    assert np.array_equal(one, two) and torch.equal(torch.rand(1), expected)


def test_the_official_schedule_and_network_are_those_of_the_code():
    assert OfficialSchedule() == OfficialSchedule(epochs=600, batch=512, learning_rate=2e-3)
    shapes = [tuple(p.shape) for p in network((1, 28, 28), 10).parameters() if p.dim() > 1]
    assert shapes == [(32, 1, 3, 3), (64, 32, 3, 3), (64, 64 * 11 * 11), (10, 64)]


@pytest.mark.gpu
def test_a_recorded_graph_learns_as_plain_steps_do():
    schedule = OfficialSchedule(epochs=6, batch=32, learning_rate=0.1)
    found = official(*halves(256, 0), *halves(100, 1), classes=2, schedule=schedule, device="cuda")
    assert found[-1] > 0.95
