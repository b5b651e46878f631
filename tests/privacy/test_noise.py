"""Noise: right law, right source, out of reach of every seed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import stats

from sfumato.privacy import noise as module
from sfumato.privacy.bounds import Bound, IntegerBound
from sfumato.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian
from sfumato.privacy.noise import Noise


def test_gaussian_noise_has_its_scale_and_no_other():
    drawn = Gaussian(3.0)(torch.zeros(40_000, dtype=torch.float64), Bound(2.0), Noise()).numpy()
    assert stats.kstest(drawn / 6.0, "norm").pvalue > 1e-4
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(drawn / (6.0 * wrong), "norm").pvalue < 1e-6


def test_gaussian_noise_stays_on_the_public_grid():
    bound = Bound(1.0)
    value = bound.project(torch.randn(1, 1000))[0]
    out = Gaussian(0.7)(value, bound, Noise()).numpy() / bound.grid
    assert np.array_equal(out, np.rint(out))


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, 25.0])
def test_discrete_laplace_matches_its_mass_function(scale):
    mechanism, bound = DiscreteLaplace(scale), IntegerBound(1, low=0, coordinates=4)
    drawn = mechanism(torch.zeros(200_000, dtype=torch.float64), bound, Noise()).numpy()
    reach = int(12 * scale) + 1
    support = np.arange(-reach, reach + 1)
    stated = mechanism.std(bound)
    assert scale <= stated <= scale + 2.0**-16
    mass = np.exp(-np.abs(support) / stated)
    beyond = 2 * np.exp(-(reach + 1) / stated) / -np.expm1(-1 / stated)
    expected = len(drawn) * np.append(mass, beyond) / (mass.sum() + beyond)
    seen = np.array([*(np.count_nonzero(drawn == y) for y in support), np.count_nonzero(np.abs(drawn) > reach)])
    used = expected > 5
    chi = ((seen[used] - expected[used]) ** 2 / expected[used]).sum()
    assert stats.chi2.sf(chi, used.sum() - 1) > 1e-5


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.7, 25.0])
def test_discrete_gaussian_matches_its_mass_function(sigma):
    drawn = Noise().discrete_gaussian(sigma, (200_000,))
    reach = int(6 * sigma) + 1
    support = np.arange(-reach, reach + 1)
    mass = np.exp(-(support**2) / (2 * sigma**2))
    expected = 200_000 * mass / mass.sum()
    seen = np.array([(drawn == k).sum() for k in support])
    common = expected >= 5
    tail_seen, tail_expected = 200_000 - seen[common].sum(), 200_000 - expected[common].sum()
    chi = ((seen - expected)[common] ** 2 / expected[common]).sum() + (tail_seen - tail_expected) ** 2 / max(
        tail_expected, 1
    )
    assert stats.chi2.sf(chi, common.sum()) > 1e-5


def test_the_exact_path_of_the_discrete_sampler_has_the_same_law(monkeypatch):
    # With a margin of 1 every decision takes the exact branch.
    plain = Noise.bernoulli_exp
    monkeypatch.setattr(Noise, "bernoulli_exp", lambda self, e, f: plain(self, e, f, margin=1.0))
    drawn = Noise().discrete_gaussian(1.5, (4000,))
    assert drawn.std() == pytest.approx(1.5, rel=0.06)
    assert abs(drawn.mean()) < 0.12


def test_discrete_noise_is_whole_and_has_its_scale():
    out = DiscreteGaussian(20.0)(torch.zeros(20_000, dtype=torch.float64), IntegerBound(1, low=0), Noise()).numpy()
    assert np.array_equal(out, np.rint(out))
    assert out.std() == pytest.approx(20.0, rel=0.03)


def test_the_tails_have_no_holes():
    # Far out, every residue of the grid must still be reachable: half of the draws beyond four sigma are odd.
    drawn = Noise().gaussian((2_000_000,), 1e7).numpy()
    far = drawn[np.abs(drawn) > 4e7]
    assert len(far) > 60 and 0.2 < (far % 2).mean() < 0.8


def test_every_coordinate_gets_noise_of_its_own():
    rows = np.stack(
        [Gaussian(1.0)(torch.zeros(50, dtype=torch.float64), Bound(1.0), Noise()).numpy() for _ in range(400)]
    )
    assert (rows.std(0) > 0.8).all()
    correlation = np.corrcoef(rows.T) - np.eye(50)
    assert np.abs(correlation).max() < 0.3


def test_global_seeds_do_not_reach_the_noise():
    source = Noise()
    draws = []
    for _ in range(2):
        np.random.seed(307)
        torch.manual_seed(307)
        draws.append(source.gaussian((8,), 1e6).numpy())
    assert not np.array_equal(*draws)


def test_two_processes_with_one_seed_draw_different_noise():
    line = (
        "import numpy, torch; numpy.random.seed(0); torch.manual_seed(0);"
        "from sfumato.privacy.noise import Noise; print(Noise().take(16).hex())"
    )
    outs = {
        subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(outs) == 2


def _draw(source, queue):
    queue.put(source.take(16))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_worker_draws_a_stream_of_its_own():
    source = Noise()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=_draw, args=(source, queue))
    worker.start()
    theirs = queue.get(timeout=30)
    worker.join()
    assert theirs != source.take(16)


def test_the_stream_is_rekeyed_before_its_key_is_used_up(monkeypatch):
    monkeypatch.setattr(module, "REKEY_BYTES", 64)
    source, keys = Noise(), []
    monkeypatch.setattr(os, "urandom", lambda n: keys.append(n) or bytes(n))
    source.take(48)
    source.take(48)
    assert keys == [32]


def test_noise_cannot_be_stored():
    with pytest.raises(TypeError):
        pickle.dumps(Noise())


def test_without_the_cryptography_package_the_stream_is_still_cryptographic(monkeypatch):
    def missing(key):
        raise ImportError

    monkeypatch.setattr(module, "_chacha20", missing)
    source = Noise()
    assert source.source.startswith("SHAKE-256")
    assert stats.kstest(source.uniform(20_000), "uniform").pvalue > 1e-4


def test_fast_noise_has_the_law_too_says_so_and_never_repeats():
    source = Noise(fast=True)
    assert "counter-based" in source.source and "ChaCha20" in source.source
    torch.manual_seed(0)
    one = source.gaussian((20_000,), 1e6) / 1e6
    torch.manual_seed(0)
    two = source.gaussian((20_000,), 1e6) / 1e6
    assert stats.kstest(one.numpy(), "norm").pvalue > 1e-4
    assert abs(np.corrcoef(one.numpy(), two.numpy())[0, 1]) < 0.05


@pytest.mark.gpu
def test_noise_on_a_gpu_has_the_law():
    drawn = Gaussian(3.0)(torch.zeros(40_000, dtype=torch.float64, device="cuda"), Bound(2.0), Noise(fast=True))
    assert stats.kstest(drawn.cpu().numpy() / 6.0, "norm").pvalue > 1e-4


def test_integers_below_a_limit_are_uniform():
    drawn = Noise().below(7, 70_000)
    assert stats.chisquare(np.bincount(drawn, minlength=7)).pvalue > 1e-5
