"""Feature spaces: each takes uint8 images (n, C, H, W) to float32 rows (n, dim), so that distances mean something.

    classifier           a network trained on the real data; numbers compare releases of one data set, nothing else
    efficientnet-lite0   a public network; FID-like, not comparable with published InceptionV3 numbers
    inception            InceptionV3 from a local file, with the preprocessing of pytorch-fid: comparable with it
    pixels               the image itself, in [0, 1]

Public networks want colour: grey images are repeated to three channels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn

CLASSIFIER = "a classifier trained on the real data, which may put noise among real images: precision alone misleads"
NAMES = ("classifier", "efficientnet-lite0", "inception", "pixels")


@dataclass(frozen=True, eq=False)
class Space:
    """A map from images to rows. `version` changes with the weights and the preprocessing; caches are keyed by it."""

    name: str
    dim: int
    version: str
    rows: Callable[[np.ndarray], np.ndarray]  # one batch
    batch: int = 256
    note: str = ""

    def __call__(self, images: np.ndarray, advance: Callable[[int], None] | None = None) -> np.ndarray:
        """float32 (n, dim), a batch at a time."""
        if images.dtype != np.uint8 or images.ndim != 4:
            raise ValueError(f"Expected uint8 images of four axes, found {images.dtype} of {images.ndim}.")
        features = np.empty((len(images), self.dim), dtype=np.float32)
        for start in range(0, len(images), self.batch):
            features[start : start + self.batch] = self.rows(images[start : start + self.batch])
            if advance is not None:
                advance(min(start + self.batch, len(images)))
        return features


def space(
    name: str,
    shape: tuple[int, int, int],
    *,
    classifier: nn.Module | None = None,
    weights: str | Path | None = None,
    device: str = "auto",
) -> Space:
    """The feature space of that name for images of `shape`; `classifier` is needed for the space of that name."""
    from sfumato.run.run import pick_device

    if name not in NAMES:
        raise InputError(f"Expected a feature space of {', '.join(NAMES)}, found '{name}'.")
    if name == "pixels":
        return pixels(shape)
    device = pick_device(device)
    if name == "classifier":
        if classifier is None:
            raise InputError("The feature space 'classifier' needs a classifier trained on real data.")
        return classifier_space(classifier, shape, device)
    return public_network(name, weights, device)


def pixels(shape: tuple[int, int, int]) -> Space:
    """The image itself, scaled to [0, 1]."""
    return Space("pixels", int(np.prod(shape)), "1", lambda x: x.reshape(len(x), -1).astype(np.float32) / 255, 4096)


def classifier_space(network: nn.Module, shape: tuple[int, int, int], device: str = "cpu") -> Space:
    """The layer before the last of a classifier with `features(x)` for x in [0, 1], such as `networks.Judge`."""
    network = network.to(device).eval()
    run = _runner(network.features, scaled, device)
    dim = run(np.zeros((2, *shape), dtype=np.uint8)).shape[1]
    return Space("classifier", dim, fingerprint(network), run, 512, CLASSIFIER)


def public_network(name: str, weights: str | Path | None = None, device: str = "cpu") -> Space:
    """A network trained on public images, from its weight file."""
    import torch

    from sfumato.networks.pretrained import efficientnet, inception

    network: efficientnet.EfficientNetLite0 | inception.InceptionV3
    if name == "inception":
        network = inception.load(weights)
        dim = 2048
        prepare = inception.prepare
        batch = 32
        note = "InceptionV3 as in pytorch-fid"
    else:
        network = efficientnet.load(weights)
        dim = 1280
        prepare = efficientnet.prepare
        batch = 64
        note = "FID-like: not comparable with published InceptionV3 numbers"
    ready = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    wide = batch * 8 if device.startswith("cuda") else batch
    return Space(name, dim, fingerprint(ready), _runner(ready.features, prepare, device, colour=True), wide, note)


def _runner(
    network: Any, prepare: Callable[[Tensor], Tensor], device: str, colour: bool = False
) -> Callable[[np.ndarray], np.ndarray]:
    import torch

    def run(images: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            x = torch.from_numpy(np.ascontiguousarray(images)).to(device)
            x = x.expand(-1, 3, -1, -1) if colour and x.shape[1] == 1 else x
            rows: np.ndarray = network(prepare(x)).flatten(1).float().cpu().numpy()
            return rows

    return run


def scaled(images: Tensor) -> Tensor:
    """uint8 -> [0, 1]."""
    return images.float() / 255


def predicted(network: nn.Module, images: np.ndarray, device: str = "auto", batch: int = 512) -> np.ndarray:
    """Class probabilities (n, classes) by a classifier that takes images in [0, 1] to logits."""
    from sfumato.run.run import pick_device

    device = pick_device(device)
    run = _runner(network.to(device).eval(), scaled, device)
    logits = np.concatenate([run(images[i : i + batch]) for i in range(0, len(images), batch)]).astype(np.float64)
    grown: np.ndarray = np.exp(logits - logits.max(1, keepdims=True))
    chances: np.ndarray = grown / grown.sum(1, keepdims=True)
    return chances


def fingerprint(network: nn.Module) -> str:
    """Twelve hex digits that change with any weight."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:12]


def check_names(names: Iterable[str]) -> list[str]:
    """The names, each known and once."""
    wanted = list(dict.fromkeys(names))
    if odd := [n for n in wanted if n not in NAMES]:
        raise InputError(f"Expected feature spaces of {', '.join(NAMES)}, found '{odd[0]}'.")
    return wanted
