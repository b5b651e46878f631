"""Fixed features: of the right size for any image, of one image alone, the same on every machine."""

from __future__ import annotations

import pytest
import torch

from sfumato.engine.gradients.validate import mixes_examples
from sfumato.networks.fixed_features import FixedFeatures, Patches
from sfumato.remembered import attach


def images(n, *shape):
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("shape", "patches"), [((1, 28, 28), 0), ((3, 32, 32), 4), ((3, 64, 48), 4), ((1, 9, 130), 2), ((1, 5, 7), 3)]
)
def test_any_image_has_features_of_the_stated_width(shape, patches):
    net = FixedFeatures(shape, patches)
    rows = net(images(4, *shape))
    assert rows.shape == (4, net.width)
    assert torch.isfinite(net(torch.zeros(2, *shape))).all()


def test_large_images_cost_no_more_than_small_ones():
    assert FixedFeatures((1, 128, 128)).width == FixedFeatures((1, 32, 32)).width


@pytest.mark.parametrize("mirrored", [False, True])
def test_examples_stay_apart(mirrored):
    net = FixedFeatures((3, 16, 16), 4, mirrored)
    assert not mixes_examples(net, images(4, 3, 16, 16))


def test_mirrored_features_do_not_tell_left_from_right():
    net = FixedFeatures((3, 16, 16), 4, mirrored=True)
    x = images(3, 3, 16, 16)
    torch.testing.assert_close(net(x), net(x.flip(3)), atol=1e-5, rtol=0)
    plain = FixedFeatures((3, 16, 16), 4)
    assert not torch.allclose(plain(x), plain(x.flip(3)), atol=1e-2)


def test_patches_follow_from_their_seed_and_see_what_they_look_for():
    one, other = Patches((3, 12, 12), 3), Patches((3, 12, 12), 3)
    assert torch.equal(one.patches, other.patches)
    assert not torch.equal(one.patches, Patches((3, 12, 12), 3, seed=1).patches)
    rows = one(images(4, 3, 12, 12))
    torch.testing.assert_close(rows.mean(1), torch.zeros(4), atol=1e-5, rtol=0)


def test_remembered_features_are_taken_as_they_are():
    net = FixedFeatures((1, 8, 8))
    x = images(2, 1, 8, 8)
    attach(x, net, torch.full((2, net.width), 7.0))
    assert (net(x) == 7).all()
    assert not (FixedFeatures((1, 8, 8))(x) == 7).any()
