"""The public rotation: lengths kept, undone, spread."""

from __future__ import annotations

import pytest
import torch

from sfumato.methods.teachers.rotation import Rotation, public_signs


@pytest.mark.parametrize("d", [1, 2, 3, 37, 64, 784, 12288])
def test_a_rotation_keeps_lengths_and_is_undone(d):
    rows, rotation = torch.randn(3, 2, d, generator=torch.Generator().manual_seed(0)), Rotation(d, seed=4)
    turned = rotation.turn(rows)
    assert turned.shape == (3, 2, rotation.size) and d <= rotation.size < 2 * d
    assert torch.allclose(turned.norm(dim=-1), rows.norm(dim=-1), rtol=1e-5)
    assert torch.allclose(rotation.back(turned), rows, atol=1e-5)
    assert torch.allclose(rotation.back(rotation.turn(rows.double())), rows.double(), atol=1e-12)


def test_one_pixel_is_spread_over_all_coordinates():
    one = torch.zeros(1, 64)
    one[0, 5] = 1.0
    assert torch.allclose(Rotation(64, seed=0).turn(one).abs(), torch.full((1, 64), 1 / 8))


def test_it_is_the_hadamard_matrix_of_scipy():
    from scipy.linalg import hadamard

    turned = Rotation(128, seed=9).turn(torch.eye(128, dtype=torch.float64))
    signs = public_signs(9, (128,)).double()
    assert torch.allclose(turned, torch.from_numpy(hadamard(128)).double() * signs[:, None] / 128**0.5)


def test_the_seed_decides():
    rows = torch.randn(2, 50)
    assert torch.equal(Rotation(50, 1).turn(rows), Rotation(50, 1).turn(rows))
    assert not torch.allclose(Rotation(50, 1).turn(rows), Rotation(50, 2).turn(rows))
