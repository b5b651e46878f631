"""A local diffusion pipeline as the API of Private Evolution. The package `diffusers` is imported only here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.errors import InputError

# pixels that the pipeline is shown, and images at once
SIZE = 512
CHUNK = 16

_FOLDERS: dict[str, str] = {}


def bring(folder: str) -> str:
    """The name that the pipeline in a folder goes by in settings, which are published: without the way to it."""
    if folder in _FOLDERS or not folder:
        return folder
    if not Path(folder).is_dir():
        raise InputError(f"Expected pipeline as a folder of a diffusers pipeline, found pipeline={Path(folder).name}.")
    name = Path(folder).resolve().name
    _FOLDERS[name] = folder
    return name


class DiffusionPipeline:
    """Text to image for the first population, image to image for variations; prompts are made of class names.

    The folder is read, never fetched. Whether its model saw the private images in training is for the user to know.
    """

    def __init__(
        self, name: str, shape: tuple[int, int, int], classes: Sequence[str], prompt: str, device: str, steps: int
    ) -> None:
        try:
            from diffusers import AutoPipelineForImage2Image, AutoPipelineForText2Image
        except ImportError as error:
            raise InputError("A pipeline needs the package diffusers: pip install diffusers transformers.") from error
        self.shape = shape
        self.steps = steps
        self.prompts = [prompt.replace("{}", name) for name in classes]
        self.text = AutoPipelineForText2Image.from_pretrained(_FOLDERS[name], local_files_only=True).to(device)
        self.image = AutoPipelineForImage2Image.from_pipe(self.text)

    def make(self, labels: Tensor, random: torch.Generator) -> Tensor:
        return self._all(self.text, labels, random)

    def vary(self, images: Tensor, labels: Tensor, strength: float, random: torch.Generator) -> Tensor:
        return self._all(self.image, labels, random, images, 0.2 + 0.6 * strength)

    def _all(
        self,
        pipeline: Any,
        labels: Tensor,
        random: torch.Generator,
        images: Tensor | None = None,
        strength: float | None = None,
    ) -> Tensor:
        made = []
        for rows in torch.arange(len(labels)).split(CHUNK):
            more: dict[str, Any] = {} if images is None else {"image": self._shown(images[rows]), "strength": strength}
            found = pipeline(
                prompt=[self.prompts[int(c)] for c in labels[rows]],
                num_inference_steps=self.steps,
                generator=random,
                output_type="np",
                **more,
            ).images
            made.append(self._taken(torch.from_numpy(np.asarray(found)).float().permute(0, 3, 1, 2)))
        return torch.cat(made)

    def _shown(self, images: Tensor) -> Tensor:
        colour = images.expand(-1, 3, -1, -1) if self.shape[0] == 1 else images
        return F.interpolate(colour, (SIZE, SIZE), mode="bilinear", align_corners=False)

    def _taken(self, images: Tensor) -> Tensor:
        small = F.interpolate(images, self.shape[1:], mode="bilinear", align_corners=False, antialias=True)
        return small.mean(1, keepdim=True) if self.shape[0] == 1 else small
