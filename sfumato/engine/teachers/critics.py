"""The critic of DataLens (Wang et al., CCS 2021), one of thousands of teachers: sizes, start and folding tables.

For an image x of shape (c, h, w) and y classes, the label is handed to every layer:

    [x, planes]  -> convolution 5x5, stride 2, to c + y maps              -> leaky ReLU 0.2
    [., planes]  -> convolution 5x5, stride 2, to width + y maps, norm    -> leaky ReLU 0.2
    [., one-hot] -> linear to `hidden`, norm                              -> leaky ReLU 0.2
    [., one-hot] -> linear to 1

A convolution pads two pixels on every side: the sizes, ceil(h / 2), are those of TensorFlow's SAME, which pads an even
side by one and two. `norm` is batch normalisation by the statistics of the batch at hand, always.

A label plane is constant, so its zero-padded convolution depends on the position alone: it is the sum of those taps of
the label's weights that fall inside the image. The table `inside` (positions, 25) says which do; a plane is never
made. Maps are kept channels last, weights of a convolution as (taps x channels, maps).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from sfumato.engine.teachers.stacked import Stacked

TAPS = 25
PUBLIC = 0  # seed of first weights that teachers share
SPREAD = 0.02  # standard deviation of the first weights, as in DCGAN
MOMENTS = ("float32", "bfloat16")
PRECISIONS = ("float32", "tf32", "bfloat16")


class CriticBlock(Protocol):
    """Some critics as they are asked behind the barrier."""

    def directions(self, fakes: Tensor, labels: Tensor) -> Tensor:
        """Where each critic would move the fakes (m, c, h, w): (count, m, c h w)."""

    def scores(self, images: Tensor, labels: Tensor) -> Tensor:
        """How real each critic finds images (count or 1, n, c, h, w): (count, n)."""


@dataclass(frozen=True)
class Critics:
    """What a teacher is, public: one network, one optimiser, no state shared.

    `precision` is that of matrix products. "tf32" is float32 on a CPU. "bfloat16" rounds what goes into
    products and what is kept for the way back; weights are learned in float32, and Adam keeps a rounded copy of the
    linear layer's. `moments` is how Adam's are stored.

    >>> Critics((1, 28, 28), 10).parameters
    555655
    """

    shape: tuple[int, int, int]
    classes: int
    width: int = 32
    hidden: int = 256
    norm: bool = True
    teacher_batch: int = 15  # real images that each teacher brings to an update
    learning_rate: float = 1e-3
    beta1: float = 0.5
    beta2: float = 0.999
    moments: str = "float32"
    precision: str = "tf32"
    mismatch: bool = False  # a record under another label counts as fake (Reed et al. 2016)
    starts: int = 0  # different first weights, public, that teachers take in turn; 0: secret ones of each teacher's own

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or min(self.shape) < 1 or self.classes < 0:
            raise ValueError(
                f"Expected shape (c, h, w) and classes from 0, found shape={self.shape}, classes={self.classes}."
            )
        if min(self.width, self.hidden, self.teacher_batch) < 1 or not 0 < self.learning_rate < 10:
            raise ValueError(
                "Expected width, hidden and teacher_batch from 1 and learning_rate in (0, 10), "
                f"found {self.width}, {self.hidden}, {self.teacher_batch}, {self.learning_rate}."
            )
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise ValueError(f"Expected beta1 and beta2 in [0, 1), found {self.beta1}, {self.beta2}.")
        if self.moments not in MOMENTS or self.precision not in PRECISIONS:
            raise ValueError(
                f"Expected moments of {', '.join(MOMENTS)} and precision of {', '.join(PRECISIONS)}, "
                f"found moments={self.moments}, precision={self.precision}."
            )

    @property
    def maps(self) -> tuple[int, int]:
        """Channels after the first and the second convolution."""
        return self.shape[0] + self.classes, self.width + self.classes

    @property
    def sides(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Height and width of the image and after each convolution."""
        h, w = self.shape[1:]
        half = (math.ceil(h / 2), math.ceil(w / 2))
        return (h, w), half, (math.ceil(half[0] / 2), math.ceil(half[1] / 2))

    @property
    def positions(self) -> tuple[int, int, int]:
        """Pixels of the image and of the maps after each convolution."""
        first, second, third = (h * w for h, w in self.sides)
        return first, second, third

    @property
    def parameters(self) -> int:
        """How many numbers one critic learns."""
        (a, b), y = self.maps, self.classes
        convolutions = TAPS * (self.shape[0] + y) * a + a + TAPS * (a + y) * b + b
        linear = (self.positions[2] * b + y + 1) * self.hidden + self.hidden + y + 1
        return convolutions + linear + (2 * b + 2 * self.hidden if self.norm else 0)

    def layout(self) -> dict[str, tuple[int, ...]]:
        """The weights of one critic by name. `dense` and `last` have rows for inputs, label and bias, in this order."""
        (a, b), y, h = self.maps, self.classes, self.hidden
        rows = -(-(self.positions[2] * b + y + 1) // 8) * 8  # of eight each, for the matrix units; the rest stay zero
        weights: dict[str, tuple[int, ...]] = {
            "first": (TAPS * self.shape[0], a),
            "first_label": (y, TAPS, a),
            "first_bias": (a,),
            "second": (TAPS * a, b),
            "second_label": (y, TAPS, b),
            "second_bias": (b,),
            "dense": (rows, h),
            "last": (h + y + 1,),
        }
        if self.norm:
            weights |= {"second_scale": (b,), "second_shift": (b,), "dense_scale": (h,), "dense_shift": (h,)}
        return weights

    def start(self, count: int, random: torch.Generator, device: str) -> dict[str, Tensor]:
        """First weights of `count` critics, normal, as the device's own generator draws them from one seed."""
        if self.starts:
            few = replace(self, starts=0).start(self.starts, torch.Generator().manual_seed(PUBLIC), device)
            taken = torch.arange(count, device=device) % self.starts
            return {name: weights[taken] for name, weights in few.items()}
        own = torch.Generator(device).manual_seed(int(torch.randint(2**62, (), generator=random)))
        made = {}
        for name, shape in self.layout().items():
            made[name] = torch.zeros(count, *shape, device=device)
            if name.endswith("_scale"):
                made[name].fill_(1.0)
            elif not name.endswith(("_bias", "_shift")):
                made[name].normal_(0.0, self._spread(name), generator=own)
        made["dense"][:, self.positions[2] * self.maps[1] + self.classes :] = 0
        made["last"][:, -1] = 0
        return made

    def _spread(self, name: str) -> float:
        """Of the first weights: DCGAN's, or, where no norm sets the size of things right, that of He et al. (2015)."""
        inputs = {"first": TAPS * self.shape[0], "second": TAPS * self.maps[0], "dense": self.layout()["dense"][0]}
        return SPREAD if self.norm else math.sqrt(2 / inputs.get(name.removesuffix("_label"), self.hidden))

    def make(self, count: int, random: torch.Generator, device: str = "cpu") -> Stacked:
        """A block of `count` teachers with weights drawn from `random`."""
        from sfumato.engine.teachers.stacked import Stacked

        return Stacked(self, self.start(count, random, device))

    def block(self, parts: int, device: str) -> int:
        """How many of `parts` teachers make a block."""
        from sfumato.engine.teachers.stacked import chunk_for

        return chunk_for(self, device, parts)

    def held(self, count: int) -> int:
        """Bytes of the weights and the optimiser's state of `count` teachers."""
        layout = {name: math.prod(shape) for name, shape in self.layout().items()}
        copied = 2 * layout["dense"] if self.precision == "bfloat16" else 0
        return count * (sum(layout.values()) * (8 if self.moments == "bfloat16" else 12) + copied)

    def bytes(self, count: int) -> int:
        """Bytes that an update of `count` teachers at once takes beside what is held, about."""
        (a, b), (_, first, second) = self.maps, self.positions
        conv = TAPS * self.shape[0] * first + 4 * a * first + (TAPS * a + 9 * b + 4 * b) * second
        image = conv * (2 if self.precision == "bfloat16" else 4) + 4 * (4 * b * second + 4 * self.hidden)
        return count * (2 * self.teacher_batch * image + 4 * sum(map(math.prod, self.layout().values())))

    def inside(self, layer: int) -> Tensor:
        """Which of 25 taps fall inside the image at each position of convolution 0 or 1: (positions, 25) of 0, 1."""
        rows, columns = (_inside(side) for side in self.sides[layer])
        return (rows[:, None, :, None] * columns[None, :, None, :]).reshape(-1, TAPS)


def _inside(side: int) -> Tensor:
    """Along one axis: (ceil(side / 2), 5)."""
    pixel = 2 * torch.arange(math.ceil(side / 2))[:, None] + torch.arange(5) - 2
    return ((pixel >= 0) & (pixel < side)).float()
