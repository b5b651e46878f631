"""The autoencoder before a game, whose decoder ends the generator.

    private   encoder and decoder by DP-SGD, clipped together, Delta = C        the crossing "decoder"     (DPautoGAN)
              the critic sees images
    public    encoder and decoder by ordinary steps on public images                                       (DPMI)
              the critic sees codes: that of a record is found by the public encoder, from that record alone

DPautoGAN's encoder learns without noise beside a decoder with noise. Such an encoder is in every gradient of the
decoder (B13 of the gallery), so that here it has its noise too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sfumato.engine.dpsgd import DPSGD, DPSGDConfig
from sfumato.engine.generator_dpsgd import seeded
from sfumato.engine.public_pretrain import public_pretrain
from sfumato.methods.dpsgd.dp_vae import DPVAE
from sfumato.networks.decoded import unlabelled
from sfumato.networks.vae import VAE, VAEGenerator
from sfumato.record_rng import drawing

if TYPE_CHECKING:
    from sfumato.data.public import PublicImages
    from sfumato.engine.gradients.per_example import ClippedGradient
    from sfumato.networks.generator import Generator
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

WAYS = ("none", "private", "public")
LEARNING_RATE = 2e-3
BETA = 0.1  # of the KL term: codes keep to the size that a game begins with


def loss(net: VAE, images: Tensor, labels: Tensor, *drawn: Tensor) -> Tensor:
    """That of a variational autoencoder which is not told the class."""
    like: Any = DPVAE(latent=net.decoder.inner, beta=BETA)
    found: Tensor = like.loss(net, images, unlabelled(labels), *drawn)
    return found


class Before:
    """What comes before the game: nothing, or an autoencoder that learns privately or has learned publicly."""

    def __init__(
        self,
        way: str,
        spec: DataSpec,
        codes: int,
        width: int,
        config: DPSGDConfig,
        run: Run,
        public: PublicImages | None,
    ) -> None:
        sizes = (spec.shape, spec.classes, codes, width)
        self.net = None if way == "none" else seeded(run, lambda: VAE(VAEGenerator(*sizes)))
        self.training: DPSGD | None = None
        if self.net and way == "private":
            adam = torch.optim.Adam(self.net.parameters(), lr=LEARNING_RATE)
            self.training = DPSGD(self.net, loss, run, config, adam, draw=drawing(run.generator))
        elif self.net:
            public_pretrain(self.net, loss, public, spec, run, steps=config.steps)
        self.encoder = self.net.encoder if self.net and way == "public" else None  # for a critic of codes
        self.steps = config.steps if self.training else 0
        self.kept = self.training.kept if self.training else {}

    def asked(self, step: int) -> ClippedGradient:
        """The question of a private step."""
        assert self.training
        self.training.begin(step)
        return self.training.query

    def step(self, released: Tensor) -> None:
        """One step on a released sum of gradients."""
        assert self.training
        self.training.step(released / self.training.config.batch)

    def end(self, generator: Generator) -> None:
        """Put the decoder at the end of a generator, where there is one."""
        if self.net:
            generator.get_submodule("decoder").load_state_dict(self.net.decoder.state_dict())
