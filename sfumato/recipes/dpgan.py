"""Recipes of the DPGAN family: a critic trained by DP-SGD, with another loss, schedule or start.

`revised` are ours, after Bie, Kamath and Zhang (2023), in a hundredth of their steps. `code` are the configurations of
their repository (alexbie98/dpgan-revisit); sigma is not taken from them but found for the budget, and comes out a
little smaller. The others say what makes each of them that paper; what the note does not name is ours, and so is Adam
where they took RMSProp or plain descent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfumato.recipes.recipe import Recipe

SETS = ("mnist", "fashion-mnist")
SIZE = {"fakes": 0, "latent": 128, "generator": "dcgan", "width": 64, "critic_width": 128}
REVISED = "A critic of a tenth of the revision's size and less meets less noise, and needs a hundredth of its steps."
DECONV = {"generator": "deconv", "width": 128}  # the revision's own generator
ADAM = {"learning_rate": 2e-4, "critic_learning_rate": 2e-4}

# Name: epsilon, expected batch, critic steps, critic steps a move, least accuracy, accuracy as in the README.
CONFIGURATIONS = {
    "mnist-10": (10.0, 128, 450_000, 50, 0.0, 0.930),
    "mnist-10-adaptive": (10.0, 512, 174_000, 1, 0.6, 0.944),
    "mnist-1": (1.0, 128, 325_000, 200, 0.0, None),
    "mnist-1-adaptive": (1.0, 512, 165_000, 1, 0.7, None),
    "fashion-mnist-10": (10.0, 128, 450_000, 100, 0.0, None),
    "fashion-mnist-1": (1.0, 128, 325_000, 200, 0.0, None),
    "fashion-mnist-10-adaptive": (10.0, 512, 174_000, 1, 0.6, None),
    "fashion-mnist-1-adaptive": (1.0, 512, 165_000, 1, 0.7, None),
}

# Of the code of Xie et al., as DataLens (table 1) reports it.
DP_GAN = {
    ("mnist", 1.0): 0.4036,
    ("mnist", 10.0): 0.8011,
    ("fashion-mnist", 1.0): 0.1053,
    ("fashion-mnist", 10.0): 0.6098,
}
XIE = (
    "Wasserstein critic with weights clipped at 0.02, 10,000 moves of five critic steps. The code trains one network a "
    "digit, adds noise to mean gradients that nothing bounds, and has 100 critic steps a move at times; here gradients "
    "are clipped, and one network is told the class. Published: DataLens, table 1."
)

WASSERSTEIN = {"loss": "wgan", "penalty": 10.0, "critic_steps": 5, "steps": 10_000, "batch": 256, "critic_width": 64}
# What makes a recipe its paper: settings, the paper, and the same in words.
SHORT = ("alzantot", "frigerio")  # members that were measured, with fewer steps than their recipe has
FAMILY: dict[str, tuple[dict[str, Any], str, str]] = {
    "xie": (
        {
            "loss": "wgan",
            "weight_clip": 0.01,
            "critic_steps": 5,
            "steps": 20_000,
            "batch": 128,
            "learning_rate": 5e-5,
            "critic_learning_rate": 5e-5,
        },
        "Xie et al. 2018",
        "Wasserstein critic with clipped weights. The paper takes those for a bound on gradients; here gradients are "
        "clipped too, and nothing rests on the weights.",
    ),
    "zhang": (
        WASSERSTEIN | {"clipping": "layers", "public_steps": 2000},
        "Zhang et al. 2018 (dp-GAN)",
        "Gradient penalty, a clipping norm for each group of parameters (here: each layer, equal shares) and a warm "
        "start on public images.",
    ),
    "ganobfuscator": (
        WASSERSTEIN | {"clip_public": True},
        "Xu et al. 2019 (GANobfuscator)",
        "Gradient penalty, and a clipping norm that follows the mean norm of gradients of public images.",
    ),
    "sprint": (
        {
            "loss": "acgan",
            "critic_steps": 1,
            "steps": 20_000,
            "batch": 128,
            "clip": 1e-4,
            "learning_rate": 2e-5,
            "critic_learning_rate": 2e-5,
        },
        "Beaulieu-Jones et al. 2017 (SPRINT-gan)",
        "Auxiliary classifier GAN with clipping norm 0.0001 and rate 2e-5; batches of one record there.",
    ),
    "dp-cgan": (
        {"critic_steps": 1, "steps": 20_000, "batch": 600, "clip_fakes": True},
        "Torkzadehmahani et al. 2019 (DP-CGAN)",
        "Conditional GAN, gradients of the real and of the fake loss clipped apart, one critic step a move.",
    ),
    "frigerio": (
        {"loss": "wgan", "weight_clip": 0.01, "critic_steps": 5, "steps": 20_000, "batch": 128, "clip_decay": 0.1},
        "Frigerio et al. 2019",
        "The clipping norm falls on a public schedule, here to a tenth, and the noise with it.",
    ),
    "alzantot": (
        {
            "loss": "wgan",
            "weight_clip": 0.01,
            "critic_steps": 10,
            "steps": 18_760,
            "batch": 64,
            "latent": 64,
            "learning_rate": 1e-3,
            "critic_learning_rate": 1e-3,
        },
        "Alzantot and Srivastava 2019, official code",
        "Wasserstein critic, weights clipped at 0.01, ten critic steps a move, batches of 64 for twenty epochs; fully "
        "connected networks on tables there.",
    ),
    "dpmi": (
        {"critic_steps": 5, "steps": 10_000, "batch": 256, "decoder": "public", "decoder_steps": 5000, "codes": 64},
        "Chen et al. 2021 (DPMI)",
        "The game is played among the codes of a public autoencoder, whose decoder ends the generator. The code of a "
        "record is what the public encoder says of it; the paper searches it in a public generator, record by record.",
    ),
    "autogan": (
        {
            "loss": "wgan",
            "weight_clip": 0.01,
            "critic_steps": 10,
            "steps": 10_000,
            "batch": 128,
            "clip": 0.022,
            "latent": 64,
            "decoder": "private",
            "decoder_steps": 2000,
            "codes": 64,
        },
        "Tantipongpipat et al. 2021 (DPautoGAN), official code",
        "Wasserstein critic on records, weights clipped at 0.01, clipping norm 0.022, ten critic steps a move. A "
        "decoder, learned before by DP-SGD as half of an autoencoder, ends the generator. The encoder beside it has "
        "noise too, without which nothing would be private.",
    ),
}


def _recipe(
    name: str,
    data: str,
    epsilon: float,
    settings: dict[str, Any],
    kind: str,
    paper: str,
    note: str,
    published: float | None = None,
) -> Recipe:
    return Recipe(
        name=f"dpgan-{name}",
        method="dpgan",
        settings=SIZE | ADAM | settings,
        epsilon=epsilon,
        data=data,
        records=60_000,
        shape=(1, 28, 28),
        classes=10,
        kind=kind,
        paper=paper,
        note=note,
        published=published,
    )


def dpgan_revised(data: str, epsilon: float) -> Recipe:
    """A small critic with a score for each class, large batches and few steps: some minutes on one large GPU.

    >>> dpgan_revised("mnist", 10.0).make().batch
    2048
    """
    settings = {
        "fakes": 256,
        "generator": "conv",
        "width": 64,
        "critic_heads": True,
        "ema_decay": 0.99,
        "learning_rate": 1e-3,
        "critic_learning_rate": 1e-3,
    }
    of_budget: dict[str, Any] = {"steps": 2000, "batch": 1024, "critic_steps": 2, "critic_width": 16}
    if epsilon >= 10:
        of_budget = {"steps": 4000, "batch": 2048, "critic_steps": 1, "critic_width": 32}
    return _recipe(f"revised-{data}-{epsilon:g}", data, epsilon, settings | of_budget, "ours", "none", REVISED)


def dpgan_code(name: str) -> Recipe:
    """A configuration of the revision's repository."""
    epsilon, batch, steps, n, least, published = CONFIGURATIONS[name]
    settings = {
        "steps": steps,
        "batch": batch,
        "critic_steps": n,
        "least": least,
        "grace": 200,
        "ema_decay": 0.0,
        **DECONV,
    }
    data = next(d for d in sorted(SETS) if name.startswith(d))
    note = "Their run takes eight hours on a V100; fakes get noise there and none here."
    return _recipe(f"code-{name}", data, epsilon, settings, "code", "exp_configs of the official code", note, published)


def dpgan_family(name: str) -> Recipe:
    """What makes it another paper of the family, on MNIST at epsilon 10."""
    settings, paper, words = FAMILY[name]
    seen = "Measured with 4,000 steps." if name in SHORT else "Not yet measured."
    return _recipe(f"{name}-mnist-10", "mnist", 10.0, settings, "ours", paper, f"{words} {seen}")


def dpgan_xie(data: str, epsilon: float) -> Recipe:
    """The baseline DP-GAN of the DataLens paper: the code of Xie et al. (illidanlab/dpgan), at its own sizes.

    >>> dpgan_xie("mnist", 10.0).published
    0.8011
    """
    settings = {
        "loss": "wgan",
        "weight_clip": 0.02,
        "critic_steps": 5,
        "steps": 50_000,
        "batch": 64,
        "latent": 100,
        "critic_width": 64,
        "learning_rate": 5e-5,
        "critic_learning_rate": 5e-5,
        "ema_decay": 0.0,
    }
    return _recipe(
        f"xie-code-{data}-{epsilon:g}", data, epsilon, settings, "code", "official wgan.py", XIE, DP_GAN[data, epsilon]
    )


def dpgan_small() -> Recipe:
    """Small networks, for a look on two cores."""
    settings = {
        "steps": 600,
        "batch": 256,
        "critic_steps": 3,
        "latent": 32,
        "width": 16,
        "critic_width": 16,
        "learning_rate": 1e-3,
        "critic_learning_rate": 1e-3,
        "ema_decay": 0.9,
    }
    return _recipe(
        "small-fashion-mnist-10",
        "fashion-mnist",
        10.0,
        settings,
        "ours",
        "none",
        "For a look on two cores, not for quality.",
    )


def every() -> Iterator[Recipe]:
    """All of them."""
    yield from (dpgan_revised(data, epsilon) for data in SETS for epsilon in (1.0, 10.0))
    yield from (dpgan_code(name) for name in CONFIGURATIONS)
    yield from (dpgan_family(name) for name in FAMILY)
    yield from (dpgan_xie(data, epsilon) for data, epsilon in DP_GAN)
    yield dpgan_small()
