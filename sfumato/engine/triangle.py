"""Symmetric matrices as their upper triangles: lengths of triangles are Frobenius norms."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def triangle_of(matrix: Tensor) -> Tensor:
    """The upper triangle of (..., d, d), its mixed entries times sqrt(2).

    >>> triangle_of(torch.tensor([[1.0, 2.0], [2.0, 3.0]])).square().sum().item()  # 1 + 4 + 4 + 9
    18.0
    """
    i, j = torch.triu_indices(*matrix.shape[-2:], device=matrix.device)
    return matrix[..., i, j] * torch.where(i == j, 1.0, math.sqrt(2)).to(matrix)


def outer_triangle(x: Tensor) -> Tensor:
    """The triangle of x x' for each row x, whose length is that of x squared; the products are formed once.

    >>> outer_triangle(torch.tensor([[3.0, 4.0]])).norm().item()
    25.0
    """
    i, j = torch.triu_indices(x.shape[1], x.shape[1], device=x.device)
    return (x[:, i] * torch.where(i == j, 1.0, math.sqrt(2)).to(x)).mul_(x[:, j])


def matrix_of(triangle: Tensor, width: int) -> Tensor:
    """The symmetric matrix (..., width, width) of a triangle, such as a released one."""
    i, j = torch.triu_indices(width, width, device=triangle.device)
    full = triangle.new_zeros(*triangle.shape[:-1], width, width)
    full[..., i, j] = triangle * torch.where(i == j, 1.0, math.sqrt(0.5)).to(triangle)
    return full + full.triu(1).mT
