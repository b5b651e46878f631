"""Public networks as feature maps: frozen, of any kind, named without a path."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from sfumato.errors import InputError
from sfumato.networks.pretrained import perceptual, weights
from sfumato.networks.pretrained.efficientnet import EfficientNetLite0
from sfumato.networks.pretrained.vgg16 import VGG16


def linear():
    layer = nn.Linear(12, 3)
    nn.init.constant_(layer.weight, 2.0)
    nn.init.zeros_(layer.bias)
    return layer


def test_a_module_goes_by_the_hash_of_its_weights():
    name = perceptual.bring(linear())
    assert name == perceptual.bring(linear()) == perceptual.bring(name)
    frozen = perceptual.network(name)
    assert not frozen.training and not any(p.requires_grad for p in frozen.parameters())


def test_a_file_of_weights_is_enough(tmp_path: Path):
    torch.manual_seed(0)
    net = VGG16()
    save_file({k: v.half() for k, v in net.state_dict().items()}, tmp_path / "weights.safetensors")
    name = perceptual.bring(str(tmp_path / "weights.safetensors"))
    assert name.startswith("vgg16-") and str(tmp_path) not in name
    maps = perceptual.network(name)(torch.rand(1, 3, 8, 8))
    assert [m.shape[1] for m in maps] == [64, 128, 256, 512, 512]


def test_what_is_not_here_is_named(monkeypatch):
    monkeypatch.delenv(weights.VGG16, raising=False)
    with pytest.raises(InputError, match="SFUMATO_VGG16"):
        perceptual.network("vgg16")
    with pytest.raises(ValueError, match="Expected network"):
        perceptual.bring("nothing")


def test_efficientnet_gives_maps_of_every_size():
    maps = perceptual.EfficientNetMaps(EfficientNetLite0()).eval()(torch.rand(1, 3, 8, 8))
    assert [m.shape[1] for m in maps] == [16, 24, 40, 112, 1280]
    assert [m.shape[2] for m in maps] == [32, 16, 8, 4, 2]
