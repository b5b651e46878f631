"""Every layer with a rule against a loop over examples, and what the ghost way must leave to others."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.engine.gradients import ghost
from sfumato.engine.gradients.per_example import per_example
from sfumato.errors import InputError

LABELS = torch.zeros(5, dtype=torch.long)


class Apply(nn.Module):
    """A function of a layer's input, as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Attention(nn.Module):
    """Two heads of attention over positions, built of linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ask, self.give = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.ask(x).chunk(3, -1))
        return self.give(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))


class Words(nn.Module):
    """Grey levels as words of a table."""

    def __init__(self, **options: int) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 3, **options)

    def forward(self, x: Tensor) -> Tensor:
        return self.table((x.flatten(1) * 3.99).long())


def tokens(x: Tensor) -> Tensor:
    return x.flatten(2).transpose(1, 2)


NETS = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(72, 7), nn.Tanh(), nn.Linear(7, 3, bias=False)),
    "linear over positions": lambda: nn.Sequential(Apply(tokens), nn.Linear(2, 5), nn.GELU(), nn.Linear(5, 40)),
    "linear over two axes": lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh()),
    "few positions": lambda: nn.Sequential(Apply(lambda x: x.flatten(2)), nn.Linear(36, 30), nn.Tanh()),
    "conv": lambda: nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3)),
    "conv, small map": lambda: nn.Sequential(nn.Conv2d(2, 30, 5), nn.ReLU(inplace=True), nn.Conv2d(30, 9, 2)),
    "conv, strides": lambda: nn.Conv2d(2, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
    "conv, groups": lambda: nn.Sequential(nn.Conv2d(2, 6, 3, groups=2), nn.Conv2d(6, 6, 3, groups=6, bias=False)),
    "conv, same": lambda: nn.Conv2d(2, 4, (5, 3), padding="same", dilation=(1, 2)),
    "conv, reflected": lambda: nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"),
    "conv, channels last": lambda: nn.Conv2d(2, 4, 3).to(memory_format=torch.channels_last),
    "conv 1d": lambda: nn.Sequential(Apply(lambda x: x.flatten(2)), nn.Conv1d(2, 6, 5, 2, 1), nn.Conv1d(6, 4, 3)),
    "transposed": lambda: nn.Sequential(nn.ConvTranspose2d(2, 6, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(6, 2, 3)),
    "transposed, odd": lambda: nn.ConvTranspose2d(2, 6, (3, 2), (2, 3), (1, 0), (1, 2), groups=2, dilation=(2, 1)),
    "transposed 1d": lambda: nn.Sequential(Apply(lambda x: x.flatten(2)), nn.ConvTranspose1d(2, 5, 4, 2, 1)),
    "group norm": lambda: nn.Sequential(nn.Conv2d(2, 6, 3), nn.GroupNorm(3, 6), nn.SiLU(), nn.Conv2d(6, 2, 3)),
    "group norm of rows": lambda: nn.Sequential(nn.Flatten(), nn.Linear(72, 8), nn.GroupNorm(2, 8), nn.Tanh()),
    "instance norm": lambda: nn.Sequential(nn.Conv2d(2, 6, 3), nn.InstanceNorm2d(6, affine=True), nn.SiLU()),
    "layer norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm((6, 8)), nn.Tanh(), nn.LayerNorm(8), nn.Tanh()),
    "rms norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.RMSNorm(8), nn.Tanh()),
    "embedding": lambda: nn.Sequential(Words(), nn.Linear(3, 2), nn.Tanh()),
    "embedding, padded": lambda: Words(padding_idx=1),
    "attention": lambda: nn.Sequential(Apply(tokens), nn.Linear(2, 8), Attention(8), nn.LayerNorm(8), nn.Tanh()),
}


def loss(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    out = net(images).flatten(1)
    return (out * torch.linspace(-1, 2, out.shape[1])).sum(1).square() + out.square().mean(1)


def images(count: int = 5) -> Tensor:
    return torch.rand(count, 2, 6, 6, generator=torch.Generator().manual_seed(3))


def near(a: Tensor, b: Tensor, within: float = 1e-5) -> bool:
    return float((a.double() - b.double()).norm()) <= within * float(b.double().norm())


@pytest.mark.parametrize("name", NETS)
def test_a_layer_equals_a_loop(name):
    torch.manual_seed(1)
    net = NETS[name]()
    middle = float(per_example(net, loss, 1.0, way="loop").norms(images(), LABELS).median())
    fast, slow = (per_example(net, loss, middle, way=way) for way in ("ghost", "loop"))
    assert near(fast.norms(images(), LABELS), slow.norms(images(), LABELS))
    assert near(fast.rows(images(), LABELS), slow.rows(images(), LABELS))
    assert near(fast.total(images(), LABELS), slow.rows(images(), LABELS).sum(0))


@pytest.mark.parametrize("name", NETS)
def test_every_form_of_a_term_agrees(name, monkeypatch):
    torch.manual_seed(1)
    net = NETS[name]()
    usual = per_example(net, loss, 0.5, way="ghost").total(images(), LABELS)
    monkeypatch.setattr(ghost, "gram", lambda sizes: True)
    assert near(per_example(net, loss, 0.5, way="ghost").total(images(), LABELS), usual)
    monkeypatch.setattr(ghost, "gram", lambda sizes: False)
    monkeypatch.setattr(ghost, "ROOM", 1)
    assert near(per_example(net, loss, 0.5, way="ghost").total(images(), LABELS), usual)


def test_frozen_parameters_take_no_part():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(48, 2))
    net[0].weight.requires_grad_(False)
    fast, slow = (per_example(net, loss, 0.5, way=way) for way in ("ghost", "loop"))
    assert fast.shape == (3 + 98,)
    assert near(fast.total(images(), LABELS), slow.total(images(), LABELS))


def test_a_layer_that_is_not_used_has_zeros():
    net = nn.ModuleDict({"used": nn.Linear(72, 2), "idle": nn.Linear(3, 2)})
    query = per_example(net, lambda net, x, y: net["used"](x.flatten(1)).sum(1), 1.0, way="ghost")
    total = query.total(images(), LABELS)
    assert total[:146].abs().min() > 0 and total[146:].abs().max() == 0
    assert query.rows(images(), LABELS)[:, 146:].abs().max() == 0


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(72, 72)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(x.flatten(1)))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(72, 8)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.layer(x.flatten(1)).tanh(), self.layer.weight.t())


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(72))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) * self.scale


class Together(nn.Module):
    """The batch axis is not the first where the layer sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(2).permute(2, 0, 1)).transpose(0, 1)


def shared() -> nn.Module:
    net = nn.Sequential(nn.Flatten(), nn.Linear(72, 72), nn.Linear(72, 72))
    net[2].weight = net[1].weight
    return net


CASES = {
    "used twice": Twice,
    "do not come through": Tied,
    "parameters of its own": Own,
    "rows for": Together,
    "shared by two": shared,
    "ParametrizedLinear": lambda: nn.Sequential(
        nn.Flatten(), nn.utils.parametrizations.spectral_norm(nn.Linear(72, 3))
    ).eval(),
}


@pytest.mark.parametrize("words", CASES)
def test_what_is_not_covered_is_said_and_goes_another_way(words):
    torch.manual_seed(0)
    net = CASES[words]()
    with pytest.raises(InputError, match=words):
        per_example(net, loss, 0.5, way="ghost").total(images(), LABELS)
    found, exact = (per_example(net, loss, 0.5, way=way).total(images(), LABELS) for way in ("auto", "loop"))
    assert near(found, exact)


def test_zeros_of_an_initialisation_hide_nothing():
    net = nn.Sequential(Tied(), nn.Linear(72, 2))
    nn.init.zeros_(net[1].weight)
    with pytest.raises(InputError, match="do not come through"):
        per_example(net, loss, 0.5, way="ghost").total(images(), LABELS)


def test_norms_are_not_underestimated_where_positions_cancel():
    # a_1 b_1 + a_2 b_2 is tiny beside its parts: in float32 the Gram form would lose the norm altogether.
    a = torch.tensor([1.0, 1 + 2.0**-20]).view(1, 1, 2, 1).expand(1, 1, 2, 64).contiguous()
    b = torch.tensor([1.0, -1.0]).view(1, 1, 2, 1).expand(1, 1, 2, 64).contiguous()
    pairs = ghost.Pairs(a, b, lambda w: w.flatten(-3))
    exact = (b.double().mT @ a.double()).square().sum()
    assert float(pairs.lengths().square()) >= float(exact) > 0
    assert float(pairs.weighted(1 / pairs.lengths()[:, 0]).norm()) <= 1


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e12, 1e18])
def test_scales_at_the_edge_of_float32_keep_the_bound(scale):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(72, 8), nn.Tanh(), nn.Linear(8, 2))
    query = per_example(net, lambda net, x, y: scale * net(x * 1e-3).sum(1), 0.5, way="ghost")
    for one in range(5):
        assert float(query.total(images()[one : one + 1], LABELS[:1]).norm()) <= 0.5 * (1 + 1e-5)


def test_overwriting_the_input_of_a_layer_is_found():
    class Overwrites(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(72, 72)

        def forward(self, x: Tensor) -> Tensor:
            x = x.flatten(1) + 0
            y = self.layer(x)
            x.mul_(2)
            return y

    with pytest.raises(InputError, match="overwritten|inplace"):
        per_example(Overwrites(), loss, 0.5, way="ghost").total(images(), LABELS)


def test_pixels_beyond_a_map_are_refused():
    # They would be those of another example.
    layer, x = nn.Conv2d(2, 3, 3), torch.rand(4, 2, 6, 6)
    assert ghost.patches(x, layer, torch.Size((4, 4))).shape == (4, 1, 16, 18)
    for out in ((5, 4), (4, 5)):
        with pytest.raises(InputError, match="pixels"):
            ghost.patches(x, layer, torch.Size(out))


def test_a_wide_layer_is_measured_as_a_narrow_one(monkeypatch):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(72, 9), nn.LayerNorm(9), nn.Tanh())
    usual = per_example(net, loss, 0.5, way="ghost").total(images(), LABELS)
    monkeypatch.setattr(ghost, "SHORT", 8)
    assert near(per_example(net, loss, 0.5, way="ghost").total(images(), LABELS), usual)
