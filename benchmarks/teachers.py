from __future__ import annotations
import torch
from torch import Tensor, nn
from torch.nn import functional
from sfumato.measure.critics import Critics
from sfumato.measure.teachers import Stacked

class Plain(nn.Module):
    """The critic as one would write it for a single teacher: planes concatenated, layers of torch.nn."""

    def __init__(self, recipe: Critics) -> None:
        super().__init__()
        (c, _, _), y, (a, b) = recipe.shape, recipe.classes, recipe.maps
        self.recipe = recipe
        self.first, self.second = nn.Conv2d(c + y, a, 5, 2, 2), nn.Conv2d(a + y, b, 5, 2, 2)
        self.dense = nn.Linear(b * recipe.positions[2] + y, recipe.hidden)
        self.last = nn.Linear(recipe.hidden + y, 1)
        self.norms = nn.ModuleList()
        if recipe.norm:
            self.norms.append(nn.BatchNorm2d(b, track_running_stats=False))
            self.norms.append(nn.BatchNorm1d(recipe.hidden, track_running_stats=False))

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        hot = functional.one_hot(labels, self.recipe.classes).to(x) if self.recipe.classes else x.new_zeros(len(x), 0)

        def planes(z: Tensor) -> Tensor:
            return torch.cat([z, hot[:, :, None, None].expand(-1, -1, *z.shape[2:])], 1)

        norms = self.norms or (nn.Identity(), nn.Identity())
        x = functional.leaky_relu(self.first(planes(x)), 0.2)
        x = functional.leaky_relu(norms[0](self.second(planes(x))), 0.2)
        x = functional.leaky_relu(norms[1](self.dense(torch.cat([x.flatten(1), hot], 1))), 0.2)
        return self.last(torch.cat([x, hot], 1))[:, 0]


def plain_of(block: Stacked, teacher: int) -> Plain:
    """The same teacher as a plain module, weights copied."""
    r, w = block.recipe, {name: tensor[teacher] for name, tensor in block.weights.items()}
    net, y, (a, b) = Plain(r).to(w["last"]), r.classes, r.maps
    for conv, name, inputs in ((net.first, "first", r.shape[0]), (net.second, "second", a)):
        image = w[name].view(5, 5, inputs, -1).permute(3, 2, 0, 1)
        label = w[f"{name}_label"].view(y, 5, 5, conv.out_channels).permute(3, 0, 1, 2)
        conv.weight.data, conv.bias.data = torch.cat([image, label], 1).contiguous(), w[f"{name}_bias"].clone()
    size = b * r.positions[2]
    maps = w["dense"][:size].view(r.positions[2], b, r.hidden).permute(2, 1, 0).flatten(1)
    net.dense.weight.data = torch.cat([maps, w["dense"][size : size + y].mT], 1).contiguous()
    net.dense.bias.data = w["dense"][size + y].clone()
    net.last.weight.data, net.last.bias.data = w["last"][None, :-1].clone(), w["last"][-1:].clone()
    for norm, name in zip(net.norms, ("second", "dense"), strict=False):
        norm.weight.data, norm.bias.data = w[f"{name}_scale"].clone(), w[f"{name}_shift"].clone()
    return net
