"""How many layers a discriminator in three parts has in each of them, in the notation of DPAF: C2-C2-C1, C3-C1-x."""

from __future__ import annotations

import re
from dataclasses import dataclass

ABSENT = ("x", "X", "×", "C0")
DEFAULTS = ((96, "C3-C1-x"), (48, "C2-C2-C1"), (12, "C1-C2-C1"), (0, "C1-C1-x"))  # from so many pixels of a side on

Side = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """Layers before the part that learns privately (conv1), in it (conv2*), and behind the aggregate (conv3*).

    >>> Layout.parse("C3-C1-x")
    Layout(conv1=3, conv2=1, conv3=0)
    >>> str(Layout(2, 2, 1))
    'C2-C2-C1'
    """

    conv1: int
    conv2: int
    conv3: int

    def __post_init__(self) -> None:
        if self.conv2 < 1 or min(self.conv1, self.conv3) < 0 or self.depth > 12:
            raise ValueError(f"Expected layout=x-C1-x or more layers, up to 12, found layout={self}.")

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Read the paper's notation."""
        parts = [part.strip() for part in text.split("-")]
        if len(parts) != 3 or not all(part in ABSENT or re.fullmatch(r"C\d{1,2}", part) for part in parts):
            raise ValueError(f"Expected layout as in C2-C2-C1 or C3-C1-x, found layout={text}.")
        return cls(*(0 if part in ABSENT else int(part[1:]) for part in parts))

    @classmethod
    def fit(cls, side: Side) -> Layout:
        """The paper's for 64 and 128 pixels; for smaller images aggregates of four pixels a side too, where they go.

        >>> [str(Layout.fit((side, side))) for side in (128, 64, 32, 28, 8)]
        ['C3-C1-x', 'C2-C2-C1', 'C1-C2-C1', 'C1-C2-C1', 'C1-C1-x']
        """
        return cls.parse(next(text for least, text in DEFAULTS if min(side) >= least))

    @property
    def depth(self) -> int:
        """Layers in all."""
        return self.conv1 + self.conv2 + self.conv3

    def __str__(self) -> str:
        return "-".join(f"C{count}" if count else "x" for count in (self.conv1, self.conv2, self.conv3))

    def sides(self, side: Side) -> list[Side]:
        """Of the maps, from the image on: halved by each layer, rounded up."""
        # Maps that are aggregated need two pixels of a side: one alone has no variance.
        if min(side) <= 2 ** max(self.conv1 + self.conv2, self.depth - 1):
            raise ValueError(f"Expected fewer layers for images of {side[0]}x{side[1]}, found layout={self}.")
        found = [side]
        for _ in range(self.depth):
            found.append((-(-found[-1][0] // 2), -(-found[-1][1] // 2)))
        return found

    def maps(self, channels: int, width: int, features: int) -> list[int]:
        """Of the image and of each layer: doubled by each, up to eight times the first; those aggregated are given.

        >>> Layout(2, 2, 1).maps(3, 64, 256)
        [3, 64, 128, 256, 256, 512]
        """
        found = [channels, *(width * 2 ** min(i, 3) for i in range(self.depth))]
        found[self.conv1 + self.conv2] = features
        return found

    def features(self, shape: tuple[int, int, int], features: int) -> tuple[int, int, int]:
        """What is aggregated of an image: m maps of h x w pixels.

        >>> Layout(2, 2, 1).features((3, 64, 64), 256)
        (256, 4, 4)
        """
        return (features, *self.sides(shape[1:])[self.conv1 + self.conv2])
