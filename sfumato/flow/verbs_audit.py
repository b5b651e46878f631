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
from sfumato.accounting.selection import Runs
from sfumato.audit.check_method import level0, questioned
from sfumato.audit.checks.bit_equality import bit_equal
from sfumato.audit.recording.recording_barrier import (
    MICROBATCH,
    STEPS,
    MadeUp,
    Told,
    far,
    listening,
    made_up,
    neighbours,
)
from sfumato.audit.recording.subject import Finding
from sfumato.audit.report import Report
from sfumato.classify.classifier import Classifier
from sfumato.classify.method import NetworkTraining
from sfumato.data.private import PrivateImages
from sfumato.data.public import PublicImages
from sfumato.evaluate.stacked import Schedule
from sfumato.flow.approval import Approval
from sfumato.flow.first_audit import passed
from sfumato.flow.flow import carry_out
from sfumato.flow.make import make_plan
from sfumato.flow.publish import CROSSING, plan_accuracy, publish_accuracy
from sfumato.flow.synthesize import Synthesis
from sfumato.flow.train_classifier import Training, plan_training
from sfumato.flow.tune import SCORE, Selection, plan_selection, score
from sfumato.methods import Method
from sfumato.methods.embedding.dp_merf import DPMERF
from sfumato.privacy.inside import Inside, Query
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Plan
from sfumato.run.progress import Recorder
from sfumato.run.run import Run
from sfumato.types import DataSpec, Images, Unit

SPEC = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))
COUNT = 12  # images in a release
UNITS = 24
SIDE = 16  # of images that are audited
HIDDEN = ("questions", "odometers")  # what nobody sees of a selection
JUDGED = 60  # images by which a run of a selection is judged

MADE_UP = Approval(yes=True, force=True)  # of records that nobody would miss

Flow = Callable[[PrivateImages, Run, Path], Any]


def check_synthesize(
    method: Method,
    *,
    spec: DataSpec | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    public: PublicImages | None = None,
    plan: Plan | None = None,
) -> Report:
    """The whole of `synthesize`, on neighbours; `plan` is the one that would be made, where it is known."""
    spec = spec or SPEC
    small = method.small()
    plan = plan or make_plan(small, spec, budget or Budget(4.0, unit=spec.unit))

    def flow(box: PrivateImages, run: Run, place: Path) -> Any:
        task = Synthesis(small, plan, public, COUNT, place / "release")
        return carry_out(task, box, run, ledger=place / "ledger", approval=MADE_UP).images.pixels

    return Report("synthesize", (*compared("synthesize", flow, spec, seed),))


def check_classifier(
    classifier: NetworkTraining,
    *,
    spec: DataSpec | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    public: PublicImages | None = None,
    plan: Plan | None = None,
) -> Report:
    """The whole of `train-classifier`, on neighbours; the training itself is audited by `check`."""
    spec = spec or SPEC
    if not isinstance(classifier, Classifier):  # whose steps are few here, and of any size
        classifier = classifier.small()
    plan = plan or plan_training(classifier, spec, budget or Budget(4.0, unit=spec.unit))

    def flow(box: PrivateImages, run: Run, place: Path) -> Any:
        task = Training(classifier, plan, public, place / "classifier")
        return carry_out(task, box, run, ledger=place / "ledger", approval=MADE_UP).statement

    return Report("train-classifier", (*compared("train-classifier", flow, spec, seed),))


def check_tune(method: Method, *, spec: DataSpec | None = None, budget: Budget | None = None, seed: int = 0) -> Report:
    """The whole of `tune --private`, on neighbours and with another number of runs; its score query like a method's."""
    spec = spec or SPEC
    small = method.small()
    runs = Runs(2.0, 1.0)
    plan = plan_selection([small], spec, budget or Budget(4.0, unit=spec.unit), runs)[0]

    def flow(box: PrivateImages, run: Run, place: Path) -> Any:
        task = Selection(plan, ((small, plan),), runs, place / "r", COUNT)
        with patch("sfumato.flow.tune.JUDGED", JUDGED):
            return carry_out(task, box, run, ledger=place / "ledger", approval=MADE_UP).images.pixels

    rows = [*compared("tune --private", flow, spec, seed, counts=(3, 1)), _chosen(SCORE, flow, spec, seed)]
    return Report("tune --private", (*rows, *_asked(plan, seed)))


def check_publish(
    method: Method | None = None, *, spec: DataSpec | None = None, budget: Budget | None = None, seed: int = 0
) -> Report:
    """The whole of `publish-accuracy`, on neighbouring test sets, of a release by `method`."""
    spec = spec or SPEC
    budget = budget or Budget(4.0, unit=spec.unit)
    of_records = replace(spec, unit=Unit.RECORD, public=True)
    records = made_up(of_records, np.random.default_rng(seed + 1), UNITS)
    method = (method or DPMERF(features=20, steps=2)).small()
    task = Synthesis(method, make_plan(method, of_records, Budget(8.0)), count=COUNT)
    with on_tape(records):
        release = carry_out(task, records.box(of_records), Run(device="cpu"))
    with tempfile.TemporaryDirectory() as folder:
        source = release.save(Path(folder) / "release")

        def flow(box: PrivateImages, run: Run, place: Path) -> Any:
            facts = publish_accuracy(
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
                schedule=Schedule(steps=2),
                progress=run.progress,
            )
            return {key: value for key, value in facts.items() if key != "out"}

        rows = list(compared("publish-accuracy", flow, spec, seed))
        rows += _crossed(plan_accuracy(spec, budget, source, seed), CROSSING, flow, seed)
    return Report("publish-accuracy", tuple(rows))


def examined(method: Any, plan: Plan, public: PublicImages | None, verb: str, device: str) -> Report:
    """Level 0 of a method, and of the command around it; called by name from the process that audits."""
    small = looked_at(method, plan)
    cut = _cut(public, plan.data.shape, small.data.shape)
    inner = level0(method, small.data, small.budget, plan=small, public=cut, device=device)
    if inner.failed:
        return inner
    if verb == Synthesis.verb:
        outer = check_synthesize(method, spec=small.data, budget=small.budget, plan=small, public=cut)
    elif verb == Training.verb:
        outer = check_classifier(method, spec=small.data, budget=small.budget, plan=small, public=cut)
    else:
        outer = check_tune(method, spec=small.data, budget=small.budget)
    return Report(inner.title, (*inner.rows, *outer.rows))


def looked_at(method: Any, plan: Plan) -> Plan:
    """The plan for smaller images, where those of the data would take minutes; a rehearsal has them as they are."""
    side = getattr(type(method), "audit_side", SIDE)
    channels, height, width = plan.data.shape
    small = (channels, min(side, height), min(side, width))
    if small == plan.data.shape:
        return plan
    try:
        smaller: Plan = method.plan(replace(plan.data, shape=small), plan.budget)
    except ValueError:  # too small for these settings
        return plan
    return smaller


def _cut(public: PublicImages | None, shape: tuple[int, ...], small: tuple[int, ...]) -> PublicImages | None:
    """Public images as small as the made-up ones; those of another shape than the data are left for the method."""
    if public is None or public.images.pixels.shape[1:] != shape:
        return public
    pixels = public.images.pixels[:, :, : small[1], : small[2]]
    return replace(public, images=replace(public.images, pixels=pixels))


def compared(verb: str, flow: Flow, spec: DataSpec, seed: int, counts: tuple[int, ...] = (1,)) -> Iterator[Finding]:
    """A flow on neighbours, and with other numbers of hidden runs, under one tape."""
    records = made_up(spec, np.random.default_rng(seed), UNITS)
    usual = _left(flow, records, spec, seed, counts[0])
    if "error" in usual:
        yield Finding(f"{verb}: flow", 0, False, f"it ended with {usual['error']}"[:300])
        return
    if usual["odometers"] != counts[0]:
        said = f"{usual['odometers']} runs were made under one reservation that is for {counts[0]}"
        yield Finding(f"{verb}: flow", 0, False, said)
    others = [(f"one unit {kind}", other) for kind, _, other in neighbours(records, spec, seed)]
    others.append(("all records white and of one class", far(records)))
    for kind, other in others:
        again = _left(flow, other, spec, seed, counts[0])
        differing = [what for what in usual.keys() | again.keys() if not bit_equal(usual.get(what), again.get(what))]
        said = f"with {kind}, under one tape, this differs: {', '.join(sorted(differing))}"
        yield Finding(f"{verb}: flow", 0, not differing, said if differing else f"with {kind} nothing else leaves")
    if len(counts) > 1:
        yield _hidden(verb, flow, records, spec, seed, counts)


def _chosen(score: str, flow: Flow, spec: DataSpec, seed: int, count: int = 3) -> Finding:
    """It is the released score that decides: where it speaks for another run, another one is released."""
    records = made_up(spec, np.random.default_rng(seed), UNITS)
    results = []
    for number in (1, count):
        with patch.dict(_FAVOUR, {score: number}):
            results.append(_left(flow, records, spec, seed, count).get("result"))
    ok = not bit_equal(*results)
    said = (
        "the run that the released score speaks for is taken"
        if ok
        else "another number than the released score decides"
    )
    return Finding("tune --private: choice", 0, ok, said)


def _hidden(verb: str, flow: Flow, records: MadeUp, spec: DataSpec, seed: int, counts: tuple[int, ...]) -> Finding:
    """The number of hidden runs does not show, where all of them have the same answers."""
    one, two = (_left(flow, records, spec, seed, count, alike_runs=True) for count in counts)
    differing = [w for w in one.keys() | two.keys() if w not in HIDDEN and not bit_equal(one.get(w), two.get(w))]
    said = f"with {counts[1]} hidden runs in place of {counts[0]} this differs: {', '.join(sorted(differing))}"
    return Finding(f"{verb}: hidden runs", 0, not differing, said if differing else "their number does not show")


def _left(
    flow: Flow, records: MadeUp, spec: DataSpec, seed: int, count: int, alike_runs: bool = False
) -> dict[str, Any]:
    """All that leaves one run of a flow: what it returns, shows, says and writes; and what it asks."""
    with tempfile.TemporaryDirectory() as folder, on_tape(records, count, alike_runs), listening() as heard:
        place = Path(folder)
        left = {}
        run = Run(device="cpu", seed=seed, microbatch=MICROBATCH, progress=Recorder(), most=STEPS)
        try:
            left["result"] = flow(records.box(spec), run, place)
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
        self.exact: list[torch.Tensor] = []
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
def on_tape(records: MadeUp, count: int = 1, alike_runs: bool = False) -> Iterator[None]:
    """Barriers answer from one tape; secret draws of a selection are fixed; nothing is audited or rehearsed again."""
    names = records.units

    def behind(data: Any, spec: DataSpec, odometer: Odometer, **how: Any) -> Taped:
        return Taped(names, alike_runs, data, spec, odometer, **how)

    _HEARD.clear()
    _ODOMETERS.clear()
    with ExitStack() as stack, tempfile.TemporaryDirectory() as runs:
        stack.enter_context(patch("sfumato.privacy.barrier.Inside", behind))
        for what, answer in {
            "sfumato.flow.flow.audit_first": passed("cpu"),
            "sfumato.flow.flow.rehearsed": None,
            "sfumato.run.run.Run.finished": None,
            "sfumato.flow.tune.draw_count": count,
            "sfumato.flow.tune.draw_index": 0,
        }.items():
            stack.enter_context(patch(what, return_value=answer))
        stack.enter_context(patch.dict(os.environ, {"SFUMATO_RUNS": runs}))
        yield


def _asked(plan: Plan, seed: int) -> list[Finding]:
    """The question by which a run of a selection is judged, like any other question of a method."""
    images = made_up(replace(plan.data, unit=Unit.RECORD), np.random.default_rng(seed + 2), JUDGED)
    return questioned(SCORE, score(Images(images.images, images.labels, plan.data.classes)), plan, seed)


def _crossed(plan: Any, name: str, flow: Flow, seed: int) -> list[Finding]:
    """The sums behind the one answer of a flow, on neighbours, against what is declared."""
    spec = plan.data
    findings = []
    records = made_up(spec, np.random.default_rng(seed), UNITS)
    _left(flow, records, spec, seed, 1)
    usual = [total for asked, total in _HEARD if asked == name]
    for kind, relation, other in neighbours(records, spec, seed):
        _left(flow, other, spec, seed, 1)
        again = [total for asked, total in _HEARD if asked == name]
        gaps = [float((a - b).norm()) for a, b in zip(usual, again, strict=False)]
        moved = max(gaps, default=0.0)
        declared = plan.crossings[name].event(relation).sensitivity
        ok = len(usual) == len(again) == plan.crossings[name].times and moved <= declared * (1 + 1e-9)
        ok = ok and all(odometer.plan.crossings[name] == plan.crossings[name] for odometer in _ODOMETERS)
        said = f"one unit {kind} moved {len(again)} sums by up to {moved:.4g}; declared {declared:.4g}, once"
        findings.append(Finding(f"{name}: sums along a run", 0, ok, said))
    return findings
