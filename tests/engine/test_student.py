"""From votes to a better generator: rules on hand-made votes, blur, replay, and a resume that nobody can tell."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from sfumato.engine.student import Student, direction, smoothing, spread
from sfumato.networks import ConvGenerator, DCGANGenerator
from sfumato.run import checkpoint

PAPER = {"teachers": 4000, "sigma": 5000.0, "threshold": 0.7}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def student(**options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = DCGANGenerator((1, 8, 8), ("a", "b"), latent=4, width=4, hidden=16)
    return Student(net, **options)


def feed(subject, first=0, last=6, size=6, seed=0):
    """Queries with made-up votes, each depending on its number alone."""
    for number in range(first, last):
        random = seeded(1000 * seed + number)
        z, labels = subject.net.latents(size, random), torch.randint(2, (size,), generator=random)
        subject.step(z, labels, torch.randn(size, 1, 8, 8, generator=random).sign())


def test_the_papers_rule_on_votes_made_by_hand():
    votes = torch.tensor([[2800.0, 2799.999, 0.0], [-2800.0, -2799.999, 1e9]], dtype=torch.float64)[None, None]
    assert direction(votes, **PAPER).tolist() == [[[[1, 0, 0], [-1, 0, 1]]]]


def test_the_other_rules_on_votes_made_by_hand():
    votes = torch.tensor([[5000.0, -5000.0, 500.0, 0.0]], dtype=torch.float64)[None, None]
    at = 2800 / 5000
    assert direction(votes, **PAPER, rule="soft").flatten().tolist() == pytest.approx([1, -1, 0.1, 0])
    assert direction(votes, **PAPER, rule="shrunk").flatten().tolist() == pytest.approx([1 - at, at - 1, 0, 0])
    expected = [math.tanh(at), -math.tanh(at), math.tanh(at / 10), 0]
    assert direction(votes, **PAPER, rule="tanh").flatten().tolist() == pytest.approx(expected)


def test_tanh_is_the_posterior_mean_of_a_sign():
    random, agreed, sigma = seeded(), 3.0, 4.0
    sign = torch.randint(2, (400_000,), generator=random).double() * 2 - 1
    votes = agreed * sign + sigma * torch.randn(len(sign), generator=random, dtype=torch.float64)
    moved = direction(votes.view(1, 1, 1, -1), teachers=1, sigma=sigma, threshold=3.0, rule="tanh").flatten()
    for low, high in ((-2.0, -1.0), (0.5, 1.5), (3.0, 5.0)):
        near = (votes >= low) & (votes < high)
        assert abs(sign[near].mean() - moved[near].mean()) < 0.02


@pytest.mark.parametrize("size", [1, 2, 5, 28])
@pytest.mark.parametrize("blur", [0.0, 0.4, 1.0, 6.0])
def test_a_blur_keeps_constants(size, blur):
    matrix = smoothing(size, blur)
    assert (matrix >= 0).all() and torch.allclose(matrix.sum(1), torch.ones(size, dtype=torch.float64))
    votes = torch.full((2, 3, size, size), 700.0, dtype=torch.float64)
    sharp, soft = (direction(votes, **PAPER, rule="soft", blur=b) for b in (0.0, blur))
    rise = 1 / (spread(matrix)[:, None] * spread(matrix))
    assert torch.allclose(soft, (sharp * rise).float())


def test_a_blur_is_the_reflected_convolution():
    image = torch.randn(1, 1, 12, 12, generator=seeded(), dtype=torch.float64)
    offsets = torch.arange(-3, 4, dtype=torch.float64)
    kernel = torch.exp(-offsets.square() / 2)
    kernel /= kernel.sum()
    expected = F.conv2d(F.pad(image, (3, 3, 3, 3), mode="reflect"), torch.outer(kernel, kernel)[None, None])
    matrix = smoothing(12, 1.0)
    assert torch.allclose(matrix @ image @ matrix.T, expected)
    assert spread(matrix)[6].item() == pytest.approx(kernel.square().sum().sqrt().item())


def test_a_blur_shrinks_noise_as_computed_at_every_pixel():
    matrix = smoothing(9, 1.5)
    noise = torch.randn(20_000, 1, 9, 9, generator=seeded(), dtype=torch.float64)
    found = (matrix @ noise @ matrix.T).std(0)[0]
    computed = spread(matrix)[:, None] * spread(matrix)
    assert (found / computed - 1).abs().max() < 0.03 and computed.max() < 0.5
    soft = direction(5000 * noise, **PAPER, rule="soft", blur=1.5)
    assert (soft.std(0) - 1).abs().max() < 0.03
    # The threshold is scaled alike, so noise passes it as often as without a blur.
    rates = [direction(5000 * noise, **PAPER, blur=b).abs().mean().item() for b in (0.0, 1.5)]
    assert rates[0] == pytest.approx(0.5755, abs=0.003) and rates[1] == pytest.approx(rates[0], abs=0.003)


@pytest.mark.parametrize(
    "change", [{"rule": "loud"}, {"sigma": 0.0}, {"teachers": 0}, {"blur": -1.0}, {"rule": "tanh", "threshold": 0.0}]
)
def test_a_direction_without_sense_is_refused(change):
    with pytest.raises(ValueError, match="Expected"):
        direction(torch.zeros(1, 1, 4, 4, dtype=torch.float64), **(PAPER | change))


def test_the_first_gradient_is_the_direction_backpropagated():
    subject = student(scale=0.25)
    z, labels = subject.net.latents(5, seeded()), torch.tensor([0, 1, 0, 1, 1])
    moved = torch.randn(5, 1, 8, 8, generator=seeded(1))
    subject.net(z, labels).backward(-2 * 0.25 * moved)
    expected = {name: p.grad.clone() for name, p in subject.net.named_parameters()}
    subject.step(z, labels, moved)  # the gradients of the step stay until the next
    for name, parameter in subject.net.named_parameters():
        assert torch.allclose(parameter.grad, expected[name], atol=1e-4), name


def test_images_move_along_the_direction():
    subject = student(learning_rate=1e-3, scale=0.3)
    z, labels = subject.net.latents(6, seeded()), torch.arange(6) % 2
    before, moved = subject.fakes(z, labels), torch.ones(6, 1, 8, 8)
    subject.step(z, labels, moved)
    assert 0 < ((subject.fakes(z, labels) - before) * moved).mean().item() < 0.3


def test_no_direction_is_no_step():
    subject = student(ema_decay=0.9)
    before = {name: value.clone() for name, value in subject.net.state_dict().items()}
    z, labels = subject.net.latents(4, seeded()), torch.arange(4) % 2
    subject.step(z, labels, torch.zeros(4, 1, 8, 8))
    assert all(torch.equal(before[name], value) for name, value in subject.net.state_dict().items())


def test_replay_keeps_the_last_batches_and_uses_them():
    subject, plain = student(replay=2), student()
    feed(subject, last=1)
    feed(plain, last=1)
    kept = subject.memory[0]
    assert torch.equal(subject.net.last.weight, plain.net.last.weight)  # there was no past yet
    feed(subject, first=1, last=2)
    feed(plain, first=1, last=2)
    assert not torch.equal(subject.net.last.weight, plain.net.last.weight)
    feed(subject, first=2, last=4)
    assert len(subject.memory) == 2 and all(batch is not kept for batch in subject.memory)
    assert all(set(batch) == {"z", "labels", "target"} for batch in subject.memory)
    assert plain.memory == []


def test_the_rate_falls_along_a_cosine():
    subject, rates = student(total=4, learning_rate=0.01), []
    for number in range(5):
        feed(subject, first=number, last=number + 1)
        rates.append(subject.optimiser.param_groups[0]["lr"])
    assert rates == pytest.approx([0.01 * (0.5 + 0.5 * math.cos(math.pi * q / 4)) for q in range(5)])


def test_the_finished_generator_is_averaged_settled_and_apart():
    subject = student(ema_decay=0.9, learning_rate=0.02)
    feed(subject)
    net = subject.finished()
    assert not net.training and subject.net.training
    assert torch.equal(net.first.layer.weight, subject.ema.weights["first.layer.weight"])
    assert not torch.equal(net.first.layer.weight, subject.net.first.layer.weight)
    assert not torch.equal(net.first.norm.variance, torch.ones(16))
    z, labels = net.latents(5, seeded()), torch.tensor([0, 1, 0, 1, 1])
    assert torch.allclose(net(z, labels)[:1], net(z[:1], labels[:1]), atol=1e-6)
    again = subject.finished()
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in net.state_dict().items())
    plain = student()
    assert torch.equal(plain.finished().last.weight, plain.net.last.weight)


FULL = {"ema_decay": 0.95, "replay": 3, "scale": 0.1, "total": 8, "learning_rate": 0.01}


@pytest.mark.parametrize("options", [FULL, {}])
def test_a_resumed_student_is_the_uninterrupted_one_bit_for_bit(tmp_path, options):
    whole, halved = student(**options), student(**options)
    feed(whole, last=7)
    feed(halved, last=4)
    checkpoint.save(tmp_path / "c", {"student": halved.state_dict()})
    resumed = student(**options)
    feed(resumed, last=2, seed=9)  # whatever it was before
    resumed.load_state_dict(checkpoint.load(tmp_path / "c")["student"])
    feed(resumed, first=4, last=7)
    one, two = whole.finished(), resumed.finished()
    assert all(torch.equal(value, two.state_dict()[name]) for name, value in one.state_dict().items())
    assert all(torch.equal(a, b) for a, b in zip(whole.net.parameters(), resumed.net.parameters(), strict=True))
    assert whole.queries == resumed.queries == 7


def test_any_generator_can_be_a_student():
    net = ConvGenerator((1, 8, 8), ("a", "b"), latent=4, width=8)
    subject = Student(net, ema_decay=0.5)
    feed(subject, last=2)
    assert subject.finished().sample(3).pixels.shape == (3, 1, 8, 8)


@pytest.mark.parametrize(
    "options",
    [{"learning_rate": 0}, {"scale": -1.0}, {"replay": -1}, {"total": 0}],
)
def test_settings_without_sense_are_refused(options):
    with pytest.raises(ValueError, match="Expected"):
        student(**options)


@pytest.mark.gpu
def test_the_same_steps_on_a_gpu():
    nets = []
    for _ in range(2):
        subject = student(**FULL)
        subject.net.cuda()
        subject = Student(subject.net, **FULL)
        for number in range(4):
            random = seeded(number)
            z, labels = subject.net.latents(6, random).cuda(), (torch.arange(6) % 2).cuda()
            votes = 5000 * torch.randn(6, 1, 8, 8, generator=random, dtype=torch.float64).cuda()
            subject.step(z, labels, direction(votes, **PAPER, blur=1.0))
        nets.append(subject.finished())
    assert all(torch.equal(value, nets[1].state_dict()[name]) for name, value in nets[0].state_dict().items())
