"""LOGAN (Hayes, Melis, Danezis and De Cristofaro, PoPETs 2019), black box: a discriminator of the attacker's own.

A classifier learns to tell synthetic images from reference images that nobody trained on; what it takes for synthetic
more readily is more likely a member, since the generator has been drawn towards its training set.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.evaluate.attacks.subject import Batch


def discriminator(channels: int) -> nn.Module:
    """A small CNN without batch statistics, so that a score depends on its own image alone."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(32, 64, 4, 2, 1),
        nn.GroupNorm(8, 64),
        nn.LeakyReLU(0.2),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(64 * 16, 1),
    )


def _scaled(pixels: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(pixels)).float().div_(127.5).sub_(1)


def train(
    synthetic: Batch, reference: Batch, *, steps: int = 300, batch: int = 64, device: str = "cpu", seed: int = 0
) -> nn.Module:
    """Half of each batch from either side, whatever their sizes; a fixed number of steps."""
    random = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = discriminator(synthetic.pixels.shape[1]).to(device)
        optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-3)
        sides = _scaled(reference.pixels), _scaled(synthetic.pixels)
        wanted = torch.tensor([0.0, 1.0]).repeat_interleave(batch // 2).to(device)
        for _ in range(steps):
            x = torch.cat([s[torch.randint(len(s), (batch // 2,), generator=random)] for s in sides]).to(device)
            loss = F.binary_cross_entropy_with_logits(network(x)[:, 0], wanted)
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimiser.step()
    return network.eval()


@torch.inference_mode()
def score(network: nn.Module, candidates: Batch, device: str = "cpu") -> np.ndarray:
    """How synthetic each candidate looks (a logit)."""
    parts = [
        network(_scaled(candidates.pixels[i : i + 512]).to(device))[:, 0].cpu().numpy()
        for i in range(0, len(candidates), 512)
    ]
    return np.concatenate(parts).astype(float)
