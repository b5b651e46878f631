"""How much an evaluation does: a quick look, what a processor does in some minutes, or all of it.

An effort is a function of the device and of the public shape of the images alone, so that the same command does the
same on every machine of a kind. What it leaves out is said in sentences, with the way to get it. With a GPU all of it
takes minutes, and is the default.

Two cores train the CNN on images of 28 pixels at some 40 steps of 128 images a second; steps shrink as images grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato.errors import InputError
from sfumato.evaluate.attacks import KINDS
from sfumato.evaluate.utility import LOOKS, NETWORK_NAMES, ON_CPU

QUICK = "quick"
DEFAULT = "default"
FULL = "full"
EFFORTS = (QUICK, DEFAULT, FULL)
SLOW_ATTACKS = ("partial-black-box", "white-box")  # which search for every candidate
USUAL = 28 * 28  # pixels of an image that the steps are meant for
LEAST = 100  # steps of a network, however large the images


@dataclass(frozen=True)
class Effort:
    """What is done unless it is asked for by name."""

    name: str
    metrics: tuple[str, ...]
    classifiers: tuple[str, ...]
    seeds: int
    steps: int | None  # of every network; None for its whole schedule
    looks: int  # times that the test set is looked at on the way
    features: tuple[str, ...]
    attacks: tuple[str, ...]
    images: int | None  # synthetic ones that attacks see, of the release's own; None to draw new ones


def effort_of(name: str, device: str, shape: Sequence[int]) -> Effort:
    """The effort of this name for images of this shape (channels, height, width)."""
    if name not in EFFORTS:
        raise InputError(f"Expected an effort of {', '.join(EFFORTS)}, found '{name}'.")
    gpu = device.startswith("cuda")
    whole = Effort(
        FULL,
        ("utility", "fidelity", "attacks"),
        NETWORK_NAMES if gpu else ON_CPU,
        3,
        None,
        LOOKS,
        ("classifier", "efficientnet-lite0"),
        KINDS,
        None,
    )
    if name == FULL or (name == DEFAULT and gpu):
        return whole
    whole = replace(whole, images=10_000)
    larger = max(1.0, shape[1] * shape[2] / USUAL)
    if name == QUICK:
        steps = max(LEAST, round(300 / larger))
        return replace(
            whole, name=QUICK, metrics=("utility",), classifiers=("cnn", "logreg"), seeds=1, steps=steps, looks=1
        )
    bounded = tuple(kind for kind in KINDS if kind not in SLOW_ATTACKS)
    return replace(
        whole,
        name=DEFAULT,
        seeds=3 if larger < 2 else 1,
        steps=max(LEAST, round((800 if larger < 2 else 1600) / larger)),
        features=("classifier",),
        attacks=bounded,
    )


def left_out(done: Effort, device: str, shape: Sequence[int], asked: Sequence[str] = ()) -> list[str]:
    """What the whole evaluation has and this one has not, in sentences; what was `asked` for by name is no gap."""
    whole = effort_of(FULL, device, shape)
    if done.name == FULL:
        return []
    missing = [
        ("metrics", _without("not measured", done.metrics, whole.metrics)),
        ("classifiers", _without("classifiers not trained", done.classifiers, whole.classifiers)),
        ("seeds", "" if done.seeds >= whole.seeds else f"classifiers were trained {_times(done.seeds)}, not 3 times"),
        ("steps", "" if done.steps is None else f"networks were trained for {done.steps} steps, not for 2,000"),
        ("features", _without("feature spaces not used", done.features, whole.features)),
        ("attacks", _without("attacks not tried", done.attacks, whole.attacks)),
        ("images", "" if done.images is None else "attacks saw the release's own images, and drew no new ones"),
    ]
    of = {"features": "fidelity", "attacks": "attacks", "images": "attacks"}
    told = [text for name, text in missing if text and name not in asked and of.get(name, "utility") in done.metrics]
    return [*told, "Add --full for all of it."] if told else []


def _without(words: str, done: Sequence[str], whole: Sequence[str]) -> str:
    rest = [name for name in whole if name not in done]
    return f"{words}: {', '.join(rest)}" if rest else ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
