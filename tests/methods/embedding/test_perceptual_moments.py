"""Perceptual moments: two blocks of norm 1, from frozen networks of any kind."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from sfumato.errors import InputError
from sfumato.methods.embedding import perceptual
from sfumato.methods.embedding.perceptual_moments import PerceptualMoments


class Doubling(nn.Module):
    """Features of no network: twice the pixels."""

    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return self.by * x.flatten(1)


def test_the_two_blocks_are_first_and_second_moments():
    psi, images = PerceptualMoments(Doubling(), 1, (3, 2, 2)), torch.rand(4, 3, 2, 2)
    found, e = psi(images), images.flatten(1)
    assert found.shape == (4, psi.size) == (4, 24)
    assert torch.allclose(found[:, :12], e / e.norm(dim=1, keepdim=True), atol=1e-6)
    assert torch.allclose(found[:, 12:], e**2 / (e**2).norm(dim=1, keepdim=True), atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_no_image_is_longer_than_the_root_of_two(channels):
    psi = PerceptualMoments(perceptual.network("random"), 2, (channels, 8, 8))
    images = torch.rand(6, channels, 8, 8)
    images[1], images[2], images[3] = 0, 1e4, images[3] > 0.5
    rows = psi(images)
    assert (rows.norm(dim=1) <= math.sqrt(2) * (1 + 1e-6)).all()
    assert torch.allclose(rows[4], psi(images[4:5])[0], atol=1e-6)
    assert PerceptualMoments(Doubling(), 1, (3, 2, 2))(torch.zeros(1, 3, 2, 2)).norm() == 0  # no features, no term
    assert psi(images.double()).dtype == torch.float64 and psi(images).dtype == torch.float32


def test_a_module_goes_by_the_hash_of_its_weights():
    name = perceptual.bring(Doubling())
    assert name == perceptual.bring(Doubling()) == perceptual.bring(name)
    frozen = perceptual.network(name)
    assert not frozen.training and not any(p.requires_grad for p in frozen.parameters())


def test_a_file_of_weights_is_enough(tmp_path: Path):
    torch.manual_seed(0)
    net = perceptual.Vgg16()
    save_file({k: v.half() for k, v in net.state_dict().items()}, tmp_path / "weights.safetensors")
    name = perceptual.bring(str(tmp_path / "weights.safetensors"))
    assert name.startswith("vgg16-") and str(tmp_path) not in name
    maps = perceptual.network(name)(torch.rand(1, 3, 8, 8))
    assert [m.shape[1] for m in maps] == [64, 128, 256, 512, 512]


def test_what_is_not_here_is_named(monkeypatch):
    monkeypatch.delenv(perceptual.VGG16, raising=False)
    with pytest.raises(InputError, match="SFUMATO_VGG16"):
        perceptual.network("vgg16")
    with pytest.raises(ValueError, match="Expected network"):
        perceptual.bring("nothing")


def test_efficientnet_gives_maps_of_every_size():
    maps = perceptual.Efficient().eval()(torch.rand(1, 3, 8, 8))
    assert [m.shape[1] for m in maps] == [16, 24, 40, 112, 1280]
    assert [m.shape[2] for m in maps] == [32, 16, 8, 4, 2]
