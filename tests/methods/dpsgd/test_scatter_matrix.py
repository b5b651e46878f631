"""Scatter matrices and statistics of mixtures: right, and bounded for any record."""

from __future__ import annotations

import pytest
import torch

from sfumato import Relation
from sfumato.engine.triangle import matrix_of
from sfumato.methods.dpsgd.scatter_matrix import STATISTICS, Scatter, shortened, statistics

TROUBLE = {
    "random": lambda: torch.rand(1, 1, 3, 3),
    "zero": lambda: torch.zeros(1, 1, 3, 3),
    "white": lambda: torch.ones(1, 1, 3, 3),
    "nan": lambda: torch.full((1, 1, 3, 3), torch.nan),
    "huge": lambda: torch.full((1, 1, 3, 3), 1e30),
}


def test_the_triangle_is_the_matrix():
    images, mean = torch.rand(20, 1, 3, 3), torch.full((9,), 0.5)
    query = Scatter(9, 10.0)
    x = images.flatten(1).double() - 0.5
    assert torch.allclose(matrix_of(query.total(images, torch.zeros(20), mean), 9), x.T @ x)
    rows = query.rows(images, torch.zeros(20), mean)
    assert torch.allclose(rows.sum(0), query.total(images, torch.zeros(20), mean))
    assert torch.allclose(rows.norm(dim=1), x.square().sum(1))  # Frobenius norms


@pytest.mark.parametrize("kind", TROUBLE)
def test_no_record_moves_the_scatter_by_more_than_it_declares(kind):
    torch.manual_seed(0)
    query, images, mean = Scatter(9, 0.8), torch.rand(12, 1, 3, 3), torch.rand(9)
    stranger, labels = TROUBLE[kind](), torch.zeros(13)
    whole = query.total(images, labels, mean)
    more = query.total(torch.cat([images, stranger]), labels, mean)
    swapped = query.total(torch.cat([images[1:], stranger]), labels, mean)
    assert (more - whole).norm() <= query.bound.norm <= query.bound.sensitivity(Relation.ADD_REMOVE)
    assert (swapped - whole).norm() <= query.bound.sensitivity(Relation.REPLACE_ONE)


def mixture(classes=2, components=3, latent=2):
    torch.manual_seed(0)
    shares = torch.softmax(torch.randn(classes, components).double(), 1)
    return shares, torch.randn(classes, components, latent).double() / 3, torch.full((classes, components, latent), 0.3)


def test_statistics_are_those_of_em():
    now = mixture()
    query = statistics(lambda images, labels: images.flatten(1)[:, :2] / 2, 3, 2)
    images, labels = torch.rand(5, 1, 3, 3), torch.tensor([0, 1, 1, 0, 1])
    rows = query.rows(images, labels, *now)
    z = images.flatten(1)[:, :2].double() / 2
    for i in range(5):
        law = torch.distributions.Normal(now[1][labels[i]], now[2][labels[i]].double())
        r = torch.softmax(now[0][labels[i]].log() + law.log_prob(z[i]).sum(1), 0)
        exact = torch.stack([torch.cat([m[None], m * z[i], m * z[i] ** 2]) for m in r])
        assert torch.allclose(rows[i], exact)


@pytest.mark.parametrize("kind", TROUBLE)
def test_no_record_adds_more_than_sqrt3(kind):
    for scale in (0.1, 1.0, 100.0):
        query = statistics(lambda images, labels, scale=scale: scale * (images.flatten(1)[:, :2] - 0.3), 3, 2)
        row = query.rows(TROUBLE[kind](), torch.zeros(1, dtype=torch.long), *mixture())
        assert torch.isfinite(row).all() and row.norm() <= STATISTICS.norm * (1 + 1e-12)


def test_rows_are_shortened_and_never_longer():
    x = shortened(torch.tensor([[3.0, 4.0], [0.3, 0.4], [torch.inf, 1.0]], dtype=torch.float64), 1.0)
    assert x.norm(dim=1).tolist() == pytest.approx([1.0, 0.5, 0.0]) and (x.norm(dim=1) <= 1).all()
