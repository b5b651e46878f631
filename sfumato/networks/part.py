"""A part of a network to be trained, the rest as it is: parts by name, or low-rank adapters beside every layer.

    adapted      y = W x + U D x,   D of `rank` rows, U begins at zero; W is frozen, D and U are trained
    multiplied   W + U D in the place of both: the network has its old layers again

LoRA (Hu et al. 2022), for convolutions with a kernel in D and a pixel in U. Each layer is called once and with one
tensor, as ghost norms ask for.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import torch
from torch import Tensor, nn

Net = TypeVar("Net", bound=nn.Module)
ALL = "all"
# What is trained of a U-Net: attention, the embedding of labels, and the maps by which it enters the blocks.
PARTS = {ALL: (), "attention": ("attention", "label", "known")}


def train_only(net: nn.Module, parts: Collection[str]) -> None:
    """Freeze all parameters but those in modules of these names.

    >>> net = nn.ModuleDict({"body": nn.Linear(2, 2), "head": nn.Linear(2, 1)})
    >>> train_only(net, ("head",))
    >>> [name for name, p in net.named_parameters() if p.requires_grad]
    ['head.weight', 'head.bias']
    """
    for name, p in net.named_parameters():
        p.requires_grad_(not set(parts).isdisjoint(name.split(".")))


class Adapted(nn.Module):
    """A frozen layer, and a product of two small ones that is added to its answer."""

    def __init__(self, layer: nn.Linear | nn.Conv2d, rank: int) -> None:
        super().__init__()
        self.layer = layer
        self.down: nn.Linear | nn.Conv2d
        self.up: nn.Linear | nn.Conv2d
        if isinstance(layer, nn.Linear):
            self.down = nn.Linear(layer.in_features, rank, bias=False)
            self.up = nn.Linear(rank, layer.out_features, bias=False)
        else:
            kernel, stride, padding = layer.kernel_size, layer.stride, layer.padding
            self.down = nn.Conv2d(layer.in_channels, rank, kernel, stride, padding, bias=False)  # type: ignore[arg-type]
            self.up = nn.Conv2d(rank, layer.out_channels, 1, bias=False)
        nn.init.zeros_(self.up.weight)
        self.to(layer.weight.device)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.layer(x) + self.up(self.down(x))
        return answer

    @torch.no_grad()
    def multiplied(self) -> nn.Module:
        """One layer that answers the same."""
        product = self.up.weight.flatten(1) @ self.down.weight.flatten(1)
        self.layer.weight.add_(product.view_as(self.layer.weight))
        return self.layer


def adapt(net: Net, rank: int) -> Net:
    """Freeze a network and put adapters beside its linear maps and convolutions."""
    net.requires_grad_(False)
    for parent in list(net.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) in (nn.Linear, nn.Conv2d):
                setattr(parent, name, Adapted(layer, rank))  # type: ignore[arg-type]
    return net


def multiplied(net: Net) -> Net:
    """The same network with its adapters multiplied out; one without any is as it was."""
    for parent in list(net.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, Adapted):
                setattr(parent, name, layer.multiplied())
    return net
