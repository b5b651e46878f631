"""A classifier as a command line asks for it, and as a resumed run reads it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.api import make_budget
from sfumato.classify.classifier import Classifier
from sfumato.classify.release import TrainedClassifier
from sfumato.classify.train import accuracy, plan_for, saved_before, train_classifier
from sfumato.errors import InputError
from sfumato.flow.request import Request, absolute, shown
from sfumato.methods.settings import parse

if TYPE_CHECKING:
    from sfumato.data.private import PrivateImages
    from sfumato.data.public import PublicImages
    from sfumato.run.progress import Silent


def make_classifier(settings: Mapping[str, str] | None = None) -> Classifier:
    """A classifier from `--set field=value` settings as text.

    >>> make_classifier({"network": "cnn", "k": "0.8"}).k
    0.8
    """
    try:
        return Classifier(**parse(Classifier, settings or {}))
    except ValueError as error:
        raise InputError(str(error)) from error


def carry_out(
    request: Request, test: PublicImages | None = None, progress: Silent | None = None
) -> tuple[TrainedClassifier, float | None]:
    """Train as requested; a stopped run can be taken up by `resume`. With `test`, the accuracy there too."""
    from sfumato.ledger.job import Job, unless_refused

    _check(request)
    with request.load(shown(progress)) as box:
        plan_for(make_classifier(request.settings), box.spec, _budget(request, box))
        _agree(box, test)
        ledger, sign = (str(Path(p).absolute()) if p else None for p in (request.ledger, request.sign))
        places = {"data": absolute(request.data), "ledger": ledger, "out": str(Path(request.out).absolute())}
        kept = asdict(request) | places | {"sign": sign}
        with unless_refused(Job.create(kept, ledger)) as job:
            made = _go(Request(**kept), box, job, progress)
    return made, None if test is None else accuracy(made, test)


def resume(
    run: str, test: PublicImages | None = None, progress: Silent | None = None
) -> tuple[Request, TrainedClassifier, float | None]:
    """Take up a stopped run where its checkpoint stands, under the same reservation."""
    from sfumato.ledger.job import Job

    job = Job.find(run)
    try:
        kept = job.manifest["request"] or {}
        if set(kept) != {f.name for f in fields(Request)} or kept["method"] != Classifier.name:
            raise InputError(f"The run {run} is not one of `sfumato train-classifier`, or of another version of it.")
        request = Request(**kept)
        with request.load(shown(progress)) as box:
            _agree(box, test)
            made = _go(request, box, job, progress)
        return request, made, None if test is None else accuracy(made, test)
    finally:
        job.close()


def read_test(test: str | None, provenance: str | None, split: str, **options: Any) -> PublicImages | None:
    """Test images that may be looked at: a named public set, or one that somebody declares public.

    Accuracy on private images is as private as they are, so that a private test set is refused.
    """
    from sfumato.data import load, load_public

    if test is None:
        return None
    try:
        with load(test, split=split, **options) as box:
            public = box.spec.public
    except InputError as error:
        raise InputError(str(error).replace("--split", "--test-split")) from error
    if not public and provenance is None:
        raise InputError(
            "The accuracy on a private test set would leak from it; say with --provenance TEXT where "
            "public test images are from, or leave out --test."
        )
    return load_public(test, provenance or "a named public set", split=split, **options)


def _agree(box: PrivateImages, test: PublicImages | None) -> None:
    """Refuse test images of another shape before anything is spent."""
    if test is not None and test.images.pixels.shape[1:] != box.spec.shape:
        found, wanted = ("x".join(map(str, s)) for s in (test.images.pixels.shape[1:], box.spec.shape))
        raise InputError(f"Expected test images of {wanted}, found {found}; choose --size and --grey for both.")


def _go(request: Request, box: PrivateImages, job: Any, progress: Silent | None) -> TrainedClassifier:
    from sfumato.run.progress import Silent
    from sfumato.run.run import Run

    if (made := saved_before(job, Path(request.out), box, request.ledger)) is not None:
        return made
    run = Run(device=request.device, seed=request.seed, microbatch=request.microbatch, progress=progress or Silent())
    return train_classifier(
        make_classifier(request.settings),
        box,
        _budget(request, box),
        run,
        out=request.out,
        ledger=request.ledger,
        job=job,
        command=command(request),
        key=request.sign,
        signer=request.signer,
    )


def _budget(request: Request, box: PrivateImages) -> Any:
    return make_budget(request.epsilon, request.delta, request.relation, box.spec.unit)


def command(request: Request) -> str:
    """A public line that asks for the same classifier; local paths are left out."""
    return request.command("train-classifier")


def _check(request: Request) -> None:
    """All that can be refused without reading the data is refused first."""
    from sfumato.release.files.bundle import ensure_free
    from sfumato.release.files.sign import check_signer, read_key
    from sfumato.run.run import pick_device

    make_budget(request.epsilon, request.delta, request.relation, request.unit)
    make_classifier(request.settings)
    ensure_free(request.out)
    pick_device(request.device)
    if request.sign is not None:
        read_key(request.sign)
        check_signer(request.signer)
    elif request.signer is not None:
        raise InputError("A signer needs a key; add --sign FILE, made by `sfumato keygen FILE`.")
