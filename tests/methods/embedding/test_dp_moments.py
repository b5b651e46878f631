"""Moments: the budget is spent, one record moves what it may, a Gaussian comes back, and a refit is free."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sfumato import Budget, DataSpec, DPMoments, InputError, Relation, Run, Unit, api, load
from sfumato.methods.embedding.dp_moments import COVARIANCE, MEAN, root, spread
from sfumato.networks.cosine import cosine_basis
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from tests.one_release import MNIST, bright_and_dark, learned_apart

SHAPE, D = (1, 8, 8), 6


def blobs(n=4000):
    """Two classes whose coefficients are Gaussian, with the means and covariances that they were made with."""
    random = np.random.default_rng(0)
    basis = cosine_basis(SHAPE, D).numpy()
    means = np.array([[0.5, 0.6, 0, 0, 0, 0], [-0.5, 0, 0.6, 0, 0, 0]])
    half = 0.15 * random.normal(size=(2, D, D))
    covariances = half @ half.transpose(0, 2, 1) + 0.01 * np.eye(D)
    labels = np.arange(n) % 2
    x = means[labels] + np.einsum("nij,nj->ni", np.linalg.cholesky(covariances)[labels], random.normal(size=(n, D)))
    images = np.clip(0.5 + x @ basis, 0, 1).reshape(n, *SHAPE)
    return (images * 255).round().astype(np.uint8)[:, 0], labels, means, covariances


def quiet(method, box, multiplier=1e-6):
    """What `method` learns with next to no noise."""
    plan = method.plan(box.spec, Budget(8.0))
    crossings = {name: replace(c, mechanism=type(c.mechanism)(multiplier)) for name, c in plan.crossings.items()}
    return method.learn(Barrier(box, box.spec, Odometer(replace(plan, crossings=crossings))), Run(device="cpu"))


@pytest.mark.parametrize("pooled", [False, True])
def test_gaussian_images_are_recovered_without_noise(pooled):
    images, labels, means, covariances = blobs()
    net = quiet(DPMoments(coefficients=D, reach=1.0, floor=1e-6, pooled=pooled), load((images, labels)))
    assert np.allclose(net.means, means, atol=0.03)
    found = (net.roots @ net.roots.mT).numpy()
    assert np.allclose(found, covariances.mean(0, keepdims=True) if pooled else covariances, atol=0.03)


def test_a_short_reach_shortens_the_covariance_and_not_the_mean():
    images, labels, means, covariances = blobs()
    net = quiet(DPMoments(coefficients=D, reach=0.02, floor=1e-6), load((images, labels)))
    assert np.allclose(net.means, means, atol=0.03)
    trace = float((net.roots[0] @ net.roots[0]).trace())
    assert trace <= 0.16**2 * 1.01 < np.trace(covariances[0])


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("unit", list(Unit))
def test_the_whole_budget_is_spent_in_the_declared_shares(epsilon, relation, unit):
    plan = DPMoments().plan(replace(MNIST, unit=unit), Budget(epsilon, relation=relation, unit=unit))
    assert 0.999 * epsilon <= plan.epsilon() <= epsilon
    squared = {name: (e.sensitivity / e.sigma) ** 2 for name, e in zip(plan.crossings, plan.events(), strict=True)}
    assert squared[MEAN] / sum(squared.values()) == pytest.approx(0.3, rel=1e-3)


def test_the_claim_is_the_looser_conversion_of_the_same_gaussian():
    plan = DPMoments().plan(MNIST, Budget(1.0))
    assert 1.0 < plan.paper["epsilon"] < 2.0 and "no paper" in plan.paper["note"]


@pytest.mark.parametrize("kind", ["white", "black", "nan"])
def test_no_record_moves_the_sums_by_more_than_is_charged(kind):
    asked = {}

    class Asking:
        spec = DataSpec("x", 12, SHAPE, ("a", "b"))

        def release(self, name, query, *public):
            asked[name] = query, public
            return torch.randn(query.answer_shape(2), generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    DPMoments(coefficients=20).learn(Asking(), Run(device="cpu"))
    images, labels = torch.rand(1, *SHAPE), torch.zeros(1, dtype=torch.long)
    stranger = {"white": torch.ones(1, *SHAPE), "black": torch.zeros(1, *SHAPE), "nan": images * torch.nan}[kind]
    for query, public in asked.values():
        one, two = (query.bound.project(query.rows(i, labels, *public)) for i in (images, stranger))
        assert one.norm() <= query.bound.norm and two.norm() <= query.bound.norm
        assert (one - two).norm() <= query.bound.sensitivity(Relation.REPLACE_ONE)
        assert query.by_class and one.shape == (1, *query.shape)


def test_white_and_black_images_are_as_far_from_grey_as_the_bound_says():
    mean, _ = DPMoments().bounds(DataSpec("x", 12, SHAPE, ("a",)))
    x = (torch.ones(64, dtype=torch.float64) - 0.5) @ cosine_basis(SHAPE, 64).T
    assert float(x.norm()) == pytest.approx(mean.norm)


def test_the_nearest_covariance_keeps_the_trace():
    random = torch.Generator().manual_seed(0)
    values = torch.randn(30, generator=random, dtype=torch.float64) + 0.5
    near = spread(values, 0.01)
    assert float(near.min()) == pytest.approx(0.01) and float(near.sum()) == pytest.approx(float(values.sum()))
    kept = near > 0.01
    assert torch.allclose((values - near)[kept], (values - near)[kept][:1])  # all give the same
    assert torch.equal(spread(-values.abs(), 0.01), torch.full((30,), 0.01, dtype=torch.float64))
    matrix = torch.diag(values)
    assert torch.allclose(root(matrix, 0.01) @ root(matrix, 0.01), torch.diag(near))


def test_it_learns_what_is_easy():
    assert learned_apart(DPMoments(coefficients=12), bright_and_dark()) > 60


def test_few_data_are_warned_of():
    few = DataSpec("few", 100, (1, 28, 28), tuple("0123456789"))
    assert "Too few data: with 100 records in 10 classes" in DPMoments().plan(few, Budget(1.0, 1e-5)).warnings[0]
    assert DPMoments().plan(MNIST, Budget(0.1)).warnings == ()


def test_a_release_of_persons_verifies_and_a_refit_costs_nothing(tmp_path):
    images, labels, *_ = blobs(60)
    box = load((images, labels, np.arange(60) // 3))
    made = api.synthesize(
        DPMoments(coefficients=D), box, api.make_budget(4.0, unit="person"), count=12, out=tmp_path / "a", force=True
    )
    assert made.statement["guarantee"]["unit"] == "person" and set(made.measurement) == {MEAN, COVARIANCE}
    assert api.verify(tmp_path / "a").ok
    again = api.refit(tmp_path / "a", tmp_path / "b", settings={"floor": "0.1"})
    stated = json.loads((tmp_path / "b" / "privacy.json").read_text())
    assert stated["guarantee"] == made.statement["guarantee"] and api.verify(tmp_path / "b").ok
    assert float((again.generator.roots @ again.generator.roots).diagonal(dim1=1, dim2=2).min()) >= 0.099
    with pytest.raises(InputError, match="fixes reach"):
        api.refit(tmp_path / "a", tmp_path / "c", settings={"reach": "0.5"})
