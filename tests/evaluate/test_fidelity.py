"""FID, KID, precision, recall, density, coverage and Inception Score against plain re-derivations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

from sfumato.evaluate import cache
from sfumato.evaluate import distances as far
from sfumato.evaluate.fidelity import bootstrap_mean, fid, fidelity, frechet, inception_score, kid, manifold
from sfumato.evaluate.networks import Judge, build
from sfumato.run.progress import Recorder


def rows(n, dim=12, shift=0.0, scale=1.0, seed=0):
    random = np.random.default_rng(seed)
    mix = np.random.default_rng(99).normal(size=(dim, dim))
    return (random.normal(size=(n, dim)) @ mix * scale + shift).astype(np.float32)


def plain_distances(a, b):
    return np.sqrt(((a[:, None].astype(float) - b[None].astype(float)) ** 2).sum(2))


# FID


def test_fid_equals_the_formula_with_a_matrix_square_root():
    a, b = rows(300), rows(260, shift=0.4, scale=1.3, seed=1)
    ca, cb = np.cov(a.astype(float), rowvar=False), np.cov(b.astype(float), rowvar=False)
    gap = a.astype(float).mean(0) - b.astype(float).mean(0)
    expected = gap @ gap + np.trace(ca + cb - 2 * sqrtm(ca @ cb).real)
    assert fid(a, b).mean == pytest.approx(expected, abs=1e-3)


def test_fid_of_known_gaussians():
    one, two = np.diag([1.0, 4.0, 9.0]), np.diag([4.0, 4.0, 1.0])
    # Diagonal covariances: the sum of squared differences of standard deviations.
    assert frechet(np.zeros(3), one, np.array([1.0, 0, 2]), two) == pytest.approx(5 + 1 + 0 + 4, abs=1e-9)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turned = frechet(np.zeros(3), turn @ one @ turn.T, turn @ np.array([1.0, 0, 2]), turn @ two @ turn.T)
    assert turned == pytest.approx(10, abs=1e-9)


def test_fid_of_samples_nears_that_of_their_gaussians():
    random = np.random.default_rng(0)
    a, b = random.normal(size=(20_000, 4)), 2 * random.normal(size=(20_000, 4)) + 1
    found = fid(a, b)
    assert found.mean == pytest.approx(8, abs=0.2) and found.low < 8 < found.high


def test_fid_of_a_set_with_itself_is_nothing_also_with_fewer_rows_than_dimensions():
    assert fid(rows(300), rows(300)).mean < 1e-6
    few = np.random.default_rng(0).normal(size=(20, 50))
    assert fid(few, few).mean < 1e-4
    assert "fewer than dimensions" in fid(few, few).note


def test_fid_with_fewer_rows_than_dimensions_equals_the_nuclear_norm():
    random = np.random.default_rng(3)
    a, b = random.normal(size=(15, 40)), random.normal(size=(18, 40)) + 0.2
    x, y = a - a.mean(0), b - b.mean(0)
    middle = np.linalg.svd(x @ y.T, compute_uv=False).sum() / np.sqrt(14 * 17)
    gap = ((a.mean(0) - b.mean(0)) ** 2).sum()
    expected = gap + (x**2).sum() / 14 + (y**2).sum() / 17 - 2 * middle
    assert fid(a, b).mean == pytest.approx(expected, abs=1e-4)


def test_the_interval_of_fid_is_about_as_wide_as_fid_varies():
    found = [fid(rows(400, 6, seed=2 * s), rows(400, 6, 0.5, seed=2 * s + 1)) for s in range(12)]
    spread, claimed = np.std([m.mean for m in found]), np.mean([(m.high - m.low) / 3.92 for m in found])
    assert 0.5 < claimed / spread < 2


# KID


def test_kid_equals_sums_over_pairs():
    a, b = rows(24, 5), rows(24, 5, shift=0.3, seed=1)
    random = np.random.default_rng(0)
    order_a, order_b = random.permutation(24), random.permutation(24)
    found = kid(a, b, block=2, seed=0)

    def kernel(x, y):
        return (float(x.astype(float) @ y.astype(float)) / 5 + 1) ** 3

    expected = []
    for start in range(0, 24, 2):
        x, y = a[order_a[start : start + 2]], b[order_b[start : start + 2]]
        inside = (kernel(x[0], x[1]) + kernel(y[0], y[1])) / 1
        across = sum(kernel(p, q) for p in x for q in y) / 4
        expected.append(inside - 2 * across)
    assert np.allclose(found.values, expected, rtol=1e-9) and found.mean == pytest.approx(np.mean(expected), abs=1e-3)


def test_kid_is_near_nothing_for_one_law_and_positive_for_two():
    same, other = kid(rows(2000, 4), rows(2000, 4, seed=1)), kid(rows(2000, 4), rows(2000, 4, 1.0, seed=1))
    assert same.low < 0 < same.high and other.low > same.high


# Precision, recall, density, coverage


def plain_manifold(real, fake, k, k_density):
    rr, ff, fr = plain_distances(real, real), plain_distances(fake, fake), plain_distances(fake, real)
    radius_r, radius_f = np.sort(rr, 1)[:, k], np.sort(ff, 1)[:, k]  # place 0 is the row itself
    wide = np.sort(rr, 1)[:, k_density]
    return [
        np.mean([any(d <= r for d, r in zip(row, radius_r, strict=True)) for row in fr]),
        np.mean([any(d <= r for d, r in zip(column, radius_f, strict=True)) for column in fr.T]),
        np.mean([sum(d <= r for d, r in zip(row, wide, strict=True)) / k_density for row in fr]),
        np.mean([any(d <= r for d in column) for column, r in zip(fr.T, wide, strict=True)]),
    ]


@pytest.mark.parametrize(("k", "k_density"), [(3, 5), (1, 2)])
def test_manifolds_equal_plain_loops(k, k_density):
    real, fake = rows(80, 6), rows(70, 6, shift=0.5, scale=0.8, seed=1)
    found = manifold(real, fake, k=k, k_density=k_density)
    assert [m.name for m in found] == ["precision", "recall", "density", "coverage"]
    assert np.allclose([m.mean for m in found], plain_manifold(real, fake, k, k_density), atol=1e-3)
    assert all(m.low <= m.mean <= m.high for m in found)


def test_manifolds_of_extremes():
    real = rows(100, 6)
    same = {m.name: m.mean for m in manifold(real, real)}
    away = {m.name: m.mean for m in manifold(real, real + 1000)}
    assert same["precision"] == same["recall"] == same["coverage"] == 1 and set(away.values()) == {0.0}
    one_mode = {m.name: m.mean for m in manifold(real, real[:1] + 1e-3 * rows(100, 6, seed=4))}
    assert one_mode["precision"] == 1 and one_mode["recall"] < 0.1 and one_mode["coverage"] < 0.5


def test_blocks_do_not_change_distances(monkeypatch):
    a, b = rows(53, 7), rows(61, 7, seed=1)
    whole, where = far.nearest(a, b, 4)
    monkeypatch.setattr(far, "ROWS", 9)
    monkeypatch.setattr(far, "BLOCK", 90)
    parts, again = far.nearest(a, b, 4)
    assert np.allclose(whole, parts) and np.array_equal(where, again)
    assert np.allclose(whole, np.sort(plain_distances(a, b), 1)[:, :4])
    alone, places = far.nearest(a, a, 2, skip_self=True)
    assert np.allclose(alone, np.sort(plain_distances(a, a), 1)[:, 1:3]) and (places != np.arange(53)[:, None]).all()


def test_the_distance_of_a_copy_is_nothing_far_from_the_origin():
    a = (rows(50, 784, shift=200.0)).astype(np.float32)
    assert far.nearest(a, a.copy(), 1)[0].max() < 1e-3
    with pytest.raises(ValueError, match="at least 3"):
        far.nearest(a[:2], a[:2], 2, skip_self=True)


def test_bootstrap_of_a_share_is_about_binomial():
    found = bootstrap_mean("x", np.repeat([0.0, 1.0], [750, 250]))
    assert found.mean == 0.25 and found.high - found.low == pytest.approx(2 * 1.96 * np.sqrt(0.1875 / 1000), rel=0.15)


# Inception Score


def test_inception_score_of_uniform_and_of_certain_predictions():
    assert inception_score(np.full((500, 7), 1 / 7)).mean == pytest.approx(1)
    assert inception_score(np.tile(np.eye(7), (200, 1)), splits=1).mean == pytest.approx(7)
    assert inception_score(np.tile(np.eye(7)[:1], (200, 1))).mean == pytest.approx(1)


def test_inception_score_equals_a_plain_loop():
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=90)
    order = np.random.default_rng(0).permutation(90)
    expected = []
    for part in np.array_split(order, 3):
        marginal = p[part].mean(0)
        expected.append(
            np.exp(np.mean([sum(q * np.log(q / m) for q, m in zip(row, marginal, strict=True)) for row in p[part]]))
        )
    found = inception_score(p, splits=3)
    assert np.allclose(found.values, expected) and "standard deviation" in found.note


# All together


def pictures(n, seed, noise=False):
    random = np.random.default_rng(seed)
    if noise:
        return random.integers(0, 256, (n, 1, 12, 12), dtype=np.uint8)
    ramp = np.linspace(0, 200, 12)[None, None, None] * random.random((n, 1, 1, 1)) + random.normal(size=(n, 1, 12, 12))
    return np.clip(ramp, 0, 255).astype(np.uint8)


def test_noise_is_worse_than_more_of_the_same_in_every_number():
    net, shown = Judge(build("cnn", (1, 12, 12), 3, [0])), Recorder()
    real = pictures(150, 0)
    options = dict(features=["pixels", "classifier"], classifier=net, device="cpu", progress=shown)
    good = fidelity(real, None, pictures(150, 1), None, **options)
    bad = fidelity(real, None, pictures(150, 2, noise=True), None, **options)
    assert set(good) == {
        f"{m}/{s}"
        for m in ("fid", "kid", "precision", "recall", "density", "coverage")
        for s in ("pixels", "classifier")
    } | {"inception-score"}
    for name, value in good.items():
        other = bad[name].mean
        if "score" not in name:  # of an untrained network
            assert (value.mean < other) if name.startswith(("fid", "kid")) else (value.mean > other), name
    assert any(line[0] == "start" and "pixels" in line[1] for line in shown.lines)


def test_fidelity_of_real_data_with_itself_keeps_features_only_when_asked():
    real = pictures(120, 0)
    found = fidelity(real, None, real, None, features=["pixels"], device="cpu", cache=True)
    assert found["fid/pixels"].mean < 1e-4 and found["coverage/pixels"].mean == 1
    assert cache.clear() == 1  # those of the real images; synthetic ones are not worth a file


def test_limits_are_drawn_by_seed():
    real, fake = pictures(120, 0), pictures(120, 1)
    one, same, other = (
        fidelity(real, None, fake, None, features=["pixels"], device="cpu", limit=40, seed=s) for s in (0, 0, 1)
    )
    assert one == same and one["fid/pixels"].mean != other["fid/pixels"].mean and "40 real" in one["fid/pixels"].note
    itself = fidelity(real, None, real.copy(), None, features=["pixels"], device="cpu", limit=40)
    assert itself["fid/pixels"].mean < 1e-4
