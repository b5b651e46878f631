"""DP-EM: the M step uses what was released alone, and finds a mixture."""

from __future__ import annotations

import pytest
import torch

from sfumato import Run
from sfumato.methods.dpsgd.mixture import first, updated


def test_the_m_step_is_that_of_exact_statistics():
    before = first(1, 2, 2, Run(device="cpu"))
    z = torch.tensor([[0.1, 0.2], [0.3, 0.0], [-0.2, 0.4]], dtype=torch.float64)
    r = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], dtype=torch.float64)
    one = torch.cat([torch.ones(3, 1).double(), z, z.square()], 1)
    shares, means, deviations = updated(torch.einsum("im,id->md", r, one)[None], before)
    weight = r[:, 0] / r[:, 0].sum()
    assert torch.allclose(means[0, 0], weight @ z)
    assert torch.allclose(deviations[0, 0].square(), weight @ (z - means[0, 0]).square())
    assert shares[0].tolist() == pytest.approx([2 / 3, 1 / 3], abs=0.01)


def test_noise_alone_gives_a_mixture_all_the_same():
    before = first(3, 4, 5, Run(device="cpu"))
    noisy = 100 * torch.randn(3, 4, 11, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shares, means, deviations = updated(noisy, before)
    assert all(torch.isfinite(t).all() for t in (shares, means, deviations))
    assert torch.allclose(shares.sum(1), torch.ones(3, dtype=torch.float64)) and (shares > 0).all()
    assert (means.abs() <= 1).all() and (deviations > 0).all() and (deviations <= 1).all()
    dead = noisy[:, :, 0] < 1
    assert torch.equal(means[dead], before[1][dead])
