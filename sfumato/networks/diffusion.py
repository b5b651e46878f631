"""A diffusion model as a generator: noise and label -> image, by a sampler that does the same each time.

Denoiser and samplers are those of Karras et al., "Elucidating the design space of diffusion-based generative models"
(NeurIPS 2022): table 1 for the preconditioning, equation 5 for the levels, algorithms 1 (Heun) and 2 (churn).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfumato.networks.generator import Generator, channels_last
from sfumato.networks.label_embedding import known
from sfumato.networks.unet import UNet
from sfumato.record_rng import keys_of, normal

SAMPLERS = ("heun", "churn")
LARGE = 2000  # images made at once on a GPU
NOISE = 1.003  # S_noise of algorithm 2


class DiffusionGenerator(Generator):
    """The latent is the first noise image; all later noise, with the churn sampler, is a function of it.

    A label of -1 stands for none. With `guidance` w the denoiser is D(x; none) + w (D(x; label) - D(x; none)).
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        label_weights: Sequence[float] | None = None,
        width: int = 32,
        multipliers: Sequence[int] = (1, 2, 4),
        blocks: int = 1,
        attention: int = 1,
        patch: int = 1,
        sampler: str = "heun",
        sampler_steps: int = 18,
        guidance: float = 1.0,
        churn: float = 20.0,
        lowest: float = 0.002,
        highest: float = 80.0,
        sigma_data: float = 0.5,
        bfloat16: bool = False,
    ) -> None:
        super().__init__(shape, classes, math.prod(shape), label_weights)
        if sampler not in SAMPLERS or sampler_steps < 2 or not 0 < lowest < highest or sigma_data <= 0:
            raise ValueError(
                f"Expected sampler={' or sampler='.join(SAMPLERS)}, evaluations of at least 2 and 0 < lowest < highest"
                f", found {sampler=}, {sampler_steps=}, {lowest=}, {highest=}."
            )
        self._settings = {
            "width": width,
            "multipliers": list(multipliers),
            "blocks": blocks,
            "attention": attention,
            "patch": patch,
            "sampler": sampler,
            "sampler_steps": sampler_steps,
            "guidance": guidance,
            "churn": churn,
            "lowest": lowest,
            "highest": highest,
            "sigma_data": sigma_data,
            "bfloat16": bfloat16,
        }
        self.sampler = sampler
        self.sampler_steps = sampler_steps
        self.guidance = guidance
        self.churn = churn
        self.lowest = lowest
        self.highest = highest
        self.sigma_data = sigma_data
        self.rough = bfloat16
        net = UNet(self.shape[0], len(self.classes), width, multipliers, blocks, attention, patch)
        self.net = channels_last(net)

    def config(self) -> dict[str, Any]:
        return {
            "kind": "diffusion",
            "shape": list(self.shape),
            "classes": list(self.classes),
            "label_weights": self.label_weights,
            **self._settings,
        }

    def seen(self, images: Tensor) -> Tensor:
        """What is denoised of images: they themselves."""
        return images

    def denoise(self, x: Tensor, sigma: Tensor, labels: Tensor) -> Tensor:
        """D(x; sigma): the expected image in [-1, 1] behind x, an image with noise of deviation sigma (n,)."""
        s = sigma[:, None, None, None]
        d = self.sigma_data
        size = (s.square() + d * d).sqrt()
        inside = (x / size).contiguous(memory_format=torch.channels_last)
        answer: Tensor = self.net(inside, sigma.log() / 4, known(labels, len(self.classes), x)).float()
        return d * d / size.square() * x + s * d / size * answer

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(z.device.type, torch.bfloat16, enabled=self.rough and z.is_cuda):
            levels = self.levels(z.device)
            x = levels[0] * z.view(-1, *self.shape)
            keys = keys_of(z.detach().float().view(torch.int32), torch.zeros_like(labels))
            for i, (now, then) in enumerate(zip(levels[:-1], levels[1:], strict=True)):
                x, now = self._churned(x, now, normal(keys, self.shape, i)) if self.sampler == "churn" else (x, now)
                slope = (x - self._guided(x, now, labels)) / now
                step = x + (then - now) * slope
                if then > 0:
                    again = (step - self._guided(step, then, labels)) / then
                    step = x + (then - now) * (slope + again) / 2
                x = step
        return x.float().add(1).div(2).clamp(0, 1)

    def levels(self, device: torch.device | None = None) -> Tensor:
        """Noise levels from the highest to the lowest, and zero, in float32 (equation 5, rho = 7)."""
        high = self.highest ** (1 / 7)
        low = self.lowest ** (1 / 7)
        rising = torch.linspace(0, 1, self.sampler_steps, dtype=torch.float64, device=device)
        return torch.cat([(high + rising * (low - high)) ** 7, rising.new_zeros(1)]).float()

    def _churned(self, x: Tensor, level: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """A little more noise before a step (algorithm 2), at middle levels."""
        gamma = min(self.churn / self.sampler_steps, math.sqrt(2) - 1) * ((level > 0.05) & (level < 50))
        more = level * (1 + gamma)
        return x + (more.square() - level.square()).sqrt() * NOISE * noise.to(x), more

    def _guided(self, x: Tensor, level: Tensor, labels: Tensor) -> Tensor:
        sigma = level.expand(len(x))
        if self.guidance == 1:
            return self.denoise(x, sigma, labels)
        both = self.denoise(torch.cat([x, x]), sigma.repeat(2), torch.cat([labels, torch.full_like(labels, -1)]))
        with_label, without = both.chunk(2)
        return without + self.guidance * (with_label - without)

    @torch.no_grad()
    def pixels(self, z: Tensor, labels: Tensor) -> np.ndarray:
        """As others do it, but with as many images at once as keep a GPU busy."""
        device = next(self.parameters()).device
        size = LARGE if device.type == "cuda" else 250
        made = [
            self(z[i : i + size].to(device), labels[i : i + size].to(device)).mul(255).round().byte().cpu().numpy()
            for i in range(0, len(z), size)
        ]
        return np.concatenate(made) if made else np.zeros((0, *self.shape), dtype=np.uint8)
