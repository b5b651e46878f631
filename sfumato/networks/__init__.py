"""Networks and samplers. They know nothing of privacy, and of no method."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from torch import Tensor

from sfumato.networks.conv import ConvGenerator
from sfumato.networks.cosine import CosineGaussian
from sfumato.networks.dcgan import DCGANGenerator
from sfumato.networks.deconv import DeconvGenerator
from sfumato.networks.diffusion import DiffusionGenerator
from sfumato.networks.flow import FlowGenerator
from sfumato.networks.generator import Generator
from sfumato.networks.image_set import ImageSet
from sfumato.networks.vae import VAEGenerator

__all__ = [
    "KINDS",
    "ConvGenerator",
    "CosineGaussian",
    "DCGANGenerator",
    "DeconvGenerator",
    "DiffusionGenerator",
    "ImageSet",
    "FlowGenerator",
    "Generator",
    "VAEGenerator",
    "kind_of",
    "load_generator",
]

# Where the generator of each kind in a release's config is; those of a single method live with it.
KINDS = {
    "coded": "sfumato.networks.coded:CodedGenerator",
    "conv": "sfumato.networks.conv:ConvGenerator",
    "cosine": "sfumato.networks.cosine:CosineGaussian",
    "dcgan": "sfumato.networks.dcgan:DCGANGenerator",
    "decoded": "sfumato.networks.decoded:DecodedGenerator",
    "deconv": "sfumato.networks.deconv:DeconvGenerator",
    "diffusion": "sfumato.networks.diffusion:DiffusionGenerator",
    "fixed": "sfumato.networks.image_set:ImageSet",
    "flow": "sfumato.networks.flow:FlowGenerator",
    "labelled": "sfumato.networks.labelled:LabelledGenerator",
    "latent-flow": "sfumato.networks.latent_flow:LatentFlow",
    "leaves": "sfumato.networks.leaves:LeavesGenerator",
    "mirror": "sfumato.methods.gan.dpaf.generator:MirrorGenerator",
    "vae": "sfumato.networks.vae:VAEGenerator",
    "vaes": "sfumato.networks.several_vaes:SeveralDecoders",
}


def kind_of(name: str) -> Callable[..., Generator]:
    """The class of generators of this kind, imported when it is asked for.

    >>> kind_of("conv").__name__
    'ConvGenerator'
    """
    if name not in KINDS:
        raise ValueError(f"Expected a generator kind of {', '.join(KINDS)}, found kind={name!r}.")
    module, cls = KINDS[name].split(":")
    kind: Callable[..., Generator] = getattr(import_module(module), cls)
    return kind


def load_generator(config: dict[str, Any], tensors: dict[str, Tensor], device: str = "cpu") -> Generator:
    """Rebuild a generator from its public configuration and weights."""
    settings = dict(config)
    generator = kind_of(settings.pop("kind", None))(**settings)
    generator.load_state_dict(tensors)
    return generator.to(device).eval()
