"""A generator that explains all votes so far."""

import pytest
import torch

from sfumato import DataLens, Run
from sfumato.methods.teachers.kernels import Gauss, Waves
from sfumato.methods.teachers.mmd_witness import shares
from sfumato.methods.teachers.slope_matching import FieldStudent, present
from sfumato.networks.conv import ConvGenerator

CLASSES = ("0", "1")


def student(run, **changes):
    torch.manual_seed(0)
    net = ConvGenerator((1, 8, 8), CLASSES, 4, 8)
    settings = {"heard": (1.0, 1.0), "learning_rate": 5e-3, "fits": 20, "finish": 0, "fakes": 32, "total": 12}
    return FieldStudent(net, run, **{"kernel": Gauss(2.0)} | settings | changes)


def data():
    """Bright on the left or on the right, a little different each time."""
    images = 0.2 * torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(40) % 2
    images[labels == 0, :, :, :4] += 0.7
    images[labels == 1, :, :, 4:] += 0.7
    return images.flatten(1), labels


def ask(made, images, labels, step):
    random = torch.Generator().manual_seed(step)
    z, y = made.net.latents(10, random), torch.arange(10) % 2
    about = made.about(y)
    x, weights = made.fakes(z, y).flatten(1), shares(about, labels)
    made.step(z, y, made.kernel.slopes(x, images, weights, made.kernel.times(step)).view(10, 1, 8, 8))


@pytest.mark.parametrize(
    "changes", [{}, {"cross": True}, {"kernel": Gauss(2.0, 1.0)}, {"kernel": Waves(64, 200, 2.0, 1.0)}]
)
def test_it_finds_images_with_the_slopes_that_it_was_told(changes):
    images, labels = data()
    made = student(Run(), **changes)
    for t in range(12):
        ask(made, images, labels, t)
    net = made.finished()
    for y in (0, 1):
        mean = torch.from_numpy(net.sample(64, [y] * 64, seed=0).pixels).float().mean((0, 1)) / 255
        bright, dark = (mean[:, :4], mean[:, 4:])[:: 1 if y == 0 else -1]
        assert bright.mean() > dark.mean() + 0.4


def test_half_of_the_queries_are_about_other_labels():
    made = student(Run(), cross=True)
    asked = []
    for _ in range(4):
        asked.append(made.about(torch.tensor([0, 1])).tolist())
        made.votes.append(torch.zeros(1))
    assert asked == [[0, 1], [1, 0], [0, 1], [1, 0]]


def test_a_state_goes_on():
    images, labels = data()
    whole, first, second = student(Run()), student(Run()), student(Run())
    for t in range(4):
        ask(whole, images, labels, t)
    for t in range(2):
        ask(first, images, labels, t)
    second.load_state_dict(first.state_dict())
    for t in range(2, 4):
        ask(second, images, labels, t)
    assert all(torch.equal(a, b) for a, b in zip(whole.net.parameters(), second.net.parameters(), strict=True))


def test_who_has_an_image_of_a_label():
    random = torch.Generator().manual_seed(0)
    sizes = torch.poisson(torch.full((200_000,), 6.0), generator=random).long().clamp(max=8)
    drawn = torch.rand(200_000, 8, generator=random) < 0.15
    drawn &= torch.arange(8) < sizes[:, None]
    assert present(6.0, 8, (0.15,))[0] == pytest.approx(float(drawn.any(1).float().mean()), abs=4e-3)


@pytest.mark.parametrize("wrong", [{"critic": "network"}, {"compress": "topk"}, {"rule": "soft"}, {"shown": 0}])
def test_what_it_needs_is_said(wrong):
    right = {"student": "field", "critic": "kernel", "compress": "unit", "rule": "mean", "shown": 8}
    with pytest.raises(ValueError, match="for student=field"):
        DataLens(**right | wrong)
