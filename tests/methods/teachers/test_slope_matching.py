"""A generator that explains all votes so far."""

from __future__ import annotations

import pytest
import torch

from sfumato import Run
from sfumato.methods.teachers.mmd_witness import FourierKernel, label_means
from sfumato.methods.teachers.slope_matching import SlopeMatching, present
from sfumato.networks.conv import ConvGenerator

CLASSES = ("0", "1")
FITS = 20


def student(run, **changes):
    torch.manual_seed(0)
    net = ConvGenerator((1, 8, 8), CLASSES, 4, 8)
    settings = {"present": (1.0, 1.0), "learning_rate": 5e-3, "fakes": 32, "total": 12 * FITS}
    return SlopeMatching(net, run, **{"kernel": FourierKernel(64, 200, 2.0, 1.0)} | settings | changes)


def data():
    """Bright on the left or on the right, a little different each time."""
    images = 0.2 * torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(40) % 2
    images[labels == 0, :, :, :4] += 0.7
    images[labels == 1, :, :, 4:] += 0.7
    return images.flatten(1), labels


def ask(subject, images, labels, number):
    """A query, answered with the data's own slopes, and the steps after it."""
    z, y = subject.net.latents(10, torch.Generator().manual_seed(number)), torch.arange(10) % 2
    x = subject.fakes(z, y)
    subject.hear(x, y, subject.kernel.slopes(x.flatten(1), images, label_means(y, labels)))
    for _ in range(FITS):
        subject.step()


@pytest.mark.parametrize("octaves", [0.0, 1.0])
def test_it_finds_images_with_the_slopes_that_it_was_told(octaves):
    images, labels = data()
    subject = student(Run(), kernel=FourierKernel(64, 200, 2.0, octaves))
    for number in range(12):
        ask(subject, images, labels, number)
    net = subject.finished()
    for y in (0, 1):
        mean = torch.from_numpy(net.sample(64, [y] * 64, seed=0).pixels).float().mean((0, 1)) / 255
        bright, dark = (mean[:, :4], mean[:, 4:])[:: 1 if y == 0 else -1]
        assert bright.mean() > dark.mean() + 0.4


def test_a_step_looks_at_some_queries_where_they_are_many():
    subject = student(Run())
    subject.hear(torch.rand(3000, 64), torch.zeros(3000, dtype=torch.int64), torch.rand(3000, 64))
    one, same, other = (subject._some(torch.Generator().manual_seed(seed))[0] for seed in (0, 0, 1))
    assert one.shape == (1024, 64) and torch.equal(one, same) and not torch.equal(one, other)


def test_the_learning_rate_falls_to_nothing():
    images, labels = data()
    subject, rates = student(Run(), total=2 * FITS), []
    for number in range(3):
        ask(subject, images, labels, number)
        rates.append(subject.optimiser.param_groups[0]["lr"])
    assert 5e-3 > rates[0] > rates[1] > rates[2] == 0


def test_a_state_goes_on():
    images, labels = data()
    whole, first, second = student(Run()), student(Run()), student(Run())
    for number in range(4):
        ask(whole, images, labels, number)
    for number in range(2):
        ask(first, images, labels, number)
    second.load_state_dict(first.state_dict())
    for number in range(2, 4):
        ask(second, images, labels, number)
    assert all(torch.equal(a, b) for a, b in zip(whole.net.parameters(), second.net.parameters(), strict=True))


def test_who_has_an_image_of_a_label():
    random = torch.Generator().manual_seed(0)
    sizes = torch.poisson(torch.full((200_000,), 6.0), generator=random).long().clamp(max=8)
    drawn = torch.rand(200_000, 8, generator=random) < 0.15
    drawn &= torch.arange(8) < sizes[:, None]
    assert present(6.0, 8, (0.15,))[0] == pytest.approx(float(drawn.any(1).float().mean()), abs=4e-3)
