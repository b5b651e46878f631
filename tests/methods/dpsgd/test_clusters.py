"""Private k-means: a record lies in one cluster, and noise alone gives clusters all the same."""

from __future__ import annotations

import pytest
import torch

from sfumato import Relation, Run
from sfumato.engine.random_fourier import RandomFourier
from sfumato.methods.dpsgd.clusters import FEATURES, ROWS, Clusters, directions, rows_of, shares, updated


def clusters(count=3, pixels=64):
    phi = RandomFourier(pixels, FEATURES, 0.25, torch.Generator().manual_seed(0))
    return Clusters(phi, directions(count, Run(device="cpu"), 0), torch.zeros(2, count))


def test_a_record_is_in_the_row_of_its_cluster_alone():
    now, images, labels = clusters(), torch.rand(20, 1, 8, 8), torch.arange(20) % 2
    rows = rows_of(now, 2)(images, labels)
    own = now.own(images, labels)
    assert rows.shape == (20, 3, 2 + FEATURES)
    assert torch.equal(rows.abs().sum(2) > 0, torch.nn.functional.one_hot(own, 3).bool())
    assert torch.allclose(rows.flatten(1).norm(dim=1), torch.tensor(ROWS.norm, dtype=torch.float64))
    assert ROWS.sensitivity(Relation.ADD_REMOVE) == pytest.approx(2**0.5, rel=1e-3)


def test_centres_are_the_means_of_exact_sums():
    now, images, labels = clusters(), torch.rand(60, 1, 8, 8), torch.arange(60) % 2
    after = updated(rows_of(now, 2)(images, labels).sum(0), 2, 1.0, now, directions(3, Run(device="cpu"), 1))
    own, phi = now.own(images, labels), now.phi(images.double())
    for cluster in own.unique().tolist():
        assert torch.allclose(after.centres[cluster], phi[own == cluster].mean(0))
    assert torch.allclose(after.choice.sum(1), torch.ones(2).double())
    assert after.choice[0, own[0]] > 0


def test_noise_alone_gives_clusters_all_the_same():
    noisy = 100 * torch.randn(3, 2 + FEATURES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    after = updated(noisy, 2, 50.0, clusters(), directions(3, Run(device="cpu"), 1))
    assert torch.isfinite(after.centres).all() and (after.choice > 0).all()


def test_rounds_share_their_part_of_the_budget():
    found = shares(4, 0.2)
    assert list(found) == [f"clusters-{i}" for i in (1, 2, 3, 4)]
    assert sum(part.share for part in found.values()) == pytest.approx(0.2)
