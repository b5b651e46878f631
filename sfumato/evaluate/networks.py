"""The classifiers, each written for several seeds at once.

A network of S seeds holds S independent copies side by side: convolutions have S groups, channel normalisation is
per channel and therefore per seed, dense layers are batched products. Every parameter is the S single ones joined
along their first axis, so that `build` makes the copies apart and joins them.

    cnn      the small CNN of GS-WGAN, DataLens and DPAF: 3x3 convolutions of 32, 64 and 64 channels, 2x2 pooling after
             the first two, a dense layer of 64, softmax (93,322 parameters for 28x28 grey images of 10 classes)
    mlp      two hidden layers, of 512 and 256
    logreg   multinomial logistic regression on the pixels
    resnet   ResNet-20: three stages of three basic blocks, 16, 32 and 64 channels
    wrn      WRN-16-2: pre-activation, three stages of two blocks, 32, 64 and 128 channels
    resnext  ResNeXt-20: three stages of two bottleneck blocks, cardinality 8, 64, 128 and 256 channels

Pixels are scaled to [-1, 1] by fixed constants; nothing is normalised by statistics of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.errors import InputError

Shape = tuple[int, int, int]
LARGE = 48  # images from this size on are halved by the first layer of the residual networks
SMALL = 24  # images below this size keep it in the convolutions of the CNN


class Dense(nn.Module):
    """A linear layer for each seed: (S, B, inputs) -> (S, B, outputs)."""

    def __init__(self, seeds: int, inputs: int, outputs: int) -> None:
        super().__init__()
        edge = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(seeds, inputs, outputs).uniform_(-edge, edge))
        self.bias = nn.Parameter(torch.empty(seeds, 1, outputs).uniform_(-edge, edge))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


class Apart(nn.Module):
    """(B, S * C, H, W) -> (S, B, C * H * W)."""

    def __init__(self, seeds: int) -> None:
        super().__init__()
        self.seeds = seeds

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), self.seeds, -1).transpose(0, 1)


def conv(
    seeds: int, inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1, **options: int
) -> nn.Conv2d:
    """A convolution for each seed, without bias, as normalisation follows it."""
    return nn.Conv2d(
        seeds * inputs,
        seeds * outputs,
        size,
        stride,
        options.get("padding", size // 2),
        groups=seeds * groups,
        bias=bool(options.get("bias", 0)),
    )


def cnn(seeds: int, shape: Shape, classes: int) -> nn.Sequential:
    """conv 32, pool, conv 64, pool, conv 64, dense 64, dense."""
    channels, *sides = shape
    pad = 0 if min(sides) >= SMALL else 1
    left = [_left(side, pad) for side in sides]
    # Pooling before the ReLU gives the same values at a quarter of the cost.
    return nn.Sequential(
        conv(seeds, channels, 32, padding=pad, bias=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        conv(seeds, 32, 64, padding=pad, bias=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        conv(seeds, 64, 64, padding=pad, bias=1),
        nn.ReLU(),
        Apart(seeds),
        Dense(seeds, 64 * math.prod(left), 64),
        nn.ReLU(),
        Dense(seeds, 64, classes),
    )


def _left(side: int, pad: int) -> int:
    """Pixels that the CNN leaves of a side."""
    cut = 2 - 2 * pad
    return ((side - cut) // 2 - cut) // 2 - cut


def mlp(seeds: int, shape: Shape, classes: int) -> nn.Sequential:
    """Two hidden layers."""
    return nn.Sequential(
        Apart(seeds),
        Dense(seeds, math.prod(shape), 512),
        nn.ReLU(),
        Dense(seeds, 512, 256),
        nn.ReLU(),
        Dense(seeds, 256, classes),
    )


def logreg(seeds: int, shape: Shape, classes: int) -> nn.Sequential:
    """One linear layer."""
    return nn.Sequential(Apart(seeds), Dense(seeds, math.prod(shape), classes))


class Block(nn.Module):
    """A residual block: `inner` beside the identity, or beside a 1x1 convolution where the shape changes."""

    def __init__(self, before: nn.Module, inner: nn.Module, short: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.before = before
        self.inner = inner
        self.short = short
        self.after = after

    def forward(self, x: Tensor) -> Tensor:
        ready = self.before(x)
        # A pre-activated block takes its identity from the raw input, its projection from the activated one.
        side = x if isinstance(self.short, nn.Identity) else self.short(ready)
        out: Tensor = self.after(side + self.inner(ready))
        return out


def _norm(seeds: int, channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(seeds * channels)


def _active(seeds: int, channels: int) -> nn.Sequential:
    return nn.Sequential(_norm(seeds, channels), nn.ReLU())


def _basic(s: int, a: int, b: int, stride: int) -> Block:
    inner = nn.Sequential(conv(s, a, b, 3, stride), _active(s, b), conv(s, b, b), _norm(s, b))
    return Block(nn.Identity(), inner, _short(s, a, b, stride, True), nn.ReLU())


def _wide(s: int, a: int, b: int, stride: int) -> Block:
    inner = nn.Sequential(conv(s, a, b, 3, stride), _active(s, b), conv(s, b, b))
    return Block(_active(s, a), inner, _short(s, a, b, stride, False), nn.Identity())


def _split(s: int, a: int, b: int, stride: int) -> Block:
    half = b // 2
    inner = nn.Sequential(
        conv(s, a, half, 1),
        _active(s, half),
        conv(s, half, half, 3, stride, groups=8),
        _active(s, half),
        conv(s, half, b, 1),
        _norm(s, b),
    )
    return Block(nn.Identity(), inner, _short(s, a, b, stride, True), nn.ReLU())


def _short(s: int, a: int, b: int, stride: int, normed: bool) -> nn.Module:
    if a == b and stride == 1:
        return nn.Identity()
    project = conv(s, a, b, 1, stride)
    return nn.Sequential(project, _norm(s, b)) if normed else project


def _stages(
    seeds: int,
    shape: Shape,
    classes: int,
    stem: int,
    widths: Sequence[int],
    depth: int,
    block: Callable[[int, int, int, int], Block],
    activated: bool,
) -> nn.Sequential:
    """Stem, three stages of which two halve the image, mean over the image, dense."""
    first = 2 if min(shape[1:]) >= LARGE else 1
    layers: list[nn.Module] = [conv(seeds, shape[0], stem, 3, first)]
    if activated:
        layers.append(_active(seeds, stem))
    before = stem
    for stage, width in enumerate(widths):
        for number in range(depth):
            layers.append(block(seeds, before, width, 2 if stage and not number else 1))
            before = width
    if not activated:
        layers.append(_active(seeds, before))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), Apart(seeds), Dense(seeds, before, classes))


def resnet(seeds: int, shape: Shape, classes: int) -> nn.Sequential:
    """ResNet-20."""
    return _stages(seeds, shape, classes, 16, (16, 32, 64), 3, _basic, True)


def wrn(seeds: int, shape: Shape, classes: int) -> nn.Sequential:
    """WRN-16-2."""
    return _stages(seeds, shape, classes, 16, (32, 64, 128), 2, _wide, False)


def resnext(seeds: int, shape: Shape, classes: int) -> nn.Sequential:
    """ResNeXt-20 of cardinality 8."""
    return _stages(seeds, shape, classes, 32, (64, 128, 256), 2, _split, True)


NETWORKS: dict[str, Callable[[int, Shape, int], nn.Sequential]] = {
    "cnn": cnn,
    "mlp": mlp,
    "logreg": logreg,
    "resnet": resnet,
    "wrn": wrn,
    "resnext": resnext,
}


def build(name: str, shape: Shape, classes: int, seeds: Sequence[int]) -> nn.Sequential:
    """The named network with one copy a seed, each initialised from its seed alone.

    >>> build("cnn", (1, 28, 28), 10, [0, 1])(torch.zeros(5, 2, 28, 28)).shape
    torch.Size([2, 5, 10])
    """
    if min(shape[1:]) < 4:
        raise InputError(f"Expected images of at least 4x4 pixels, found {shape[2]}x{shape[1]}.")
    states = []
    for seed in seeds:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            states.append(NETWORKS[name](1, shape, classes).state_dict())
    with torch.random.fork_rng(devices=[]):
        net = NETWORKS[name](len(seeds), shape, classes)
    net.load_state_dict({key: join([state[key] for state in states]) for key in states[0]})
    return net


def join(single: list[Tensor]) -> Tensor:
    """The same tensor of several networks, side by side; counters of steps are common to all."""
    return single[0] if single[0].dim() == 0 else torch.cat(single)


def channels_last(net: nn.Sequential, device: torch.device | str) -> nn.Sequential:
    """The network on a device, with its images in the layout that convolutions are fastest in."""
    layout: dict[str, Any] = {"memory_format": torch.channels_last}  # which the types of torch leave out
    return net.to(device, **layout)


class Judge(nn.Module):
    """One trained copy as an ordinary classifier: images in [0, 1] -> logits, and the layer before the last."""

    def __init__(self, net: nn.Sequential) -> None:
        super().__init__()
        self.body = net[:-1]
        self.head = net[-1]

    def features(self, x: Tensor) -> Tensor:
        """(B, C, H, W) in [0, 1] -> (B, width)."""
        rows: Tensor = self.body(x.mul(2).sub(1).contiguous(memory_format=torch.channels_last))
        return rows[0]

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x)[None])
        return logits[0]


def judge(net: nn.Module, name: str, shape: Shape, classes: int, at: int, seeds: int) -> Judge:
    """The copy number `at` of a network of several seeds."""
    one = NETWORKS[name](1, shape, classes)
    state = {k: v if v.dim() == 0 else v.chunk(seeds)[at].clone() for k, v in net.state_dict().items()}
    one.load_state_dict(state)
    return Judge(channels_last(one, next(net.parameters()).device)).eval()


def scaled(pixels: Tensor) -> Tensor:
    """uint8 pixels, by fixed constants, to [-1, 1]."""
    return pixels.float().div_(127.5).sub_(1)
