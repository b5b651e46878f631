"""Networks and samplers. They know nothing of privacy."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sfumato.generators.base import Generator
from sfumato.generators.conv import ConvGenerator
from sfumato.generators.dcgan import DCGANGenerator
from sfumato.generators.deconv import DeconvGenerator
from sfumato.generators.diffusion import DiffusionGenerator
from sfumato.generators.fixed import FixedSet
from sfumato.generators.flow import FlowGenerator
from sfumato.generators.mirror import MirrorGenerator
from sfumato.generators.vae import VAEGenerator

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
