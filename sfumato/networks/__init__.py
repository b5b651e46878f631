"""Networks and samplers. They know nothing of privacy."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sfumato.networks.conv import ConvGenerator
from sfumato.networks.dcgan import DCGANGenerator
from sfumato.networks.deconv import DeconvGenerator
from sfumato.networks.diffusion import DiffusionGenerator
from sfumato.networks.flow import FlowGenerator
from sfumato.networks.generator import Generator
from sfumato.networks.image_set import FixedSet
from sfumato.networks.mirror import MirrorGenerator
from sfumato.networks.vae import VAEGenerator

KINDS: dict[str, type[Generator]] = {
    "conv": ConvGenerator,
    "dcgan": DCGANGenerator,
    "deconv": DeconvGenerator,
    "diffusion": DiffusionGenerator,
    "fixed": FixedSet,
    "flow": FlowGenerator,
    "mirror": MirrorGenerator,
    "vae": VAEGenerator,
}


def load_generator(config: dict[str, Any], tensors: dict[str, Tensor], device: str = "cpu") -> Generator:
    """Rebuild a generator from its public configuration and weights."""
    settings = dict(config)
    kind = settings.pop("kind", None)
    if kind not in KINDS:
        raise ValueError(f"Expected a generator kind of {', '.join(KINDS)}, found kind={kind!r}.")
    generator = KINDS[kind](**settings)
    generator.load_state_dict(tensors)
    return generator.to(device).eval()
