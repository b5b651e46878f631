"""Membership attacks on a release, each with what the guarantee allows at most.

They read the synthetic images, the generator, and real images of known membership. Their results describe private
data: they are internal unless the data are public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.evaluate.attacks.subject import Subject
    from sfumato.evaluate.features import Space

KINDS = (
    "full-black-box",
    "calibrated",
    "partial-black-box",
    "white-box",
    "logan",
    "domias",
    "reconstruction",
    "attribute",
)
SAMPLES = {"cuda": 100_000, "cpu": 20_000}  # synthetic images drawn
LIMIT = 1000  # candidates of each side
DEEP = {"cuda": 500, "cpu": 100}  # the same where every candidate needs a search of its own
SHIFT = "members and non-members are not a random split of one set: a difference between the sets counts as success"


def attacks(
    release: Any,
    members: Any,
    nonmembers: Any,
    *,
    kinds: Sequence[str] | None = None,
    reference: Any = None,
    reference_generator: Any = None,
    hidden: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    space: Space | None = None,
    samples: int | None = None,
    images: Any = None,
    limit: int = LIMIT,
    exchangeable: bool = True,
    device: str = "auto",
    seed: int = 0,
    progress: Any = None,
) -> dict[str, Any]:
    """Attack a release (or a bare generator) by all `kinds`, and say whether one does better than the guarantee allows.

    `members` were trained on, `nonmembers` were not; both are images with labels, or uint8 arrays. `reference` images
    are neither; without them half of the non-members serve. `space` is a public feature space for distances (pixels
    unless given). `images` are synthetic ones to look at; without them `samples` are drawn anew. `hidden` is for
    `attribute.attack`. With `exchangeable=False` the result carries a warning.
    """
    from sfumato.evaluate.attacks import scores
    from sfumato.run.progress import Silent

    wanted = check_kinds(kinds or KINDS)
    progress = progress or Silent()
    subject = _subject(
        release, members, nonmembers, reference, reference_generator, samples, images, limit, device, seed
    )
    ceiling = scores.ceiling_of(getattr(release, "statement", None))
    verdicts: dict[str, Any] = {}
    progress.start("attacks", len(wanted))
    for done, kind in enumerate(wanted):
        progress.advance(done, kind)
        verdicts[kind] = _one(kind, subject, ceiling, space, hidden, len(wanted))
    above = [k for k, v in verdicts.items() if v["verdict"] == scores.ABOVE]
    return {
        "attacks": verdicts,
        "ceiling": ceiling and ceiling.to_json(),
        "verdict": scores.ABOVE if above else (scores.BELOW if ceiling else "no guarantee to compare with"),
        "above": above,
        "samples": len(subject.synthetic),
        "reference": len(subject.reference),
        "warning": "" if exchangeable else SHIFT,
    }


def check_kinds(kinds: Sequence[str]) -> list[str]:
    """The kinds of attack, each known and once."""
    wanted = list(dict.fromkeys(kinds))
    if odd := [k for k in wanted if k not in KINDS]:
        raise InputError(f"Expected attacks of {', '.join(KINDS)}, found '{odd[0]}'.")
    return wanted


def _subject(
    release: Any,
    members: Any,
    nonmembers: Any,
    reference: Any,
    reference_generator: Any,
    samples: int | None,
    images: Any,
    limit: int,
    device: str,
    seed: int,
) -> Subject:
    from sfumato.evaluate.attacks.subject import Subject, batch, draw
    from sfumato.run.run import pick_device

    device = pick_device(device)
    random = np.random.default_rng(seed)
    ins = batch(members)
    outs = batch(nonmembers)
    if min(len(ins), len(outs)) < 8:
        raise InputError(f"Expected at least 8 members and 8 non-members, found {len(ins)} and {len(outs)}.")
    outs = outs[random.permutation(len(outs))]
    half = len(outs) // 2
    known = batch(reference) if reference is not None else outs[:half]
    outs = outs if reference is not None else outs[half:]
    generator = getattr(release, "generator", release)
    if images is None:
        images = generator.sample(samples or SAMPLES["cuda" if device.startswith("cuda") else "cpu"], seed=seed)
    return Subject(
        generator,
        batch(images),
        draw(ins, limit, random),
        draw(outs, limit, random),
        known,
        reference_generator,
        device,
        seed,
    )


def _one(kind: str, subject: Subject, ceiling: Any, space: Space | None, hidden: Any, count: int) -> dict[str, Any]:
    """One attack: its scores, assessed."""
    from sfumato.evaluate.attacks.scores import assess

    scores = _RUN[kind](subject, space, hidden)
    if isinstance(scores, str):
        return {"verdict": "does not apply", "note": scores}
    members, others, more = scores
    note = more.pop("note", "")
    return assess(members, others, ceiling, seed=subject.seed, attacks=count, note=note) | more


Scores = tuple[np.ndarray, np.ndarray, dict[str, Any]]


def _full(subject: Subject, space: Space | None, hidden: Any) -> Scores:
    from sfumato.evaluate.attacks.ganleaks import black_box

    one, two = (black_box(c, subject.synthetic, space, subject.device) for c in (subject.members, subject.others))
    return one, two, {}


def _calibrated(subject: Subject, space: Space | None, hidden: Any) -> Scores:
    from sfumato.evaluate.attacks.ganleaks import calibrated

    one, two, note = calibrated(subject, space)
    return one, two, {"note": note}


def _latent(find: str) -> Callable[..., Scores | str]:
    def run(subject: Subject, space: Space | None, hidden: Any) -> Scores | str:
        from sfumato.evaluate.attacks import ganleaks

        if not subject.differentiable:
            return "The generator cannot be run on chosen latents."
        most = DEEP["cuda" if subject.device.startswith("cuda") else "cpu"]
        one, two = (
            ganleaks.latent_scores(subject.generator, c[:most], getattr(ganleaks, find), subject.device, subject.seed)
            for c in (subject.members, subject.others)
        )
        return one, two, {}

    return run


def _logan(subject: Subject, space: Space | None, hidden: Any) -> Scores:
    from sfumato.evaluate.attacks import logan

    network = logan.train(subject.synthetic, subject.reference, device=subject.device, seed=subject.seed)
    one, two = (logan.score(network, c, subject.device) for c in (subject.members, subject.others))
    return one, two, {}


def _domias(subject: Subject, space: Space | None, hidden: Any) -> Scores:
    from sfumato.evaluate.attacks import domias

    one, two = domias.score(
        [subject.members, subject.others], subject.synthetic, subject.reference, space=space, device=subject.device
    )
    return one, two, {}


def _reconstruction(subject: Subject, space: Space | None, hidden: Any) -> Scores:
    from sfumato.evaluate.attacks import reconstruction

    one, two = reconstruction.ratios(subject, space)
    return -one, -two, reconstruction.summary(one, two)


def _attribute(subject: Subject, space: Space | None, hidden: Any) -> Scores | str:
    from sfumato.evaluate.attacks import attribute

    parts = subject.synthetic, subject.members, subject.others
    if hidden is None and not all(map(attribute.labelled, parts)):
        return "There is no attribute: the images have no labels, or a single one."
    return attribute.attack(subject, hidden, space)


_RUN: dict[str, Callable[..., Scores | str]] = {
    "full-black-box": _full,
    "calibrated": _calibrated,
    "partial-black-box": _latent("search"),
    "white-box": _latent("descend"),
    "logan": _logan,
    "domias": _domias,
    "reconstruction": _reconstruction,
    "attribute": _attribute,
}
