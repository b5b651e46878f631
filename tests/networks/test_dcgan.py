"""The paper's generator: its size, its shapes, and images that depend on nothing but their own latent and label."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.networks import ConvGenerator, DCGANGenerator, load_generator


def small(shape=(1, 8, 8), classes=("a", "b", "c"), **options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return DCGANGenerator(shape, classes, latent=6, width=4, hidden=16, **options)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_it_has_the_size_of_the_official_networks():
    digits = DCGANGenerator((1, 28, 28), tuple("0123456789"))
    assert sum(p.numel() for p in digits.parameters()) == 7_014_011
    with torch.device("meta"):  # 34.25 million for 64x64 faces in two classes with 100 latents
        faces = DCGANGenerator((3, 64, 64), ("f", "m"), latent=100)
    assert round(sum(p.numel() for p in faces.parameters()) / 1e6, 2) == 34.25


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 16, 16), (1, 30, 27), (1, 5, 8)])
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_images_have_the_asked_shape_and_lie_within_range(shape, norm):
    net = small(shape, norm=norm)
    images = net(100 * torch.randn(4, 6, generator=seeded()), torch.tensor([0, 1, 2, 0]))
    assert images.shape == (4, *shape)
    assert torch.isfinite(images).all() and 0 <= images.min() <= images.max() <= 1
    net.settle(seeded(), batches=2, size=16)
    made, same, other = (net.eval().sample(6, seed=s).pixels for s in (0, 0, 1))
    assert np.array_equal(made, same) and not np.array_equal(made, other)


def test_a_settled_image_depends_on_its_own_latent_and_label_alone():
    net = small()
    z, labels = net.latents(9, seeded(1)), torch.arange(9) % 3
    mixed = net(z, labels)[:2]
    assert not torch.allclose(mixed, net(z[:2], labels[:2]), atol=1e-3)  # a training batch does mix
    net.settle(seeded())
    net.eval()
    together, alone = net(z, labels), torch.cat([net(z[i : i + 1], labels[i : i + 1]) for i in range(9)])
    assert torch.allclose(together, alone, atol=1e-6)
    net.sample(600)
    assert torch.equal(together, net(z, labels))


def test_settled_images_are_those_of_a_large_training_batch():
    net = small()
    with torch.no_grad():
        for parameter in net.parameters():  # away from the tame initial weights
            parameter.mul_(5).add_(0.1 * torch.randn(parameter.shape, generator=seeded(2)))
        z, labels = net.latents(8192, seeded(3)), torch.arange(8192) % 3
        trained, unsettled = net.train()(z, labels), net.eval()(z, labels)
        net.settle(seeded(), batches=32, size=256)
        settled = net(z, labels)
    off, before = (trained - settled).abs().mean(), (trained - unsettled).abs().mean()
    assert off < 0.01 and off < before / 10
    assert all((stage.norm.variance > 0).all() for stage in (net.first, net.second, net.third))


def test_training_and_settling_leave_the_rest_alone():
    net = small()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    net(net.latents(5, seeded()), torch.tensor([0, 1, 2, 0, 1]))
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    net.settle(seeded())
    changed = {name for name, value in net.state_dict().items() if not torch.equal(before[name], value)}
    assert net.training and changed == {
        f"{s}.norm.{m}" for s in ("first", "second", "third") for m in ("mean", "variance")
    }
    twice = small()
    twice.settle(seeded())
    assert all(torch.equal(value, twice.state_dict()[name]) for name, value in net.state_dict().items())


def test_group_norm_needs_no_settling():
    net = small(norm="group")
    z, labels = net.latents(6, seeded()), torch.arange(6) % 3
    assert torch.allclose(net(z, labels)[:1], net(z[:1], labels[:1]), atol=1e-6)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    net.settle(seeded())
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


@pytest.mark.parametrize(
    "options", [{}, {"norm": "group"}, {"latent_distribution": "uniform", "label_weights": [0.5, 0.25, 0.25]}]
)
def test_it_comes_back_from_its_configuration_and_weights(options):
    net = small(**options)
    net.settle(seeded())
    again = load_generator(net.eval().config(), net.state_dict())
    assert isinstance(again, DCGANGenerator) and not again.training and again.config() == net.config()
    one, two = net.sample(8, seed=5), again.sample(8, seed=5)
    assert np.array_equal(one.pixels, two.pixels) and np.array_equal(one.labels, two.labels)


def test_latents_follow_their_law():
    uniform, gaussian = (small(latent_distribution=law).latents(4000, seeded()) for law in ("uniform", "gaussian"))
    assert -1 <= uniform.min() < -0.99 and 0.99 < uniform.max() <= 1 and abs(uniform.var() - 1 / 3) < 0.01
    assert gaussian.max() > 3 and abs(gaussian.std() - 1) < 0.02
    conv = ConvGenerator((1, 8, 8), ("a",), latent=6, width=8)
    assert torch.equal(conv.latents(4000, seeded()), gaussian)


def test_the_label_reaches_the_image():
    net = small(norm="group")
    images = net(net.latents(1, seeded()).expand(3, -1), torch.arange(3))
    assert not torch.allclose(images[0], images[1]) and not torch.allclose(images[1], images[2])


@pytest.mark.parametrize(
    ("options", "says"),
    [({"latent_distribution": "cauchy"}, "latent_distribution gaussian"), ({"norm": "none"}, "norm=batch")],
)
def test_unknown_options_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        small(**options)
    with pytest.raises(ValueError, match="multiples of 8"):
        DCGANGenerator((1, 8, 8), ("a",), hidden=20, norm="group")
