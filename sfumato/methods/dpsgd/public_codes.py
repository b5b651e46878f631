"""An autoencoder of public images, behind which a diffusion model learns (DP-LDM; Liu, Lyu et al., TMLR 2025).

    E, F       encoder and decoder:  min  || F(E(x) + u) - x ||^2  over public images x,  u small noise: public
    records    are seen as their codes E(x_i), a fixed map of single images: the bound is as without it

Without public images, images of nobody (dead leaves) stand in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import mse_loss

from sfumato.data.public import PublicImages
from sfumato.data.random_process import NAME, dead_leaves, provenance
from sfumato.engine.match import warm_cosine
from sfumato.engine.public_pretrain import known

if TYPE_CHECKING:
    from sfumato.networks.coded import CodedGenerator
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

BATCH = 64
MADE_UP = 2000  # images of nobody
NOISE = 0.02  # in codes, so that near codes make near images
STAND_IN = {"name": NAME, "provenance": f"{MADE_UP} images of the dead leaves model, made up; no photograph, no record"}
DEVIATION = "Records are seen as codes of an autoencoder of public images, and codes are what is denoised."


def teach_codes(net: CodedGenerator, public: PublicImages | None, spec: DataSpec, run: Run, steps: int) -> None:
    """Ordinary steps of the autoencoder, which stays as it is from then on."""
    pixels, _ = known(public or _made_up(spec, run.seed), spec)
    autoencoder = net.autoencoder
    optimiser = torch.optim.Adam(autoencoder.parameters(), lr=2e-3)
    run.progress.start("public codes", steps)
    for step in run.rounds(steps):
        optimiser.param_groups[0]["lr"] = 2e-3 * warm_cosine(step, steps)
        random = run.generator("public codes", step)
        rows = torch.randint(len(pixels), (BATCH,), generator=random)
        x = pixels[rows].to(run.device).float().div(255)
        codes = autoencoder.encode(x)
        grain = NOISE * torch.randn(codes.shape, generator=random).to(run.device)
        optimiser.zero_grad(set_to_none=True)
        mse_loss(autoencoder(codes + grain), x).backward()
        optimiser.step()
        run.progress.advance(step + 1, "public")
        run.check()
    autoencoder.requires_grad_(False)


def _made_up(spec: DataSpec, seed: int) -> PublicImages:
    return PublicImages(dead_leaves(MADE_UP, spec.shape, seed), provenance(MADE_UP, seed))
