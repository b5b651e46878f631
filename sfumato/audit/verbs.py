"""Whole commands on neighbours: all that leaves one is compared, down to the bytes of the files that it writes.

`check` looks at a method. Around it stand `synthesize`, `train-classifier`, `tune --private` and `publish-accuracy`,
each with a flow of its own from the reservation to the documents. Here the flow itself runs, on made-up records and a
ledger that is thrown away, behind barriers that answer from one tape; nothing that it shows, writes or says may tell
the neighbours apart. Of a selection, the number of runs is private too.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from sfumato.accounting.budget import Budget
from sfumato.audit.checks.bit_equality import alike
from sfumato.audit.recording.recording_barrier import MICROBATCH, STEPS, Made, Told, far, listening, made_up, neighbours
from sfumato.audit.recording.subject import Finding
from sfumato.audit.report import Report
from sfumato.privacy.inside import Inside, Query
from sfumato.privacy.odometer import Odometer
from sfumato.run.progress import Recorder
from sfumato.run.run import Run
from sfumato.types import DataSpec, Images, Unit

SPEC = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))
COUNT = 12  # images in a release
UNITS = 24
HIDDEN = ("questions", "odometers")  # what nobody sees of a selection
JUDGED = 60  # images by which a run of a selection is judged

Flow = Callable[[Any, Run, Path], Any]


def check_synthesize(
    method: Any,
    *,
    spec: DataSpec | None = None,
    budget: Budget | None = None,
    level: int = 0,
    seed: int = 0,
    public: Any = None,
    plan: Any = None,
) -> Report:
    """The whole of `synthesize`, on neighbours; `plan` is the one that would be made, where it is known."""
    from sfumato import api

    spec, budget = spec or SPEC, budget or Budget(4.0, unit=(spec or SPEC).unit)
    method = method.small()

    def flow(box: Any, run: Run, place: Path) -> Any:
        return api.synthesize(
            method, box, budget, run, count=COUNT, public=public, out=place / "release", ledger=place / "ledger"
        ).images.pixels

    with _planned(plan):
        return Report("synthesize", (*compared("synthesize", flow, spec, seed),))


def check_classifier(
    classifier: Any,
    *,
    spec: DataSpec | None = None,
    budget: Budget | None = None,
    level: int = 0,
    seed: int = 0,
    plan: Any = None,
) -> Report:
    """The whole of `train-classifier`, on neighbours; the training itself is audited by `check`."""
    from sfumato.classify.train import train_classifier

    spec, budget = spec or SPEC, budget or Budget(4.0, unit=(spec or SPEC).unit)

    def flow(box: Any, run: Run, place: Path) -> Any:
        made = train_classifier(classifier, box, budget, run, out=place / "classifier", ledger=place / "ledger")
        return made.statement

    with _planned(plan):
        return Report("train-classifier", (*compared("train-classifier", flow, spec, seed),))


def check_tune(
    method: Any,
    *,
    spec: DataSpec | None = None,
    budget: Budget | None = None,
    level: int = 0,
    seed: int = 0,
    plan: Any = None,
) -> Report:
    """The whole of `tune --private`, on neighbours and with another number of runs; its score query like a method's."""
    from sfumato.accounting.selection import Runs
    from sfumato.flow.tune import SCORE, plan_selection, tune_private

    spec, budget = spec or SPEC, budget or Budget(4.0, unit=(spec or SPEC).unit)
    method = method.small()
    runs = Runs(2.0, 1.0)

    def flow(box: Any, run: Run, place: Path) -> Any:
        with patch("sfumato.flow.tune.JUDGED", JUDGED):
            found = tune_private(
                [method], box, budget, runs, run, out=place / "r", count=COUNT, ledger=place / "ledger"
            )
        return found.images.pixels

    plan = plan_selection([method], spec, budget, runs)[0]
    with patch("sfumato.flow.tune.plan_selection", lambda *_: [plan]):
        rows = [*compared("tune --private", flow, spec, seed, counts=(3, 1)), _chosen(SCORE, flow, spec, seed)]
    return Report("tune --private", (*rows, *_asked(plan, SCORE, method, seed)))


def check_publish(
    method: Any = None, *, spec: DataSpec | None = None, budget: Budget | None = None, level: int = 0, seed: int = 0
) -> Report:
    """The whole of `publish-accuracy`, on neighbouring test sets; its question like a method's."""
    from sfumato import DPMERF, api
    from sfumato.evaluate.publish import CROSSING, _plan, publish_accuracy
    from sfumato.evaluate.stacked import Schedule

    spec, budget = spec or SPEC, budget or Budget(4.0, unit=(spec or SPEC).unit)
    made = made_up(replace(spec, unit=Unit.RECORD), np.random.default_rng(seed + 1), UNITS)
    whole = replace(spec, unit=Unit.RECORD, public=True)
    release = api.synthesize(DPMERF(features=20, steps=2), made.box(whole), Budget(8.0), Run(device="cpu"), count=COUNT)
    with tempfile.TemporaryDirectory() as folder:
        source = release.save(Path(folder) / "release")

        def flow(box: Any, run: Run, place: Path) -> Any:
            found = publish_accuracy(
                source,
                None,
                budget.epsilon,
                place / "accuracy",
                test=box,
                delta=budget.delta,
                seed=seed,
                device="cpu",
                relation=str(budget.relation),
                ledger=place / "ledger",
                recipe=Schedule(steps=2),
                progress=run.progress,
            )
            return {key: value for key, value in found.items() if key != "out"}

        rows = list(compared("publish-accuracy", flow, spec, seed))
        rows += _crossed(_plan(spec, budget, source, seed), CROSSING, flow, seed)
    return Report("publish-accuracy", tuple(rows))


@contextmanager
def _planned(plan: Any) -> Iterator[None]:
    """A flow that is given its plan: making one takes longer than all the rest."""
    with ExitStack() as stack:
        if plan is not None:
            stack.enter_context(patch("sfumato.api.make_plan", lambda *_: plan))
        yield


def compared(verb: str, flow: Flow, spec: DataSpec, seed: int, counts: tuple[int, ...] = (1,)) -> Iterator[Finding]:
    """A flow on neighbours, and with other numbers of hidden runs, under one tape."""
    made = made_up(spec, np.random.default_rng(seed), UNITS)
    usual = _left(flow, made, spec, seed, counts[0])
    if "error" in usual:
        yield Finding(f"{verb}: flow", 0, False, f"it ended with {usual['error']}"[:300])
        return
    if usual["odometers"] != counts[0]:
        said = f"{usual['odometers']} runs were made under one reservation that is for {counts[0]}"
        yield Finding(f"{verb}: flow", 0, False, said)
    others = [(f"one unit {kind}", other) for kind, _, other in neighbours(made, spec, seed)]
    others.append(("all records white and of one class", far(made)))
    for kind, other in others:
        again = _left(flow, other, spec, seed, counts[0])
        differing = [what for what in usual.keys() | again.keys() if not alike(usual.get(what), again.get(what))]
        said = f"with {kind}, under one tape, this differs: {', '.join(sorted(differing))}"
        yield Finding(f"{verb}: flow", 0, not differing, said if differing else f"with {kind} nothing else leaves")
    if len(counts) > 1:
        yield _hidden(verb, flow, made, spec, seed, counts)


def _chosen(score: str, flow: Flow, spec: DataSpec, seed: int, count: int = 3) -> Finding:
    """It is the released score that decides: where it speaks for another run, another one is released."""
    made = made_up(spec, np.random.default_rng(seed), UNITS)
    found = []
    for number in (1, count):
        with patch.dict(_FAVOUR, {score: number}):
            found.append(_left(flow, made, spec, seed, count).get("result"))
    ok = not alike(*found)
    said = (
        "the run that the released score speaks for is taken"
        if ok
        else "another number than the released score decides"
    )
    return Finding("tune --private: choice", 0, ok, said)


def _hidden(verb: str, flow: Flow, made: Made, spec: DataSpec, seed: int, counts: tuple[int, ...]) -> Finding:
    """The number of hidden runs does not show, where all of them have the same answers."""
    one, two = (_left(flow, made, spec, seed, count, alike_runs=True) for count in counts)
    differing = [w for w in one.keys() | two.keys() if w not in HIDDEN and not alike(one.get(w), two.get(w))]
    said = f"with {counts[1]} hidden runs in place of {counts[0]} this differs: {', '.join(sorted(differing))}"
    return Finding(f"{verb}: hidden runs", 0, not differing, said if differing else "their number does not show")


def _left(flow: Flow, made: Made, spec: DataSpec, seed: int, count: int, alike_runs: bool = False) -> dict[str, Any]:
    """All that leaves one run of a flow: what it returns, shows, says and writes; and what it asks."""
    with tempfile.TemporaryDirectory() as folder, on_tape(made, count, alike_runs), listening() as heard:
        place = Path(folder)
        left = {}
        run = Run(device="cpu", seed=seed, microbatch=MICROBATCH, progress=Recorder(), most=STEPS)
        try:
            left["result"] = flow(made.box(spec), run, place)
        except Exception as error:
            left["error"] = f"{type(error).__name__}: {error}".replace(folder, "")
        left["progress"] = run.progress.lines  # type: ignore[attr-defined]
        left |= {"questions": [name for name, _ in _HEARD], "odometers": len(_ODOMETERS)}
        left |= {f"file {p.relative_to(place)}": _content(p) for p in _written(place)}
    return left | {what: said.replace(folder, "") if isinstance(said, str) else said for what, said in heard.items()}


def _written(place: Path) -> list[Path]:
    """What is published: not the ledger; hashes follow from the rest."""
    return sorted(p for p in place.rglob("*") if p.is_file() and p.name not in ("ledger", "hashes.json"))


def _content(path: Path) -> Any:
    """The bytes; of tensors, whose writer has no order for its metadata, the header apart."""
    data = path.read_bytes()
    if path.suffix != ".safetensors":
        return data
    end = 8 + int.from_bytes(data[:8], "little")
    return json.dumps(json.loads(data[8:end]), sort_keys=True), data[end:]


class Taped:
    """Behind a barrier: a real one that works for nothing, and answers that come from the tape alone."""

    def __init__(
        self, names: np.ndarray, alike_runs: bool, data: Any, spec: DataSpec, odometer: Odometer, **how: Any
    ) -> None:
        self.spec = spec
        self.odometer = odometer
        if not any(one is odometer for one in _ODOMETERS):
            _ODOMETERS.append(odometer)
        self._number = 0 if alike_runs else len(_ODOMETERS)
        self._real = Inside(data, spec, odometer, **how | {"heard": self._hear})
        units = self._real.sums.units  # other data than the made-up ones are known by their order
        self._real._lot = Told(names if units == len(names) else np.arange(units))
        self.noise = self._real.noise
        self.sums = self._real.sums
        self.exact = []
        self.hold = self._real.hold
        self.train = self._real.train

    def _hear(self, name: str, total: torch.Tensor) -> None:
        _HEARD.append((name, total.detach().clone()))

    def release(self, name: str, query: Query, *public: Any) -> torch.Tensor:
        """As the real one does, but for the answer."""
        answer = self._real.release(name, query, *public)
        crossing = self.odometer.plan.crossings[name]
        random = np.random.default_rng([self._number, self.odometer.used[name], *name.encode()])
        told = torch.from_numpy(random.normal(0.0, crossing.mechanism.std(crossing.bound), answer.shape)).to(answer)
        if name in _FAVOUR:
            told = told.abs() * (1 if self._number == _FAVOUR[name] else -1) * torch.tensor([1, -1]).to(told)
        told = torch.round(told / crossing.bound.grid) * crossing.bound.grid
        self.odometer.answered(name, told)
        return told


_HEARD: list[tuple[str, torch.Tensor]] = []  # exact sums of the last flow
_ODOMETERS: list[Odometer] = []  # and the odometers of its runs
_FAVOUR: dict[str, int] = {}  # the run that a score speaks for


@contextmanager
def on_tape(made: Made, count: int = 1, alike_runs: bool = False) -> Iterator[None]:
    """Barriers answer from one tape; secret draws of a selection are fixed; nothing is audited or rehearsed again."""
    from sfumato.api import passed

    names = made.units

    def behind(data: Any, spec: DataSpec, odometer: Odometer, **how: Any) -> Taped:
        return Taped(names, alike_runs, data, spec, odometer, **how)

    nothing = {"return_value": None}
    audited = {"return_value": passed("cpu")}
    _HEARD.clear()
    _ODOMETERS.clear()
    with ExitStack() as stack, tempfile.TemporaryDirectory() as runs:
        for what, how in {
            "sfumato.privacy.barrier.Inside": {"new": behind},
            "sfumato.api.audit_first": audited,
            "sfumato.flow.tune.audit_first": audited,
            "sfumato.api.rehearsed": nothing,
            "sfumato.classify.train.rehearsed": nothing,
            "sfumato.flow.tune._rehearsed": nothing,
            "sfumato.evaluate.publish._rehearsed": nothing,
            "sfumato.run.run.Run.finished": nothing,
            "sfumato.privacy.secret_choices.draw_count": {"return_value": count},
            "sfumato.privacy.secret_choices.draw_index": {"return_value": 0},
        }.items():
            stack.enter_context(patch(what, **how))  # type: ignore[call-overload]
        stack.enter_context(patch.dict(os.environ, {"SFUMATO_RUNS": runs}))
        yield


def _asked(plan: Any, name: str, method: Any, seed: int) -> list[Finding]:
    """The question by which a run of a selection is judged, like any other question of a method."""
    from sfumato.audit.check import questioned
    from sfumato.flow.tune import _score

    images = made_up(replace(plan.data, unit=Unit.RECORD), np.random.default_rng(seed + 2), JUDGED)
    return questioned(name, _score(Images(images.images, images.labels, plan.data.classes)), plan, seed)


def _crossed(plan: Any, name: str, flow: Flow, seed: int) -> list[Finding]:
    """The sums behind the one answer of a flow, on neighbours, against what is declared."""
    spec = plan.data
    found = []
    made = made_up(spec, np.random.default_rng(seed), UNITS)
    _left(flow, made, spec, seed, 1)
    usual = [total for asked, total in _HEARD if asked == name]
    for kind, relation, other in neighbours(made, spec, seed):
        _left(flow, other, spec, seed, 1)
        again = [total for asked, total in _HEARD if asked == name]
        gaps = [float((a - b).norm()) for a, b in zip(usual, again, strict=False)]
        moved = max(gaps, default=0.0)
        declared = plan.crossings[name].event(relation).sensitivity
        ok = len(usual) == len(again) == plan.crossings[name].times and moved <= declared * (1 + 1e-9)
        ok = ok and all(odometer.plan.crossings[name] == plan.crossings[name] for odometer in _ODOMETERS)
        said = f"one unit {kind} moved {len(again)} sums by up to {moved:.4g}; declared {declared:.4g}, once"
        found.append(Finding(f"{name}: sums along a run", 0, ok, said))
    return found
