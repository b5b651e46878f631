"""Images of a released PCA and mixture: codes of the mixture, led back."""

from __future__ import annotations

import numpy as np
import torch

from sfumato import Run
from sfumato.methods.dpsgd.pca_images import IMAGES, pca_images
from sfumato.networks.vae import VAEGenerator


def test_images_are_codes_led_back_through_the_pca():
    decoder = VAEGenerator((1, 4, 4), ("a", "b"), latent=1, width=8, components=1, label_weights=(0.25, 0.75))
    decoder.means.copy_(torch.tensor([[[-1.0]], [[1.0]]]))
    decoder.deviations.fill_(1e-6)
    back = torch.linspace(0, 0.4, 16)[:, None]  # brighter with the code, from pixel to pixel
    made = pca_images(decoder, torch.full((16,), 0.5), back, Run(seed=0, device="cpu")).images
    assert made.pixels.shape == (IMAGES, 1, 4, 4) and abs((made.labels == 1).mean() - 0.75) < 0.02
    for label, sign in ((0, -1), (1, 1)):
        wanted = (0.5 + sign * back[:, 0]).mul(255).view(1, 4, 4).numpy()
        assert np.abs(made.pixels[made.labels == label] - wanted).max() < 0.6


def test_what_lies_beyond_black_and_white_is_cut():
    decoder = VAEGenerator((1, 4, 4), ("a", "b"), latent=1, width=8, components=1)
    made = pca_images(decoder, torch.full((16,), 0.5), torch.full((16, 1), 9.0), Run(seed=0, device="cpu")).images
    assert {0, 255} <= set(made.pixels.ravel().tolist())
