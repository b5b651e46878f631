"""Triangles: there and back, and as long as the matrix."""

from __future__ import annotations

import pytest
import torch

from sfumato.engine.triangle import matrix_of, outer_triangle, triangle_of


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 5, 5)])
def test_a_matrix_comes_back_and_lengths_are_frobenius_norms(shape):
    half = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix = half + half.mT
    triangle = triangle_of(matrix)
    assert triangle.shape == (*shape[:-2], shape[-1] * (shape[-1] + 1) // 2)
    assert torch.allclose(matrix_of(triangle, shape[-1]), matrix)
    assert torch.allclose(triangle.norm(dim=-1), torch.linalg.matrix_norm(matrix))


def test_outer_products_are_those_of_their_matrices():
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.allclose(outer_triangle(x), triangle_of(x[:, :, None] * x[:, None]))
