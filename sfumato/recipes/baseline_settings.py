"""What the official codes of the baselines have: settings, whose they are, and published accuracies; plain data.

Noise is found for the budget, not taken from the codes. Where a code has one setting for all budgets, both have it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

SETS = ("mnist", "fashion-mnist")
EPSILONS = (1.0, 10.0)
CELLS = tuple((data, epsilon) for data in SETS for epsilon in EPSILONS)
NONE = (None,) * 4
DATALENS = "Published: DataLens, table 1."
BENCHMARK = "Published: DPImageBench, best of three classifiers at a smaller delta."
UNPUBLISHED = "No published number at these sets and budgets is known here."
CONV = "The generator is ours."


@dataclass(frozen=True)
class Baseline:
    """Settings that all cells share, those of one set or budget, where they are from, and published accuracies."""

    method: str
    source: str
    note: str
    shared: dict[str, Any]
    own: dict[str | float, dict[str, Any]] = field(default_factory=dict)  # of a set, or of an epsilon
    published: tuple[float | None, ...] = NONE  # in the order of CELLS


def width_of(sigma2: float) -> float:
    """A bandwidth of ours from the square of a Gaussian kernel's width for 784 pixels.

    >>> width_of(105)
    0.36596
    """
    return round(math.sqrt(sigma2 / 784), 5)


def mehler(sigma2: float) -> float:
    """rho of Mehler's formula for the kernel exp(-(x-y)^2 / (2 sigma2)), as DP-HP's code finds it.

    >>> mehler(0.15)
    0.86119
    """
    return round(math.sqrt(1 + sigma2**2) - sigma2, 5)


SINKHORN: dict[str, Any] = {
    "steps": 480_000,
    "batch": 50,
    "fakes": 50,
    "clip": 0.5,
    "blur": 0.05,
    "rounds": 1,
    "label_cost": 15.0,
    "learning_rate": 1e-5,
    "ema_decay": 0.0,
    "latent": 16,
    "generator": "dcgan",
    "width": 64,
}
SINKHORN_NOTE = (
    "400 epochs of 50, l1 + l2 with weight m, blur 0.05, rate 1e-5, no average. Fully debiased; the rate falls. About "
    "three hours on one large GPU: not run here at this length."
)
TEACHERS: dict[str, Any] = {"loss": "logistic", "critic_norm": True, "updates": 1, "warmup": 0, "learning_rate": 1e-3}

BASELINES: dict[str, Baseline] = {
    "g-pate": Baseline(
        "g-pate",
        "official README",
        "Confident-GNMax on ten random projections, bins of [-1e-4, 1e-4]. The code stops by an epsilon that depends "
        f"on the votes; here steps are as many as its sigma allows without looking at them. {DATALENS}",
        TEACHERS
        | {
            "dimensions": 10,
            "bins": 10,
            "clip": round(1e-4 * math.sqrt(10), 7),  # its projection is shorter by this root
            "unit": False,
            "threshold": 0.5,
            "latent_distribution": "uniform",
        },
        {
            1.0: {"teachers": 4000, "batch": 15, "teacher_batch": 15, "ratio": 3.0, "latent": 50, "steps": 226},
            10.0: {"teachers": 2000, "batch": 30, "teacher_batch": 30, "ratio": 6.0, "latent": 100, "steps": 65},
        },
        (0.5810, 0.8092, 0.5567, 0.6934),
    ),
    "gs-wgan": Baseline(
        "gs-wgan",
        "official defaults",
        "A thousand critics, 20,000 steps of 32 images. The code trains the one critic that was drawn, five updates; "
        "here all have as many in all, one every 200 steps. Its warm start, 2000 rounds of each critic against a "
        "generator of its own, is 2000 updates against the first generator here. Critics have two convolutions, not "
        f"three. {DATALENS}",
        {
            "teachers": 1000,
            "steps": 20_000,
            "batch": 32,
            "teacher_batch": 32,
            "updates": 1,
            "every": 200,
            "warmup": 2000,
            "unit": False,
            "penalty": 10.0,
            "learning_rate": 1e-4,
            "critic_learning_rate": 1e-4,
            "latent": 10,
            "width": 64,
            "critic_width": 64,
        },
        {},
        (0.1432, 0.8075, 0.1661, 0.6579),
    ),
    "pate-gan": Baseline(
        "pate-gan",
        "official defaults",
        "Ten teachers, one step of the student and one of the generator for 64 labels, rate 1e-4. The code stops by an "
        "epsilon that depends on the votes; 100 steps are taken here, whose noise is larger than ten votes. There "
        f"teachers are logistic regressions on tables, all on one part of the data. {DATALENS}",
        {
            "teachers": 10,
            "batch": 64,
            "teacher_batch": 64,
            "steps": 100,
            "loss": "logistic",
            "vote": "hard",
            "target": "majority",
            "explore": 0.0,
            "fits": 1,
            "moves": 1,
            "replay": 0,
            "learning_rate": 1e-4,
            "student_learning_rate": 1e-4,
            "ema_decay": 0.0,
        },
        {},
        (0.4168, 0.6667, 0.4222, 0.6218),
    ),
    "dp-sinkhorn": Baseline(
        "dp-sinkhorn",
        "official README",
        f"m = 1. {SINKHORN_NOTE} Published: as DPDM quotes it.",
        SINKHORN | {"mixture": 1.0},
        {},
        (None, 0.832, None, None),
    ),
    "dp-sinkhorn-m3": Baseline(
        "dp-sinkhorn", "official README", f"m = 3. {SINKHORN_NOTE} {UNPUBLISHED}", SINKHORN | {"mixture": 3.0}
    ),
    "p3gm": Baseline(
        "p3gm",
        "official exp.sh",
        "Batches of 300 for four epochs, 30 components, one Gaussian in 20 rounds, 3000 steps on images of the PCA "
        "first. Shares of the budget are those of its noise at epsilon 1, and the mean, which it keeps exact, has a "
        f"fiftieth. The decoder is convolutional. {UNPUBLISHED}",
        {
            "batch": 300,
            "steps": 800,
            "latent": 30,
            "components": 1,
            "rounds": 20,
            "pca_steps": 3000,
            "likelihood": "gaussian",
            "noise": 0.7071,  # squared error
            "learning_rate": 1e-3,
            "ema_decay": 0.0,
            "to_mean": 0.02,
            "to_scatter": 0.5,
            "to_mixture": 0.08,
        },
    ),
    "dp-merf": Baseline(
        "dp-merf",
        "official defaults",
        f"10,000 features, five epochs of 600 steps, ten images a class, codes of five numbers. {CONV} {BENCHMARK}",
        {
            "features": 10_000,
            "octaves": 0.0,
            "steps": 3000,
            "batch": 10,
            "learning_rate": 0.01,
            "latent": 5,
            "width": 8,
        },
        {"mnist": {"bandwidth": width_of(105)}, "fashion-mnist": {"bandwidth": width_of(127)}},
        (0.803, 0.813, 0.622, 0.622),
    ),
    "dp-hp": Baseline(
        "dp-hp",
        "official README",
        "Order 100 for the sum kernel, 20 for the product kernel on pairs of pixels. The code draws a new pair each of "
        "ten epochs; here ten pairs are released at once. gamma weighs both the loss and the noise. "
        f"{CONV} {UNPUBLISHED}",
        {
            "order": 100,
            "product_order": 20,
            "reach": 0.5,
            "groups": 10,
            "members": 2,
            "steps": 3000,
            "batch": 20,
            "learning_rate": 0.01,
            "latent": 5,
        },
        {
            "mnist": {"rho": mehler(0.005), "product": 0.2236},  # gamma 20
            "fashion-mnist": {"rho": mehler(0.15), "product": 0.3162},  # gamma 10
        },
    ),
    "pearl": Baseline(
        "pearl",
        "official image/main.py",
        "1500 frequencies of one width, five epochs of 600 steps, ten images a class. The code moves omega at every "
        f"fifth step, here it moves at each. {CONV} {UNPUBLISHED}",
        {
            "frequencies": 1500,
            "bandwidth": width_of(129),
            "octaves": 0.0,
            "steps": 3000,
            "batch": 10,
            "learning_rate": 0.01,
            "reweight": 0.01,
            "latent": 5,
            "width": 8,
        },
    ),
    "dp-ntk": Baseline(
        "dp-ntk",
        "official README",
        "Width 800, 2000 steps of 5000 images. One output and a smooth rectifier in place of ten, a hard one and layer "
        f"normalisation. {CONV} {BENCHMARK}",
        {"hidden": 800, "gain": 0.577, "steps": 2000, "batch": 500, "learning_rate": 0.01, "latent": 5, "width": 8},
        {},
        (0.500, 0.913, 0.644, 0.763),
    ),
    "private-set": Baseline(
        "private-set",
        "official defaults",
        "A thousand networks for ten images a class, plain descent of the pixels; rate 0.1 there, on pixels of a "
        f"quarter of ours' weight. 100,000 releases: hours, not run here at this length. {UNPUBLISHED}",
        {
            "each": 10,
            "rounds": 1000,
            "outer": 10,
            "batches": 10,
            "inner": 50,
            "batch": 256,
            "clip": 0.1,
            "optimiser": "sgd",
            "learning_rate": 0.025,
        },
    ),
    "private-set-prior": Baseline(
        "private-set",
        "official main_prior.py",
        f"Images of a generator in the place of free pixels; the generator is ours. {UNPUBLISHED}",
        {
            "each": 1,
            "rounds": 1000,
            "outer": 2,
            "batches": 10,
            "inner": 10,
            "batch": 256,
            "clip": 0.1,
            "prior": "generator",
            "learning_rate": 0.01,
        },
    ),
    "ndpdc": Baseline(
        "ndpdc",
        "official README",
        "50 images a class, groups of 50 a class, Siamese augmentation, 10,000 steps of plain descent; rate 1 there, "
        "on pixels of a quarter of ours' weight. The clipping norm is ours. Published: Zheng and Li 2023.",
        {"each": 50, "batch": 500, "steps": 10_000, "optimiser": "sgd", "learning_rate": 0.25},
        {"mnist": {"augment": "siamese"}, "fashion-mnist": {"augment": "siamese-flip"}},
        (0.941, None, 0.788, None),
    ),
}
