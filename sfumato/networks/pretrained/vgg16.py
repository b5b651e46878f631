"""The convolutions of VGG16 (Simonyan and Zisserman 2015), in plain torch, for a local weight file."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from sfumato.errors import InputError
from sfumato.networks.pretrained.resize import at_least
from sfumato.networks.pretrained.weights import read, vgg16_file

# of ImageNet, under which VGG16 was trained
MEAN = (0.485, 0.456, 0.406)
SPREAD = (0.229, 0.224, 0.225)


class VGG16(nn.Module):
    """Images (n, 3, h, w) in [0, 1] -> maps of all five stages; layers have torchvision's names."""

    STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for stage in self.STAGES:
            for after in stage:
                layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
                before = after
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> list[Tensor]:
        mean, spread = (torch.tensor(v).to(x)[:, None, None] for v in (MEAN, SPREAD))
        x = (at_least(x, 32) - mean) / spread
        maps = []
        for layer in self.features:
            if isinstance(layer, nn.MaxPool2d):
                maps.append(x)
            x = layer(x)
        return maps


def load(path: str | Path | None = None) -> VGG16:
    """The network with the weights of a local file; those of its classifier are left out."""
    file = vgg16_file(path)
    network = VGG16()
    tensors = read(file)
    own = {name: tensors[name].float() for name in network.state_dict() if name in tensors}
    if len(own) != len(network.state_dict()):
        raise InputError(f"{file} holds another network than VGG16; see the documentation of dp-mepf.")
    network.load_state_dict(own)
    return network
