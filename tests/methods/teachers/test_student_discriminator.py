"""The student discriminator and its generator: all of it after the release."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from sfumato.methods.teachers.student_discriminator import StudentDiscriminator, StudentNetwork, above, target, varied
from sfumato.networks import ConvGenerator


def test_what_the_student_is_told():
    votes = torch.tensor([10.0, 90.0, -30.0, 200.0], dtype=torch.float64)
    assert target(votes, 100, "majority").tolist() == [0, 1, 0, 1]
    assert target(votes, 100, "share").tolist() == pytest.approx([0.1, 0.9, 0.0, 1.0])
    assert target(votes / 100, 100, "rank").tolist() == [0, 1, 0, 1]  # also where all of them look fake
    with pytest.raises(ValueError, match="Expected target"):
        target(votes, 100, "loud")


def test_a_generator_follows_what_the_student_is_told():
    # Made-up counts: the more an image is bright on the left, the more teachers call it real.
    torch.manual_seed(0)
    net, judge = ConvGenerator((1, 8, 8), ("0", "1"), 4, 8), StudentNetwork((1, 8, 8), 2, 8)
    pair, labels = (
        StudentDiscriminator(net, judge, learning_rate=5e-3, judge_learning_rate=3e-3, fits=2, replay=5),
        torch.arange(16) % 2,
    )
    before = pair.finished().sample(40, seed=1).pixels.astype(float)
    random = torch.Generator().manual_seed(0)
    for _ in range(40):
        z = torch.randn(16, 4, generator=random)
        x = pair.fakes(z, labels)
        votes = 1000 * (x[..., :4].mean((1, 2, 3)) - x[..., 4:].mean((1, 2, 3)))
        pair.learn(x, labels, target(votes, 1000, "rank"), random)
        pair.step(z, labels)
    after = pair.finished().sample(40, seed=1).pixels.astype(float)

    def left(images: np.ndarray) -> float:
        return images[..., :4].mean() - images[..., 4:].mean()

    assert left(after) > left(before) + 40


def test_a_judge_goes_on_from_its_state():
    def made():
        torch.manual_seed(0)
        net, judge = ConvGenerator((1, 8, 8), ("0", "1"), 4, 8), StudentNetwork((1, 8, 8), 2, 4)
        return StudentDiscriminator(net, judge, learning_rate=1e-2, judge_learning_rate=1e-2, replay=2, ema_decay=0.9)

    def step(pair, number):
        random, y = torch.Generator().manual_seed(number), torch.arange(4) % 2
        z = torch.randn(4, 4, generator=random)
        pair.learn(pair.fakes(z, y), y, (torch.arange(4) > 1).float(), random)
        pair.step(z, y)

    whole, again = made(), made()
    for number in range(3):
        step(whole, number)
    again.load_state_dict(copy.deepcopy(whole.state_dict()))
    step(whole, 3)
    step(again, 3)
    assert len(again.memory) == 3
    for a, b in zip(whole.finished().state_dict().values(), again.finished().state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_varied_images_stay_near_and_in_range():
    images = torch.full((6, 1, 9, 8), 0.5)
    found = varied(images, 0.1, torch.Generator().manual_seed(0))
    assert found.shape == images.shape and 0.02 < (found - images).std() < 0.1
    assert torch.equal(varied(images, 0.0, torch.Generator()), images)
    wild = varied(images, 9.0, torch.Generator().manual_seed(0))
    assert wild.min() == 0 and wild.max() == 1


def test_a_lone_image_and_a_broken_score_are_above_nothing():
    scores = torch.tensor([[5.0, 1.0, 2.0], [float("nan"), 1.0, float("inf")]])
    assert above(scores, torch.tensor([2, 0, 0])).tolist()[0] == [False, False, True]
    assert not above(scores, torch.tensor([2, 0, 0]))[1, 0]
