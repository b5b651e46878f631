"""Hermite features of single images (Vinaroz et al. 2022): what the Gaussian kernel of Mehler's formula is made of."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def hermite(x: Tensor, order: int, rho: float) -> Tensor:
    """psi_0(x) to psi_order(x) in a last axis; psi(x)'psi(y) tends to exp(-rho (x-y)^2 / (1-rho^2)) with the order.

    psi_c(x) = (1-rho^2)^(1/4) sqrt((rho/2)^c / c!) H_c(x) exp(-rho x^2 / (1+rho)), by a recurrence that stays finite.
    The squares add up to 1 over all orders, so that the norm is at most 1.
    """
    psi = [(1 - rho * rho) ** 0.25 * torch.exp(-rho / (1 + rho) * x.square())]
    for c in range(order):
        # The first step has no term before the last.
        before = rho * math.sqrt(c / (c + 1)) * psi[c - 1] if c else 0.0
        psi.append(math.sqrt(2 * rho / (c + 1)) * x * psi[c] - before)
    return torch.stack(psi, -1)


def within_unit(rows: Tensor) -> Tensor:
    """Rows made shorter where they are longer than 1."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / norms.clamp(min=1.0)


class HermiteFeatures:
    """The sum kernel over all pixels and the product kernel over random groups of pixels, each of norm at most 1.

    Sum: psi of each pixel over sqrt(pixels). Product: for each group the outer product of its pixels' psi, over
    sqrt(groups), up to an order of its own where one is given. The groups are drawn from public randomness. `product`
    is the weight of the second block.
    """

    def __init__(
        self,
        pixels: int,
        order: int,
        rho: float,
        reach: float,
        groups: int,
        members: int,
        product: float,
        random: torch.Generator,
        product_order: int = 0,
    ) -> None:
        self.order = order
        self.product_order = product_order or order
        self.rho = rho
        self.reach = reach
        self.product = product
        drawn = [torch.randperm(pixels, generator=random)[:members] for _ in range(groups)]
        self.groups = torch.stack(drawn) if drawn else torch.zeros(0, members, dtype=torch.long)
        self.size = size(pixels, order, groups, members, self.product_order)

    def to(self, device: str) -> HermiteFeatures:
        """Move the groups."""
        self.groups = self.groups.to(device)
        return self

    def __call__(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        x = self.reach * (2 * images.flatten(1) - 1)
        psi = hermite(x, self.order, self.rho)  # (n, pixels, order + 1)
        added = within_unit(psi.flatten(1) / math.sqrt(psi.shape[1]))
        if not len(self.groups):
            return added
        few = psi if self.product_order == self.order else hermite(x, self.product_order, self.rho)
        return torch.cat([added, self.product * within_unit(self._products(few))], 1)

    def _products(self, psi: Tensor) -> Tensor:
        chosen = psi[:, self.groups]  # (n, groups, members, order + 1)
        outer = chosen[:, :, 0]
        for member in range(1, chosen.shape[2]):
            outer = (outer[..., :, None] * chosen[:, :, member, None, :]).flatten(2)
        return outer.flatten(1) / math.sqrt(len(self.groups))


def size(pixels: int, order: int, groups: int, members: int, product_order: int = 0) -> int:
    """Number of features."""
    block: int = ((product_order or order) + 1) ** min(members, pixels)
    return pixels * (order + 1) + groups * block
