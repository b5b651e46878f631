"""Attacks on a release: nearest generated image, ceilings, and a verdict only beyond them."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import DPMERF, Budget, Release, synthesize
from sfumato.accounting import gaussian
from sfumato.accounting.tradeoff import gaussian_curve
from sfumato.audit import attack
from sfumato.audit.games.attack import auc, judge, nearest, tpr_at
from sfumato.errors import InputError
from tests.made_up import arrays

RANDOM = np.random.default_rng(0)


def test_the_nearest_is_found():
    made = RANDOM.integers(0, 256, (300, 1, 4, 4), dtype=np.uint8)
    images = made[[7, 250]].copy()
    images[1, 0, 0, 0] ^= 255
    by_hand = np.sqrt((((images[1] - made.astype(float)) / 255) ** 2).sum((1, 2, 3))).min()
    assert nearest(images, made) == pytest.approx([0.0, by_hand], abs=2e-3)


def test_measures_of_separation():
    assert auc(np.array([2.0, 3]), np.array([0.0, 1])) == 1.0
    assert auc(np.ones(5), np.ones(7)) == 0.5
    assert tpr_at(np.arange(100.0) + 50, np.arange(100.0), 0.01) == pytest.approx(0.51)


@pytest.mark.parametrize(("epsilon", "known"), [(1, (0.575, 0.0198, 0.0024)), (10, (0.921, 0.372, 0.138))])
def test_ceilings_are_as_tabled(epsilon, known):
    scores = RANDOM.normal(size=200)
    found = judge(scores, scores, gaussian_curve(gaussian.mu_of(epsilon, 1e-5)), 1e-5)
    assert [row["ceiling"] for row in found["rows"][:3]] == pytest.approx(known, rel=0.02)


def test_a_weak_attack_passes_and_a_leak_fails():
    curve, outside = gaussian_curve(0.268), RANDOM.normal(size=2000)
    assert judge(RANDOM.normal(size=2000) + 0.1, outside, curve, 1e-5)["verdict"] == "pass"
    leak = judge(RANDOM.normal(size=2000) + 2.0, outside, curve, 1e-5)
    assert leak["verdict"] == "fail" and leak["epsilon_lower"] > 1
    assert not leak["rows"][0]["ok"] and leak["rows"][0]["interval"][0] > 0.57


def test_an_attack_at_its_ceiling_is_no_failure():
    verdicts = []
    for seed in range(5):
        random = np.random.default_rng(seed)
        inside, outside = random.normal(size=1500) + 0.9, random.normal(size=1500)
        verdicts.append(judge(inside, outside, gaussian_curve(0.9), 1e-5)["verdict"])
    assert set(verdicts) == {"pass"}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_LEDGER", str(folder / "ledger.sqlite"))
        patch.setenv("SFUMATO_RUNS", str(folder / "runs"))
        patch.setenv("SFUMATO_CACHE", str(folder / "cache"))
        tiny = DPMERF(features=40, steps=3, batch=4, latent=4, width=8)
        synthesize(tiny, arrays(), Budget(1.0), count=30, out=folder / "out")
    return folder / "out"


def test_a_release_is_attacked_from_its_folder(release):
    found = attack(release, arrays(seed=0), arrays(seed=1), samples=500)
    assert found["internal"] is True and "must not be published" in found["note"]
    assert found["members"] == 60 and found["claim"]["epsilon"] == pytest.approx(1.0)
    assert found["verdict"] == "pass" and 0.2 < found["rows"][0]["value"] < 0.8


def test_a_release_that_copies_its_records_is_caught(release):
    opened = Release.load(release)
    images, labels = arrays(n=400, size=8, seed=0)

    class Copies:
        def sample(self, n, labels=None, *, seed=0):
            return type("Made", (), {"pixels": images[:, None]})()

    found = attack(Release(Copies(), lambda: None, opened.statement), (images, labels), arrays(n=400, seed=1))
    assert found["verdict"] == "fail" and found["rows"][0]["value"] == 1.0


def test_candidates_must_fit(release):
    with pytest.raises(InputError, match="at least 20"):
        attack(release, arrays(n=10), arrays(seed=1), samples=50)
