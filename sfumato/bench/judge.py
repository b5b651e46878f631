"""Judges of synthetic images: the CNN of the papers, the official evaluation of DataLens, scores and distances."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.types import Images

COUNT = 60_000  # synthetic images that the classifier learns from
NAMED = "a named public set"


@cache
def public_images(data: str, split: str, size: int | None) -> Any:
    """A public set, read once."""
    from sfumato.data import load_public

    return load_public(data, NAMED, split=split, size=size)


def drawn(count: int, official: bool) -> int:
    """How many images a release needs: the official evaluation learns from 100,000."""
    from sfumato.evaluate.official import IMAGES

    return max(count, IMAGES) if official else count


def accuracies(
    images: Images,
    data: str,
    *,
    seed: int,
    device: str,
    size: int | None = None,
    count: int = COUNT,
    official: bool = False,
) -> dict[str, float]:
    """The CNN of the papers on real test images: last step of the fixed schedule, best of eight test evaluations.

    With `official` also the evaluation of DataLens' code: best of 600 test epochs, and the last of them.
    """
    from sfumato.evaluate import stacked
    from sfumato.run.run import pick_device

    test = public_images(data, "test", size).images
    device = pick_device(device)
    start = time.perf_counter()
    some = slice(None, None, max(1, len(images) // count))  # evenly, whatever the order of the classes
    trained = stacked.train(
        "cnn",
        images.pixels[some][:count],
        images.labels[some][:count],
        test.pixels,
        test.labels,
        classes=len(images.classes),
        seeds=[seed],
        device=device,
    )
    found = {"fixed": float(trained.accuracies[0, -1]), "paper": float(trained.accuracies[0].max())}
    found["classifier_s"] = time.perf_counter() - start
    return found | (officially(images, test, seed, device) if official else {})


def officially(images: Images, test: Images, seed: int, device: str) -> dict[str, float]:
    """The official evaluation of DataLens."""
    from sfumato.evaluate.official import official

    epochs = official(
        images.pixels,
        images.labels,
        test.pixels,
        test.labels,
        classes=len(images.classes),
        seed=seed,
        device=device,
    )
    return {"official": float(epochs.max()), "official_last": float(epochs[-1])}


def qualities(images: Images, data: str, *, seed: int, device: str, size: int | None = None) -> dict[str, float]:
    """Inception score by a CNN trained on the real set, and Frechet distances in the feature spaces that are here."""
    from sfumato.evaluate.features import predicted
    from sfumato.evaluate.fidelity import fidelity, inception_score
    from sfumato.run.run import pick_device

    device = pick_device(device)
    test = public_images(data, "test", size).images
    found = {"inception-score": inception_score(predicted(_judge(data, size, device), images.pixels, device)).mean}
    limit = min(len(test), len(images))
    for space, name in (("inception", "fid"), ("efficientnet-lite0", "fid/efficientnet-lite0")):
        try:
            measures = fidelity(
                test.pixels, None, images.pixels[:limit], None, features=(space,), seed=seed, limit=limit, device=device
            )
        except InputError:  # the weights of that network are not here
            continue
        found[name] = measures[f"fid/{space}"].mean
    return found


@cache
def _judge(data: str, size: int | None, device: str) -> Any:
    """The CNN trained on real images."""
    from sfumato.evaluate import stacked
    from sfumato.evaluate.networks import judge

    real, test = (public_images(data, split, size).images for split in ("train", "test"))
    kept = stacked.train(
        "cnn",
        real.pixels,
        real.labels,
        test.pixels,
        test.labels,
        classes=len(real.classes),
        seeds=[0],
        device=device,
        looks=1,
    )
    assert kept.network is not None
    return judge(kept.network, "cnn", real.pixels.shape[1:], len(real.classes), 0, 1)
