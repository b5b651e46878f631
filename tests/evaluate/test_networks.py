"""The classifiers: shapes, sizes, copies that share nothing."""

from __future__ import annotations

import pytest
import torch

from sfumato.errors import InputError
from sfumato.evaluate.networks import NETWORKS, build, judge, scaled


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64)])
def test_every_network_takes_every_shape(name, shape):
    net = build(name, shape, 5, [0, 1]).eval()
    made = net(torch.rand(3, 2 * shape[0], *shape[1:]))
    assert made.shape == (2, 3, 5) and torch.isfinite(made).all()


def test_sizes_are_modest_and_the_cnn_is_the_papers():
    sizes = {name: sum(p.numel() for p in build(name, (1, 28, 28), 10, [0]).parameters()) for name in NETWORKS}
    assert sizes["cnn"] == 93_322  # 320 + 18,496 + 36,928 + 36,928 + 650
    assert all(200_000 < sizes[name] < 1_000_000 for name in ("mlp", "resnet", "wrn", "resnext"))


@pytest.mark.parametrize("name", NETWORKS)
def test_copies_depend_on_their_own_seed_and_input_alone(name):
    both, one = build(name, (1, 8, 8), 3, [4, 7]).eval(), build(name, (1, 8, 8), 3, [7]).eval()
    x = torch.rand(6, 2, 8, 8)
    together = both(x)
    assert torch.allclose(together[1], one(x[:, 1:])[0], atol=1e-5)
    x[:, 0] = 0
    assert torch.allclose(both(x)[1], together[1], atol=1e-6)
    assert not torch.allclose(both(x)[0], together[0], atol=1e-4)


def test_building_leaves_the_global_random_state_alone():
    torch.manual_seed(3)
    before = torch.rand(1)
    torch.manual_seed(3)
    build("cnn", (1, 8, 8), 3, [0])
    assert torch.equal(torch.rand(1), before)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_judge_is_one_copy_as_an_ordinary_classifier(name):
    net = build(name, (1, 8, 8), 3, [0, 1, 2]).eval()
    x = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8)
    one = judge(net, name, (1, 8, 8), 3, 2, 3)
    expected = net(scaled(x).expand(-1, 3, -1, -1))[2]
    assert torch.allclose(one(x.float() / 255), expected, atol=1e-4)
    assert one.features(x.float() / 255).shape[0] == 5 and one.features(x.float() / 255).ndim == 2


def test_images_of_a_few_pixels():
    assert build("cnn", (1, 4, 5), 2, [0])(torch.zeros(2, 1, 4, 5)).shape == (1, 2, 2)
    with pytest.raises(InputError, match="at least 4x4"):
        build("cnn", (1, 3, 9), 2, [0])


def test_pixels_are_scaled_by_constants():
    assert scaled(torch.tensor([0, 255], dtype=torch.uint8)).tolist() == [-1.0, 1.0]
