"""Attacks: a memorising generator is caught, a correct one stays under its ceiling, and the numbers are right."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score, roc_curve

from sfumato import DPMERF, Budget
from sfumato.accounting.gaussian import mu_of
from sfumato.api import synthesize
from sfumato.errors import InputError
from sfumato.evaluate import attacks as package
from sfumato.evaluate.attacks import KINDS, attacks, attribute, domias, ganleaks, logan, reconstruction, scores
from sfumato.evaluate.attacks.recipes import DPAF_TABLE_XVII, dpaf_table_xvii, few, private, sgd
from sfumato.evaluate.attacks.subject import Batch, Subject, batch
from sfumato.evaluate.results import Measured, plain
from sfumato.run.progress import Recorder
from sfumato.types import Images

CLASSES = tuple("0123456789")


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    return Batch((data.images[order] * 15.9).astype(np.uint8)[:, None], data.target[order].astype(np.int64))


class Copier:
    """Hands out its training images, a little noisy."""

    def __init__(self, images, noise=2.0):
        self.images, self.noise = images, noise

    def sample(self, n, labels=None, *, seed=0):
        random = np.random.default_rng(seed)
        rows = random.integers(len(self.images), size=n)
        noisy = self.images.pixels[rows] + random.normal(size=(n, *self.images.pixels.shape[1:])) * self.noise
        return Images(np.clip(np.rint(noisy), 0, 255).astype(np.uint8), self.images.labels[rows], CLASSES)


class Mixer(torch.nn.Module):
    """A differentiable memoriser: a latent chooses among the training images of its class by a softmax."""

    latent, classes = 6, CLASSES

    def __init__(self, images):
        super().__init__()
        self.images = torch.nn.Parameter(torch.from_numpy(images.pixels).float() / 255)
        self.register_buffer("labels", torch.from_numpy(images.labels))
        keys = torch.randn(len(images), self.latent, generator=torch.Generator().manual_seed(0))
        self.register_buffer("keys", keys / keys.norm(dim=1, keepdim=True))

    def forward(self, z, labels):
        fit = 12 * torch.nn.functional.normalize(z, dim=1) @ self.keys.T
        share = fit.masked_fill(labels[:, None] != self.labels, -torch.inf).softmax(1)
        return torch.einsum("bn,nchw->bchw", share, self.images)

    def sample(self, n, labels=None, *, seed=0):
        random = torch.Generator().manual_seed(seed)
        z, y = torch.randn(n, self.latent, generator=random), torch.randint(10, (n,), generator=random)
        with torch.no_grad():
            return Images(self(z, y).mul(255).round().byte().numpy(), y.numpy(), CLASSES)


class Release:
    def __init__(self, generator, epsilon=1.0):
        self.generator = generator
        self.statement = {"guarantee": {"epsilon": epsilon, "delta": 1e-5, "mu": mu_of(epsilon, 1e-5)}}


# Scores


def test_auc_and_roc_equal_those_of_scikit_learn_also_with_ties():
    random = np.random.default_rng(0)
    ins, outs = np.round(random.normal(0.5, 1, 300), 1), np.round(random.normal(0, 1, 400), 1)
    truth, both = np.repeat([1, 0], [300, 400]), np.concatenate([ins, outs])
    assert scores.auc(ins, outs) == pytest.approx(roc_auc_score(truth, both), abs=1e-12)
    fpr, tpr, _ = roc_curve(truth, both, drop_intermediate=False)
    found = scores.assess(ins, outs)
    for name, rate in scores.RATES.items():
        assert found[name].mean == pytest.approx(tpr[fpr <= rate].max())
    known = set(zip(np.round(fpr, 9), np.round(tpr, 9), strict=True))
    assert found["roc"][0] == [0, 0] and found["roc"][-1] == [1, 1]
    assert all((round(a, 9), round(b, 9)) in known for a, b in found["roc"])


def test_a_bootstrap_interval_holds_the_truth_about_as_often_as_it_says():
    random, inside = np.random.default_rng(1), 0
    for trial in range(60):
        found = scores.assess(random.normal(1, 1, 120), random.normal(0, 1, 120), seed=trial, times=200)["auc"]
        inside += found.low <= 0.7602 <= found.high  # Phi(1 / sqrt 2)
    assert 50 <= inside <= 60


def test_ceilings_are_those_of_the_table():
    table = {0.5: (0.540, 0.0145, 0.0016), 1: (0.575, 0.0198, 0.0024), 4: (0.743, 0.0805, 0.0152)}
    table[10] = (0.921, 0.372, 0.138)
    for epsilon, (area, one, tenth) in table.items():
        found = scores.ceiling_of_mu(mu_of(epsilon, 1e-5))
        assert found.auc == pytest.approx(area, abs=6e-4) and found.epsilon == pytest.approx(epsilon, rel=1e-6)
        assert found.tpr["tpr_at_1_percent"] == pytest.approx(one, abs=6e-4)
        assert found.tpr["tpr_at_0.1_percent"] == pytest.approx(tenth, abs=6e-4)


def test_the_ceiling_of_one_pair_is_its_trade_off_and_a_curve_is_tighter():
    alone = scores.ceiling_of_curve([], 1.0, 0.0)
    e = math.e
    assert alone.tpr["tpr_at_1_percent"] == pytest.approx(0.01 * e, rel=1e-6)
    # Two lines, through (0, 0) and (1, 1), of slopes e and 1/e, that meet at 1 / (1 + e).
    assert alone.auc == pytest.approx(1 - 1 / (1 + e), abs=2e-3) and alone.auc >= 1 - 1 / (1 + e)
    mu = mu_of(1.0, 1e-5)
    from sfumato.accounting.gaussian import delta_of

    points = [(delta_of(eps, mu), eps) for eps in np.linspace(0, 2, 40)]
    near = scores.ceiling_of_curve(points, 1.0, 1e-5)
    assert scores.ceiling_of_mu(mu).auc <= near.auc + 1e-9 < alone.auc
    assert near.auc == pytest.approx(scores.ceiling_of_mu(mu).auc, abs=5e-3)


def test_the_ceiling_comes_from_the_statement():
    assert scores.ceiling_of(None) is None and scores.ceiling_of({}) is None
    by_curve = scores.ceiling_of({"guarantee": {"epsilon": 1.0, "delta": 1e-5, "curve": [[1e-3, 0.7]]}})
    by_mu = scores.ceiling_of({"guarantee": {"epsilon": 1.0, "delta": 1e-5, "mu": mu_of(1.0, 1e-5)}})
    assert by_mu.auc < by_curve.auc < 1 and plain(by_curve.to_json())["roc"][-1][1] == pytest.approx(1)


def test_the_best_attack_on_a_gaussian_is_not_called_above():
    mu, called = mu_of(1.0, 1e-5), 0
    ceiling = scores.ceiling_of_mu(mu)
    for seed in range(60):
        random = np.random.default_rng(seed)
        found = scores.assess(random.normal(mu, 1, 500), random.normal(0, 1, 500), ceiling, seed=seed, times=20)
        called += found["verdict"] == scores.ABOVE
    assert called == 0


def test_more_signal_is_called_above_and_gives_a_lower_bound():
    mu = mu_of(1.0, 1e-5)
    random = np.random.default_rng(0)
    for times, least in ((4, 0.0), (10, 1.0)):  # a bound that assumes nothing is weak
        found = scores.assess(random.normal(times * mu, 1, 2000), random.normal(0, 1, 2000), scores.ceiling_of_mu(mu))
        assert found["verdict"] == scores.ABOVE and found["epsilon_lower"] > least


def test_a_handful_of_perfect_scores_refutes_nothing():
    found = scores.assess(np.array([3.0, 4, 5]), np.array([0.0, 1, 2]), scores.ceiling_of_mu(mu_of(1.0, 1e-5)))
    assert found["auc"].mean == 1 and found["verdict"] == scores.BELOW


def test_scores_that_are_not_numbers_are_refused():
    with pytest.raises(ValueError, match="finite"):
        scores.assess(np.array([1.0, np.nan]), np.array([0.0, 1]))


# A memorising generator


def test_a_memorising_generator_is_caught(digits):
    members, others, shown = digits[:300], digits[300:900], Recorder()
    found = attacks(
        Release(Copier(members)),
        members,
        (others.pixels, others.labels),
        samples=3000,
        device="cpu",
        kinds=["full-black-box", "calibrated", "domias", "reconstruction", "attribute", "white-box"],
        progress=shown,
    )
    each = found["attacks"]
    for kind in ("full-black-box", "calibrated", "domias", "reconstruction"):
        assert each[kind]["auc"].mean > 0.95 and each[kind]["verdict"] == scores.ABOVE, kind
        assert each[kind]["epsilon_lower"] > 1, kind
    assert found["verdict"] == scores.ABOVE and "full-black-box" in found["above"]
    assert each["white-box"]["verdict"] == "does not apply"
    assert (
        each["reconstruction"]["recovered"]["members"] > 0.9 > 0.1 > each["reconstruction"]["recovered"]["nonmembers"]
    )
    assert isinstance(each["attribute"]["gain_on_members"], Measured) and each["attribute"]["accuracy"]["members"] > 0.8
    assert [line[2] for line in shown.lines if line[0] == "advance"][:2] == ["full-black-box", "calibrated"]
    assert plain(found)["attacks"]["domias"]["ceiling"]["auc"] == pytest.approx(0.575, abs=1e-3)


def test_a_memorising_generator_is_caught_through_its_latents(digits):
    members, others = digits[:40], digits[40:80]
    net = Mixer(members)
    for find, options in (
        (ganleaks.descend, {"steps": 80}),
        (ganleaks.search, {"budget": 400}),
        (ganleaks.descend, {"steps": 60, "optimiser": "lbfgs"}),
    ):
        one, two = (ganleaks.latent_scores(net, c, find, **options) for c in (members, others))
        assert scores.auc(one, two) > 0.95, (find, options)
    assert all(p.requires_grad for p in net.parameters())  # left as it was


def test_without_labels_the_search_goes_over_all(digits):
    members = digits[:60]
    unlabelled = Batch(members.pixels, np.full(60, -1))
    net = Mixer(members)
    known, unknown = (ganleaks.latent_scores(net, c, ganleaks.descend, steps=30) for c in (members, unlabelled))
    # Every label is tried, the true one among them; the starts differ, so that it may end a little worse.
    assert len(set(members.labels)) == 10 and np.median(unknown) >= np.median(known) - 0.01


def test_gradients_find_nearer_images_than_samples_do(digits):
    members = digits[:40]
    net = Mixer(members)
    made = net.sample(50, seed=1)
    sampled = ganleaks.black_box(members, Batch(made.pixels, made.labels)) ** 2 / 64
    assert -np.median(ganleaks.latent_scores(net, members, ganleaks.descend, steps=80)) < np.median(sampled)


def test_logan_learns_to_tell_members_of_a_memoriser(digits):
    members, others, reference = digits[:40], digits[40:240], digits[240:1200]
    made = Copier(members, 0).sample(800)
    net = logan.train(Batch(made.pixels, made.labels), reference, steps=250)
    one, two = logan.score(net, members), logan.score(net, others)
    assert scores.auc(one, two) > 0.65
    again = logan.train(Batch(made.pixels, made.labels), reference, steps=3)
    same = logan.train(Batch(made.pixels, made.labels), reference, steps=3)
    assert np.array_equal(logan.score(again, others), logan.score(same, others))  # by its seed alone


def test_calibration_takes_away_what_any_generator_would_make(digits):
    members, others = digits[:300], digits[300:600]
    made = Copier(members, 40).sample(1500)
    synthetic = Batch(made.pixels, made.labels)
    one, two, note = ganleaks.calibrated(Subject(None, synthetic, members, others, digits[600:1100]))
    assert "for want of" in note and scores.auc(one, two) > 0.9
    expected = ganleaks.black_box(members, synthetic) - ganleaks.black_box(members, digits[600:1100])
    assert np.allclose(one, expected)
    same = Subject(None, synthetic, members, others, digits[600:1100], Copier(members, 40))
    one, two, note = ganleaks.calibrated(same)
    assert "trained without" in note and not one.any() and not two.any()
    other = Subject(None, synthetic, members, others, digits[600:1100], Copier(digits[600:900], 40))
    assert scores.auc(*ganleaks.calibrated(other)[:2]) > 0.9


def test_density_ratios_equal_plain_sums():
    random = np.random.default_rng(0)
    at, rows = random.normal(size=(9, 3)), random.normal(size=(30, 3))
    squared = ((at[:, None] - rows[None]) ** 2).sum(2)
    expected = np.log(np.exp(-squared / (2 * 0.4**2)).mean(1)) - 3 * np.log(0.4)
    assert np.allclose(domias.log_kernel(at, rows, 0.4), expected)
    from scipy.stats import multivariate_normal

    law = multivariate_normal(rows.mean(0), np.cov(rows, rowvar=False) + 1e-3 * np.eye(3))
    assert np.allclose(domias.log_gaussian(at, rows) - 1.5 * np.log(2 * np.pi), law.logpdf(at))


@pytest.mark.parametrize("density", ["gaussian", "kernel"])
def test_domias_reaches_the_best_auc_for_two_gaussians(density):
    random = np.random.default_rng(0)

    def drawn(n, shift):
        values = np.clip(np.rint(random.normal(110, 10, (n, 2)) + [shift, 0]), 0, 255)
        return Batch(values.astype(np.uint8).reshape(n, 1, 1, 2), np.zeros(n, int))

    one, two = domias.score([drawn(1500, 20), drawn(1500, 0)], drawn(1500, 20), drawn(1500, 0), density=density)
    assert scores.auc(one, two) == pytest.approx(0.9214, abs=0.025)  # Phi(2 / sqrt 2): the likelihood ratio itself


def test_ratios_by_hand():
    def line(*values):
        return Batch(np.array(values, dtype=np.uint8).reshape(-1, 1, 1, 1), np.zeros(len(values), int))

    subject = Subject(None, line(100, 200), line(101, 150), line(190), line(110, 240))
    one, two = reconstruction.ratios(subject)
    assert np.allclose(one, [1 / 9, 50 / 40]) and np.allclose(two, [10 / 50])
    told = reconstruction.summary(one, two)
    assert told["worst_ratio"]["members"] == pytest.approx(1 / 9) and told["recovered"]["members"] == 0.5


def test_margins_are_positive_where_the_guess_is_right(digits):
    rows = digits.pixels.reshape(len(digits), -1) / 255
    weights, centre = attribute.fit(rows[:800], digits.labels[:800], 10)
    guessed = (np.column_stack([rows - centre, np.ones(len(rows))]) @ weights).argmax(1)
    margins = attribute.margins(rows, digits.labels, weights, centre)
    assert np.array_equal(margins > 0, guessed == digits.labels) and (margins[800:] > 0).mean() > 0.85


def test_another_attribute_may_be_hidden(digits):
    made = Copier(digits[:300]).sample(600)
    hidden = tuple((x.labels % 2).astype(int) for x in (made, digits[:300], digits[300:500]))
    subject = Subject(None, Batch(made.pixels, made.labels), digits[:300], digits[300:500], digits[500:700])
    _, _, told = attribute.attack(subject, hidden)
    assert told["accuracy"]["nonmembers"] > 0.75 > told["baseline"]["nonmembers"]


# A correct mechanism


def test_dp_merf_stays_under_its_ceiling(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(package.DEEP, "cpu", 25)
    members, others = digits[:400], digits[400:1200]
    release = synthesize(
        DPMERF(features=200, steps=40),
        (members.pixels, members.labels),
        Budget(epsilon=1),
        count=16,
        ledger=tmp_path / "ledger.sqlite",
    )
    found = attacks(release, members, others, samples=1500, limit=300, device="cpu")
    assert set(found["attacks"]) == set(KINDS) and found["verdict"] == scores.BELOW and found["above"] == []
    for kind, told in found["attacks"].items():
        assert told["verdict"] == scores.BELOW, kind  # corrected for the number of attacks; a single interval is not
        assert told["epsilon_lower"] <= release.statement["guarantee"]["epsilon"], kind


# The entry


def test_wrong_input_is_refused_in_a_sentence(digits):
    release = Release(Copier(digits[:20]))
    with pytest.raises(InputError, match="white-box"):
        attacks(release, digits[:20], digits[20:60], kinds=["guess"])
    with pytest.raises(InputError, match="at least 8"):
        attacks(release, digits[:20], digits[20:24])
    with pytest.raises(InputError, match="uint8"):
        attacks(release, digits[:20].pixels / 255, digits[20:60])


def test_reference_images_are_apart_from_candidates_and_arrays_have_no_attribute(digits):
    release = Release(Copier(digits[:20]))
    found = attacks(
        release,
        digits[:20].pixels,
        digits[20:60].pixels,
        kinds=["full-black-box", "attribute"],
        samples=100,
        device="cpu",
        exchangeable=False,
    )
    assert found["reference"] == 20 and found["attacks"]["full-black-box"]["nonmembers"] == 20
    assert found["attacks"]["attribute"]["verdict"] == "does not apply" and "random split" in found["warning"]
    own = attacks(
        release,
        digits[:20],
        digits[20:60],
        reference=digits[60:90],
        kinds=["full-black-box"],
        samples=100,
        device="cpu",
    )
    assert own["reference"] == 30 and own["attacks"]["full-black-box"]["nonmembers"] == 40
    assert batch(digits[:3].pixels).labels.tolist() == [-1, -1, -1]


def test_a_bare_generator_has_no_ceiling(digits):
    found = attacks(
        Copier(digits[:20]), digits[:20], digits[20:60], kinds=["full-black-box"], samples=100, device="cpu"
    )
    assert found["ceiling"] is None and "no guarantee" in found["verdict"]


# The recipe


def test_the_recipe_of_dpaf_tells_memorising_from_private_training(digits):
    trainers = {
        "SGD": lambda x, y, seed: Copier(Batch(x, y)),
        "epsilon 1": private(synthesize, DPMERF(features=100, steps=10), 1.0),
    }
    table = dpaf_table_xvii(trainers, digits, sizes=(64,), samples=800, seeds=(0, 1))
    assert table["SGD"][64]["auc"].mean > 0.95 and table["SGD"][64]["published_auc"] == 1.0
    ours = table["epsilon 1"][64]
    assert ours["verdict"] == scores.BELOW and ours["published_auc"] == 0.473 and ours["members"] == 128
    assert DPAF_TABLE_XVII["epsilon 10"][128] == 0.502


def test_the_row_without_privacy_is_the_reference_gan(digits):
    from sfumato.evaluate.reference import Training

    made = sgd(Training(steps=2, width=16))(digits[:64].pixels, digits[:64].labels, 0).sample(30)
    assert made.pixels.shape == (30, 1, 8, 8) and set(made.labels) == set(range(10))


def test_the_split_of_the_recipe_is_even_and_disjoint(digits):
    ins, outs = few(digits, 64, seed=3)
    assert len(ins) == len(outs) == 64 and np.array_equal(np.bincount(ins.labels), np.bincount(outs.labels))
    both = np.concatenate([ins.pixels, outs.pixels]).reshape(128, -1)
    assert len(np.unique(both, axis=0)) == 128
    with pytest.raises(ValueError, match="of each class"):
        few(digits[:50], 64, 0)
