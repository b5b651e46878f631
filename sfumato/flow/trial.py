"""One run of a free sweep, as a worker carries it out: learn from public images, and judge what was made."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.data import load, load_public
from sfumato.data.named import SETS, is_named
from sfumato.errors import InputError
from sfumato.evaluate import stacked
from sfumato.flow.flow import carry_out
from sfumato.flow.make import fit_settings, labels_for, make_budget, make_method, make_plan
from sfumato.flow.synthesize import Synthesis
from sfumato.flow.tune import JUDGED, declared_public, judge
from sfumato.run.run import Run, pick_device
from sfumato.types import Images

HELD_OUT = 5  # every fifth record is learned from by no run
DONE, REFUSED = "done", "refused"


def carry_out_trial(task: Mapping[str, Any]) -> dict[str, Any]:
    """What came of a run, or why it was refused, which is a result too: it would be refused again."""
    with _without_ledger(Path(task["scratch"])):
        try:
            return {"state": DONE} | _measured(task["asked"])
        except InputError as error:
            return {"state": REFUSED, "why": str(error)}


def check_public(data: str) -> None:
    """Refuse data that are not public by their name: accuracies are shown without noise."""
    if not is_named(data) or not SETS[data.partition(":")[0]].public:
        raise InputError(
            f"{data} is private, and looking at it costs budget: sweep over named public sets, or write "
            "`private: yes` into the plan for one charged selection."
        )


@contextmanager
def _without_ledger(scratch: Path) -> Iterator[None]:
    """A worker holds no ledger: it finds none at the usual place, and its folders are thrown away."""
    places = {"SFUMATO_LEDGER": str(scratch / "none.sqlite"), "SFUMATO_RUNS": str(scratch / "runs")}
    before = {name: os.environ.get(name) for name in places}
    os.environ.update(places)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _measured(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The accuracy of a run, and what it took."""
    options = {name: asked[name] for name in ("size", "grey", "label")}
    train, test = _parts(asked["data"], asked["judge"], **options)
    budget = make_budget(asked["epsilon"], asked["delta"], asked["relation"])
    device = pick_device(asked["device"])
    start = time.perf_counter()
    with load(train) as box:
        free = declared_public(box)
        labels = labels_for(asked["labels"], free.spec, budget)
        method = make_method(asked["method"], asked["settings"], labels, free.spec.classes)
        method = fit_settings(method, free.spec, budget, device)
        task = Synthesis(method, make_plan(method, free.spec, budget), count=asked["count"] or JUDGED)
        release = carry_out(task, free, Run(device=device, seed=asked["seed"]))
    found = {"accuracy": _accuracy(asked, release.images, test, device), "spent": task.plan.epsilon()}
    return found | {"records": len(train), "tested": len(test), "seconds": round(time.perf_counter() - start, 3)}


@lru_cache(maxsize=2)
def _parts(data: str, judged: str, **options: Any) -> tuple[Images, Images]:
    """What runs learn from, and what they are judged on: a part of the training images, or the test set."""
    check_public(data)
    train = load_public(data, "a named public set", **options).images
    if judged == "test":
        return train, load_public(data, "a named public set", split="test", **options).images
    held = np.arange(len(train)) % HELD_OUT == HELD_OUT - 1  # whatever the order of the classes
    return train[~held], train[held]


def _evenly(many: int, most: int) -> np.ndarray:
    """At most so many of `many` places, evenly spread: images come class after class.

    >>> _evenly(10, 5).tolist(), _evenly(3, 5).tolist()
    ([0, 2, 4, 6, 8], [0, 1, 2])
    """
    return np.arange(min(many, most)) * many // min(many, most)


def _accuracy(asked: Mapping[str, Any], made: Images, test: Images, device: str) -> float:
    if asked["classifier"] == "linear":
        return judge(made[_evenly(len(made), JUDGED)]).accuracy(test)
    trained = stacked.train(
        "cnn",
        made.pixels,
        made.labels,
        test.pixels,
        test.labels,
        classes=len(made.classes),
        seeds=[asked["seed"]],
        device=device,
        looks=1,
    )
    return float(trained.accuracies[0, -1])
