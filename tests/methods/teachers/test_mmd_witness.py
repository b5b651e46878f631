"""Kernels as teachers."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato.methods.teachers.mmd_witness import FourierKernel, MMDWitness, _frequencies, label_means

SHAPE = (1, 4, 4)
WITNESS = MMDWitness(SHAPE, frequencies=40, octaves=1.0, teacher_batch=5)


def given(count=3, teacher_batch=5, classes=2, fakes=7, seed=0):
    random = torch.Generator().manual_seed(seed)
    images = torch.rand(count, teacher_batch, *SHAPE, generator=random)
    labels = torch.randint(classes, (count, teacher_batch), generator=random)
    return images, labels, torch.rand(fakes, *SHAPE, generator=random), torch.arange(fakes) % classes


def block_of(images, labels, witness=WITNESS):
    block = witness.make(len(images), torch.Generator())
    block.update(images, labels)
    return block


def test_directions_are_the_slopes_of_the_kernel_mean():
    images, labels, fakes, asked = given()
    found = block_of(images, labels).directions(fakes, asked)
    frequencies, unit = _frequencies(WITNESS.kernel, "cpu")
    for i in range(3):
        x = fakes.flatten(1).clone().requires_grad_()
        total = 0.0
        for y in (0, 1):
            own = images[i][labels[i] == y].flatten(1)
            if len(own):
                total = total + torch.cos((x[asked == y][:, None] - own[None]) @ frequencies).mean((1, 2)).sum()
        (slope,) = torch.autograd.grad(total, x)
        assert torch.allclose(found[i], slope / unit, atol=1e-5)


def gaussian_slopes(x, others, width):
    """Of the mean of exp(-|x - r|^2 / 2 width^2)."""
    x = x.clone().requires_grad_()
    far = (x[:, None] - others[None]).square().sum(2)
    return torch.autograd.grad(torch.exp(-far / (2 * width**2)).mean(1).sum(), x)[0]


def test_the_kernel_is_a_gaussian_on_average_and_does_not_end():
    random = torch.Generator().manual_seed(0)
    x, r, mean = torch.rand(5, 16, generator=random), torch.rand(3, 16, generator=random), torch.full((5, 3), 1 / 3)
    many = FourierKernel(16, 200_000, 1.0)
    unit = _frequencies(many, "cpu")[1]
    assert torch.allclose(many.slopes(x, r, mean) * unit, gaussian_slopes(x, r, 1.0), atol=2e-2)
    few = FourierKernel(16, 200, 1.0)
    assert gaussian_slopes(x + 20, r, 1.0).abs().max() < 1e-6
    lengths = few.slopes(x + 20, r[:1], torch.ones(5, 1)).norm(dim=1)
    assert (lengths > 0.2).all()
    assert (lengths < 1.2).all()


def test_means_are_over_the_same_label():
    found = label_means(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 1, 3]))
    assert found.tolist() == [[0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


def test_a_teacher_without_a_label_says_nothing_about_it():
    images, labels, fakes, asked = given()
    said = block_of(images, torch.zeros_like(labels)).directions(fakes, asked).norm(dim=2)
    assert (said[:, asked == 1] == 0).all()
    assert (said[:, asked == 0] > 0).all()


def test_no_teacher_feels_anothers_images():
    images, labels, fakes, asked = given()
    changed = images.clone()
    changed[0] = float("nan")
    one, other = (block_of(seen, labels).directions(fakes, asked) for seen in (images, changed))
    assert torch.equal(one[1:], other[1:])
    assert not torch.equal(one[0], other[0])


def test_a_state_goes_on_and_some_are_asked_alone():
    images, labels, fakes, asked = given()
    block, copy = block_of(images, labels), WITNESS.make(3, torch.Generator())
    copy.load_state_dict({name: t.clone() for name, t in block.state_dict().items()})
    assert torch.equal(block.directions(fakes, asked), copy.directions(fakes, asked))
    few = block.some(torch.tensor([2, 0]))
    assert torch.allclose(few.directions(fakes, asked), block.directions(fakes, asked)[[2, 0]], atol=1e-6)


def test_a_block_takes_what_room_there_is():
    assert WITNESS.block(10, "cpu") == 10
    large = MMDWitness((1, 28, 28), frequencies=4000, teacher_batch=24, asked=100)
    assert large.block(4000, "cpu") == 2**25 // (8 * 124 * 784 + 4 * 4000 * (3 * 24 + 4 * 100))


@pytest.mark.parametrize("bad", [{"bandwidth": 0.0}, {"bandwidth": math.inf}, {"teacher_batch": 0}, {"frequencies": 0}])
def test_settings_that_make_no_sense_are_refused(bad):
    with pytest.raises(ValueError, match="Expected bandwidth above 0"):
        MMDWitness(SHAPE, **bad)
