"""Images of a released PCA and mixture, on which P3GM's decoder learns before its first private step.

A code is drawn from the mixture and led back through the PCA. All of it was released before, so these images are as
free as public ones (the official code: 3000 steps of 100).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sfumato.data.public import PublicImages
from sfumato.networks.labels import allot
from sfumato.types import Images

if TYPE_CHECKING:
    from sfumato.networks.vae import VAEGenerator
    from sfumato.run.run import Run

IMAGES = 20_000
PROVENANCE = "images of a PCA and a mixture that were released before"


@torch.no_grad()
def pca_images(decoder: VAEGenerator, mean: Tensor, back: Tensor, run: Run) -> PublicImages:
    """Images mean + `back` u of codes u drawn from the decoder's mixture, cut to [0, 1]."""
    random = run.generator("pca images")
    labels = allot(IMAGES, decoder.label_weights, random)
    codes = decoder.placed(decoder.latents(IMAGES, random).to(run.device), labels.to(run.device))
    flat = mean.to(codes) + codes @ back.to(codes).T
    pixels = flat.clamp(0, 1).mul(255).round().byte().view(-1, *decoder.shape)
    return PublicImages(Images(pixels.cpu().numpy(), labels.numpy(), decoder.classes), PROVENANCE)
