"""The command that runs DPAF as its paper prints it: a folder with a stamp, which nothing takes for a release.

`--set without=noise,clipping` leaves ingredients out, to see what they do. It is no setting of the method: nothing but
this command, which makes no release, knows it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.flow.request import Request
    from sfumato.methods.gan.dpaf.dpaf import DPAF
    from sfumato.methods.gan.dpaf.printed import Ingredients, Printed
    from sfumato.run.progress import Silent
    from sfumato.types import DataSpec

FORMAT = "sfumato-not-private/1"
WITHOUT = "without"
IMAGES = "not-private.npz"


def as_printed(request: Request, progress: Silent | None = None) -> dict[str, Any]:
    """Carry out the printed procedure as requested and write its images beside their stamp; what was written.

    The set must be public: a named benchmark set, or any set whose owner declares so by `request.provenance`.
    """
    from sfumato.flow.make import check_out, make_budget, make_method
    from sfumato.methods.gan.dpaf.dpaf import DPAF
    from sfumato.methods.gan.dpaf.printed import Ingredients

    make_budget(request.epsilon, request.delta)
    left_out = request.settings.get(WITHOUT, "")
    settings = {name: text for name, text in request.settings.items() if name != WITHOUT}
    method = make_method(request.method, settings)
    if not isinstance(method, DPAF):
        raise InputError(f"Expected --method dpaf for --unsound, found '{request.method}': no other is kept unsound.")
    ingredients = Ingredients.without(left_out)
    check_out(request.out, request.count, "png")
    made, spec, provenance = _carry_out(request, method, ingredients, progress)
    facts = {
        "format": FORMAT,
        "stamp": made.stamp,
        "method": "dpaf as printed",
        "data": {"name": spec.name, "records": spec.records, "provenance": provenance},
        "asked": {"epsilon": request.epsilon, "delta": request.delta} if made.paper else None,
        "claim": made.paper,
        "without": left_out,
        "settings": method.settings(),
        "classes": list(spec.classes),
        "images": len(made.images),
    }
    _write(Path(request.out), made, facts)
    return facts | {"out": str(Path(request.out).absolute())}


def _carry_out(
    request: Request, method: DPAF, ingredients: Ingredients, progress: Silent | None
) -> tuple[Printed, DataSpec, str]:
    from sfumato.data import load_public
    from sfumato.data.loading import find_source
    from sfumato.data.source import Options
    from sfumato.methods.gan.dpaf.printed import STAMP, printed, split_of
    from sfumato.run.progress import Silent
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

    epsilons = split_of(method, request.epsilon)
    run = Run(device=request.device, seed=request.seed, progress=progress or Silent())
    source = find_source(request.data, Options(request.split, request.label))
    if not (source.public or request.provenance):
        raise InputError(
            f"Expected a set that is declared public for --unsound, found {source.name}: {STAMP}; name a benchmark "
            "set, or say where public images are from with --provenance TEXT."
        )
    provenance = request.provenance or f"the public set {source.name}"
    public = load_public(
        request.data, provenance, size=request.size, grey=request.grey, split=request.split, label=request.label
    )
    pixels = public.images.pixels
    spec = DataSpec(source.name, len(pixels), pixels.shape[1:], public.images.classes, public=True)
    how: dict[str, Any] = {"delta": request.delta, "count": request.count, "ingredients": ingredients}
    with run.interruptible():
        made = printed(method, public, spec, run, epsilons=epsilons, **how)
    return made, spec, public.provenance


def _write(folder: Path, made: Printed, facts: dict[str, Any]) -> None:
    """The stamp first: whatever else is in the folder, it is marked."""
    import numpy as np

    from sfumato.release.files.reading import MARK

    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text(json.dumps(facts, indent=2) + "\n")
    np.savez_compressed(folder / IMAGES, images=made.images.pixels, labels=made.images.labels, stamp=made.stamp)
