"""Whether a public set keeps clear of a private one, and how far it lies from it. All of it is internal.

exact   an image whose decoded pixels are those of a private record
near    one whose 64 bits of slopes (dHash) differ from a record's in a few, and whose thumbnail goes with the record's
far     how much further a private image is from its nearest public image than from its nearest private one, among as
        many of each, in features that no data went into

An image that lies in both sets is not public: what is learned from it before the first crossing costs nothing and
hides nothing. How many there are depends on private records without noise, so it is for the custodian alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from sfumato.errors import InputError
from sfumato.evaluate.distances import nearest
from sfumato.evaluate.real import Fold, open_whole
from sfumato.networks.fixed_features import FixedFeatures

BITS = 8  # of a side of the hash
DIFFERENT = 4  # bits of 64 that a near duplicate may have otherwise
CANDIDATES = 3  # public images with the nearest hashes whose thumbnails are looked at
THUMBNAIL = 16  # pixels of a side
ALIKE = 0.95  # correlation of thumbnails from which on two images are near duplicates
LOOKED_AT = 1000  # private images whose neighbours are measured
POOL = 5000  # images among which a neighbour is looked for, of either set
FAR = 1.5  # times as far
CHUNK = 256
SHARED = (
    "{exact:,} of {records:,} private records lie in the public set, pixel for pixel; take them out of it: "
    "what is public may hold no record that is to be protected."
)
NEAR = "{near:,} more look much like a public image; compare the pairs below by eye before you call the set public."
APART = (
    "The public images are far from the private ones ({far:.2f} times as far as these from each other): "
    "what is learned from them first may not carry over."
)


def check_public(data: Any, public: Any, **options: Any) -> dict[str, Any]:
    """Hold a public set against private data; `options` are those of `load` for both, `split` and `label` of `data`.

    >>> found = check_public("digits", "digits")
    >>> found["exact"] == found["records"]
    True
    """
    shared = {name: options[name] for name in ("size", "grey") if name in options}
    private = open_whole(data, **options)
    other = open_whole(public, **shared)
    if private.pixels.shape[1:] != other.pixels.shape[1:]:
        shapes = ["x".join(map(str, fold.pixels.shape[1:])) for fold in (private, other)]
        raise InputError(f"Expected public images of {shapes[0]}, found {shapes[1]}; see --size and --grey.")
    exact = same(private, other)
    pairs = near_duplicates(private.pixels, other.pixels)
    new = {row: at for row, at in pairs.items() if not exact[row]}
    far = apart(private.pixels, other.pixels)
    found = {
        "records": len(private),
        "public_images": len(other),
        "exact": int(exact.sum()),
        "near": len(new),
        "pairs": [[row, at] for row, at in list(new.items())[:20]],
        "far": far,
    }
    return found | {"warnings": _warnings(found), "touches_private": not private.public}


def _warnings(found: dict[str, Any]) -> list[str]:
    told = [(found["exact"], SHARED), (found["near"], NEAR), (found["far"] is not None and found["far"] > FAR, APART)]
    return [sentence.format(**found) for true, sentence in told if true]


def same(private: Fold, public: Fold) -> np.ndarray:
    """Which private records are public images too: as they came, or once brought to one shape."""
    known = {row.tobytes() for row in public.digests} | {image.tobytes() for image in public.pixels}
    rows = zip(private.digests, private.pixels, strict=True)
    return np.array([digest.tobytes() in known or image.tobytes() in known for digest, image in rows], bool)


def near_duplicates(private: np.ndarray, public: np.ndarray) -> dict[int, int]:
    """Private rows that look like a public one, each with its row."""
    distances, places = nearest(hashes(private), hashes(public), min(CANDIDATES, len(public)))
    # Of signs, a bit that differs is a squared distance of four.
    rows, ranks = np.nonzero(distances**2 / 4 <= DIFFERENT + 0.5)
    alike = (thumbnails(private[rows]) * thumbnails(public[places[rows, ranks]])).sum(1) >= ALIKE
    return {int(row): int(places[row, rank]) for row, rank in zip(rows[alike], ranks[alike], strict=True)}


def hashes(pixels: np.ndarray) -> Tensor:
    """(n, 64) signs: whether it gets lighter from one of 8 x 9 parts of an image to the next."""
    parts = _shrunk(pixels, BITS, BITS + 1)
    return torch.where(parts.diff(dim=2) > 0, 1.0, -1.0).flatten(1)


def thumbnails(pixels: np.ndarray) -> Tensor:
    """(n, ...) of mean zero and length one, so that a product is a correlation; flat images are zero."""
    flat = _shrunk(pixels, THUMBNAIL, THUMBNAIL).flatten(1)
    centred = flat - flat.mean(1, keepdim=True)
    lengths: Tensor = centred.norm(dim=1, keepdim=True)
    return centred / lengths.clamp(min=1e-6)


def _shrunk(pixels: np.ndarray, height: int, width: int) -> Tensor:
    """(n, height, width) grey levels."""
    pieces = torch.from_numpy(pixels).split(CHUNK)
    return torch.cat([adaptive_avg_pool2d(piece.float().mean(1), (height, width)) for piece in pieces])


def apart(private: np.ndarray, public: np.ndarray) -> float | None:
    """How many times as far private images are from public ones as from each other; None of too few to say."""
    random = np.random.default_rng(0)
    size = min(POOL, len(public), len(private) - 1)
    if size < 10:
        return None
    rows = random.permutation(len(private))[: size + 1]
    ours = features(private[rows])
    theirs = features(public[random.permutation(len(public))[:size]])
    asked = ours[:LOOKED_AT]
    between = np.median(nearest(asked, theirs)[0])
    within = np.median(nearest(asked, ours, skip_self=True)[0])
    return float(between / max(within, 1e-12))


def features(pixels: np.ndarray) -> Tensor:
    """Fixed features of images, from constants alone."""
    net = FixedFeatures(pixels.shape[1:])
    with torch.no_grad():
        return torch.cat([net(piece.float() / 255).float() for piece in torch.from_numpy(pixels).split(CHUNK)])
