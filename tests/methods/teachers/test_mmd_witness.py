"""Critics in closed form."""

import math

import pytest
import torch

from sfumato.methods.teachers.kernels import Gauss, Waves, _waves
from sfumato.methods.teachers.mmd_witness import MMDWitness, shares

SHAPE = (1, 4, 4)


def given(count=3, teacher_batch=5, classes=2, fakes=7, seed=0):
    random = torch.Generator().manual_seed(seed)
    images = torch.rand(count, teacher_batch, *SHAPE, generator=random)
    labels = torch.randint(classes, (count, teacher_batch), generator=random)
    return images, labels, torch.rand(fakes, *SHAPE, generator=random), torch.arange(fakes) % classes


def made(recipe, *data):
    team = recipe.make(len(data[0]), torch.Generator())
    team.update(*data)
    return team


def kernel(x, r, width):
    return torch.exp(-(x[:, None] - r[None]).square().sum(2) / (2 * width**2))


@pytest.mark.parametrize("shown", [0, 7])
def test_directions_are_the_slopes_of_the_critic(shown):
    recipe, (images, labels, fakes, asked) = MMDWitness(SHAPE, 2, fakes=shown, teacher_batch=5), given()
    team, unit = made(recipe, images, labels, fakes, asked), recipe.width * math.exp(0.5)
    for i in range(3):
        x = fakes.flatten(1).clone().requires_grad_()
        total = 0.0
        for y in (0, 1):
            own = images[i][labels[i] == y].flatten(1)
            if len(own):
                d = kernel(x[asked == y], own, recipe.width).mean(1)
                total = total + d.sum()
                if shown:
                    others = fakes[asked == y].flatten(1)
                    total = total - kernel(x[asked == y], others, recipe.width).mean(1).sum()
        (slope,) = torch.autograd.grad(total, x)
        assert torch.allclose(team.directions(fakes, asked)[i], slope * unit, atol=1e-5)


def test_widths_take_turns():
    data = given()
    wide = made(MMDWitness(SHAPE, 2, bandwidth=0.5, teacher_batch=5), *data)
    team = MMDWitness(SHAPE, 2, bandwidth=0.25, teacher_batch=5, octaves=2.0).make(3, torch.Generator())
    team.update(*data, 8)
    assert torch.allclose(team.directions(*data[2:]), wide.directions(*data[2:]))
    team.update(*data, 6)
    assert not torch.allclose(team.directions(*data[2:]), wide.directions(*data[2:]))


def test_directions_of_waves_are_the_slopes_of_the_critic():
    recipe, (images, labels, fakes, asked) = (
        MMDWitness(SHAPE, 2, fakes=7, teacher_batch=5, waves=40, octaves=1.0),
        given(),
    )
    team, kernel = made(recipe, images, labels, fakes, asked), recipe.kernel
    waves, unit = _waves(kernel, "cpu")

    def mean(x, others):
        return torch.cos((x[:, None] - others[None]) @ waves).mean((1, 2))

    for i in range(3):
        x = fakes.flatten(1).clone().requires_grad_()
        total = 0.0
        for y in (0, 1):
            own, here = images[i][labels[i] == y].flatten(1), x[asked == y]
            if len(own):
                total = total + (mean(here, own) - mean(here, fakes[asked == y].flatten(1))).sum()
        (slope,) = torch.autograd.grad(total, x)
        assert torch.allclose(team.directions(fakes, asked)[i], slope / unit, atol=1e-5)


def test_waves_are_a_gaussian_on_average_and_do_not_end():
    random = torch.Generator().manual_seed(0)
    x, r, one = torch.rand(5, 16, generator=random), torch.rand(3, 16, generator=random), torch.full((5, 3), 1 / 3)
    waves, gauss = Waves(16, 200_000, 1.0), Gauss(1.0)
    slopes, unit = waves.slopes(x, r, one), _waves(waves, "cpu")[1]
    assert torch.allclose(slopes * unit, gauss.slopes(x, r, one) * math.exp(-0.5), atol=2e-2)
    far, few = x + 20, Waves(16, 200, 1.0)
    assert gauss.slopes(far, r, one).abs().max() < 1e-6
    lengths = few.slopes(far, r[:1], torch.ones(5, 1)).norm(dim=1)
    assert (lengths > 0.2).all()
    assert (lengths < 1.2).all()


def test_the_slope_of_a_density_is_at_most_one():
    random = torch.Generator().manual_seed(0)
    x, r = torch.randn(200, 16, generator=random), 0.2 * torch.randn(9, 16, generator=random)
    equal, sizes = torch.full((200, 9), 1 / 9), (0.1, 0.3, 0.5, 1.0, 3.0)
    lengths = torch.cat([Gauss(1.5).slopes(x * size, r, equal) for size in sizes]).norm(dim=1)
    assert lengths.max() <= 1 + 1e-6
    assert lengths.max() > 0.8


def test_shares_are_those_of_the_same_label():
    found = shares(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 1, 3]))
    assert found.tolist() == [[0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


def test_a_teacher_without_a_label_says_nothing_about_it():
    images, labels, fakes, asked = given()
    team = made(MMDWitness(SHAPE, 2, fakes=7, teacher_batch=5), images, torch.zeros_like(labels), fakes, asked)
    said = team.directions(fakes, asked).norm(dim=2)
    assert (said[:, asked == 1] == 0).all()
    assert (said[:, asked == 0] > 0).all()


def test_no_teacher_feels_anothers_images():
    recipe, (images, labels, fakes, asked) = MMDWitness(SHAPE, 2, fakes=7, teacher_batch=5), given()
    changed = images.clone()
    changed[0] = float("nan")
    one, other = made(recipe, images, labels, fakes, asked), made(recipe, changed, labels, fakes, asked)
    assert torch.equal(one.directions(fakes, asked)[1:], other.directions(fakes, asked)[1:])
    assert not torch.equal(one.directions(fakes, asked)[0], other.directions(fakes, asked)[0])


def test_without_labels_all_images_are_of_one_kind():
    images, labels, fakes, asked = given()
    blind = made(MMDWitness(SHAPE, 0, fakes=7, teacher_batch=5), images, labels, fakes, asked)
    told = made(MMDWitness(SHAPE, 1, fakes=7, teacher_batch=5), images, 0 * labels, fakes, 0 * asked)
    assert torch.equal(told.directions(fakes, 0 * asked), blind.directions(fakes, asked))


def test_a_state_goes_on_and_some_are_asked_alone():
    recipe, data = MMDWitness(SHAPE, 2, fakes=7, teacher_batch=5), given()
    team, copy = made(recipe, *data), recipe.make(3, torch.Generator())
    copy.load_state_dict({name: t.clone() for name, t in team.state_dict().items()})
    assert torch.equal(team.directions(*data[2:]), copy.directions(*data[2:]))
    few = team.some(torch.tensor([2, 0]))
    assert torch.allclose(few.directions(*data[2:]), team.directions(*data[2:])[[2, 0]], atol=1e-6)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="Expected bandwidth above 0"):
        MMDWitness(SHAPE, 2, bandwidth=0.0)
