"""`check` on the package's own methods, and on methods that somebody got wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import pytest
import torch

from sfumato import Budget, DataSpec, Method, Relation, Unit
from sfumato.audit import check
from sfumato.audit.checks.sizes import shrunk
from sfumato.data.labels import LabelPrior
from sfumato.errors import AuditFailed
from sfumato.flow.request import made_up
from sfumato.methods import find, names
from sfumato.networks import ConvGenerator
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Crossing, crossing
from sfumato.privacy.samplers import Poisson
from tests.audit_work import recorded_work

PIXELS = 64
PRIORS = [LabelPrior("uniform"), LabelPrior("private", fraction=0.3)]


@dataclass(frozen=True, kw_only=True)
class Toy(Method):
    """The noisy mean image, as a generator's bias; `wrong` plants a mistake in it."""

    wrong: str = ""
    times: int = 1
    rate: float | None = None
    name: ClassVar[str] = "toy"

    def crossings(self, spec, z):
        mean = crossing(Bound(1.0), z, Poisson(self.rate) if self.rate else None, times=self.times)
        if self.wrong == "quarter of the noise":
            mean = replace(mean, mechanism=QuieterGaussian(mean.mechanism.multiplier))
        return {"mean": mean}

    def plan(self, spec, budget):
        plan = super().plan(spec, budget)
        if self.wrong == "over budget":
            return replace(
                plan, crossings={"mean": crossing(Bound(1.0), plan.crossings["mean"].mechanism.multiplier / 2)}
            )
        return plan

    def learn(self, barrier, run, public=None):
        kept = []

        def contribution(images, labels):
            kept.append(images.mean())
            rows = images.flatten(1)
            if self.wrong == "rows mix":
                return rows - rows.mean(0)
            return rows / len(rows) if self.wrong == "rows by batch size" else rows

        query = BoundedSum(contribution, Bound(1.0), (PIXELS,))
        net = ConvGenerator(barrier.spec.shape, barrier.spec.classes, 4, 8)
        total = torch.zeros(PIXELS, dtype=torch.float64)
        for _ in run.steps(self.times + (self.wrong == "one use too many"), net=net):
            total += barrier.release("mean", query)
        if self.wrong == "draws of its own":
            barrier.noise.gaussian((3,), 1e6)
        value = float(kept[-1]) if self.wrong == "smuggled" and kept else float(total.mean())
        torch.nn.init.constant_(net.start.bias, value)
        for parameter in net.body.parameters():
            torch.nn.init.constant_(parameter, 0.5)
        torch.nn.init.constant_(net.start.weight, 0.1)
        return net


class QuieterGaussian:
    """Declares one scale and draws another."""

    kind = "gaussian"

    def __init__(self, multiplier):
        self.multiplier = multiplier

    def std(self, bound):
        return self.multiplier * bound.norm

    def __call__(self, value, bound, noise):
        from sfumato.privacy.mechanisms import Gaussian

        return Gaussian(self.multiplier / 4)(value, bound, noise)


def failing(report):
    return {row.check for row in report.rows if not row.ok}


def test_a_correct_toy_passes_every_level():
    report = check(Toy(), level=2, draws=20_000, runs=600)
    assert report.verdict == "pass", report.failed
    assert {"mean: step audit", "whole plan"} <= {row.check for row in report.rows}


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        ("rows mix", "mean: influence"),
        ("rows by batch size", "mean: influence"),
        ("quarter of the noise", "mean: noise scale"),
        ("smuggled", "fixed tape"),
        ("smuggled", "blind barrier"),
        ("one use too many", "learns"),
        ("draws of its own", "learns"),
        ("over budget", "plan"),
    ],
)
def test_a_mistake_is_caught(wrong, caught_by):
    report = check(Toy(wrong=wrong))
    assert report.verdict == "fail" and caught_by in failing(report), report.rows
    with pytest.raises(AuditFailed, match="toy failed"):
        report.require()


def test_a_subsampled_method_is_compared_with_its_own_curve():
    report = check(Toy(times=3, rate=0.3), level=2, draws=20_000, runs=1000)
    assert report.verdict == "pass", report.failed
    rows = {row.check: row for row in report.rows}
    assert rows["mean: inclusion sizes"].ok and "allows no less than" in rows["whole plan"].detail


def test_too_little_noise_shows_at_every_level():
    report = check(Toy(wrong="quarter of the noise"), level=2, draws=5000, runs=800)
    assert {"mean: noise scale", "mean: step audit", "whole plan"} <= failing(report)


# One case of each method by default, of every kind in turn; all of them in the long run.
CASES = [
    pytest.param(
        name,
        labels,
        relation,
        id=f"{name}-{labels.kind}-{relation}",
        marks=[] if case == i % 4 else [pytest.mark.slow],
    )
    for i, name in enumerate(names())
    for case, (labels, relation) in enumerate(product(PRIORS, Relation))
]


@pytest.mark.parametrize(("name", "labels", "relation"), CASES)
def test_every_method_passes_under_either_relation(name, labels, relation):
    method, budget, spec = find(name)(labels=labels), Budget(4.0, relation=relation), made_up()
    side = min(method.audit_side, spec.shape[1])
    report = check(method, spec=replace(spec, shape=(1, side, side)), budget=budget, level=1, draws=20_000)
    assert report.verdict == "pass", report.failed
    at_work = next(found for found in report.rows if found.check == "settings at work")
    assert at_work.detail == "what the noisy queries declare is at work at this size"


def test_persons_are_the_unit_that_is_changed():
    spec = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"), unit=Unit.PERSON)
    assert check(Toy(), spec=spec).verdict == "pass"


def test_level0_is_small_for_real_shapes(monkeypatch):
    method, spec = find(names()[0])(), DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    units, crossings = recorded_work(monkeypatch, method, spec, Budget(1.0))
    assert 1 <= units <= 200 and 1 <= crossings <= 100  # whatever the number of records


def test_a_long_method_is_not_run_to_its_end():
    @dataclass(frozen=True, kw_only=True)
    class Endless(Toy):
        def learn(self, barrier, run, public=None):
            query = BoundedSum(lambda images, labels: images.flatten(1), Bound(1.0), (PIXELS,))
            while True:
                barrier.release("mean", query)

    report = check(Endless(times=10**6))
    assert report.verdict == "pass", report.failed


def test_a_method_that_plans_badly_is_reported_not_raised():
    @dataclass(frozen=True, kw_only=True)
    class Broken(Toy):
        def plan(self, spec, budget):
            raise KeyError("data")

    assert "plan" in failing(check(Broken()))


def test_a_report_is_plain_and_has_a_picture():
    report = check(Toy(), level=1, draws=2000)
    made = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert made["verdict"] == "pass" and set(made["rows"][0]) == {"check", "level", "verdict", "detail", "device"}
    assert report.picture()[:8] == b"\x89PNG\r\n\x1a\n"
    assert check(Toy()).picture() is None and isinstance(Crossing, type)


def row(report, check):
    return next(found for found in report.rows if found.check == check)


@dataclass(frozen=True, kw_only=True)
class Sized(Toy):
    """A toy that is audited with other settings than it has."""

    width: int = 8
    way: str = "ghost"
    half: bool = True
    k: int = 0
    changed: tuple = ()

    def small(self):
        return replace(self, **dict(self.changed))


@pytest.mark.parametrize(
    ("changed", "ok"),
    [
        ({}, True),
        ({"width": 2}, True),
        ({"width": 0}, False),
        ({"width": 16}, False),
        ({"way": "gram"}, False),
        ({"half": False}, False),
        ({"k": 1}, False),
        ({"labels": PRIORS[1]}, False),
    ],
)
def test_sizes_may_shrink_for_an_audit_and_nothing_else_may_change(changed, ok):
    report = check(Sized(changed=tuple(changed.items())))
    assert row(report, "small size").ok is ok, row(report, "small size")
    if not ok:
        assert next(iter(changed)) in row(report, "small size").detail


def test_a_public_network_may_have_a_stand_in_which_is_told():
    class Declared(Sized):
        stand_ins: ClassVar[tuple[str, ...]] = ("way",)

    report = check(Declared(changed=(("way", "gram"),)))
    assert report.verdict == "pass" and "not looked at: way=gram in place of ghost" in row(report, "small size").detail


@pytest.mark.parametrize("found", names())
def test_every_method_is_audited_as_it_is(found):
    made = find(found)()
    assert shrunk(made, made.small()).ok
    if "bfloat16" in made.settings():
        assert replace(made, bfloat16=True).small().bfloat16


def test_a_limit_that_cannot_be_reached_is_told():
    method = find("datalens")()
    few = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))
    assert "no limit to 64 is seen" in row(check(method, spec=few), "settings at work").detail


def test_a_method_that_would_sample_a_larger_set_is_told():
    few = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))
    assert "no sampling is seen" in row(check(find("ndpdc")(), spec=few), "settings at work").detail


@dataclass(frozen=True, kw_only=True)
class Touchy(Toy):
    """Its query raises where a record is white."""

    def learn(self, barrier, run, public=None):
        def contribution(images, labels):
            if (images.flatten(1).mean(1) > 0.98).any():
                raise ZeroDivisionError("a white record")
            return images.flatten(1)

        barrier.release("mean", BoundedSum(contribution, Bound(1.0), (PIXELS,)))
        return ConvGenerator(barrier.spec.shape, barrier.spec.classes, 4, 8)


def test_a_query_that_raises_on_some_records_fails_its_checks_and_games_and_no_more():
    report = check(Touchy(), level=2, draws=2000, runs=200)
    assert {"mean: query", "mean: step audit", "whole plan"} <= failing(report)
    for check_ in ("mean: step audit", "whole plan"):
        assert (
            row(report, check_).detail == "the distinguishing test could not be run: ZeroDivisionError: a white record"
        )


def test_a_check_that_cannot_be_tried_has_failed(monkeypatch):
    from sfumato.audit.checks import bit_equality

    def fails(seen):
        raise ZeroDivisionError("a dark record")

    monkeypatch.setattr(bit_equality, "_probed", fails)
    report = check(Toy())
    assert {"blind barrier", "fixed tape"} <= failing(report) and "dark record" in row(report, "fixed tape").detail


def test_a_report_says_where_it_was_computed():
    made = check(Toy(), device="cpu").to_json()
    assert {found["device"] for found in made["rows"]} == {"cpu"}


@pytest.mark.gpu
@pytest.mark.parametrize("found", names())
def test_every_method_passes_on_a_gpu_too(found):
    report = check(find(found)(), spec=made_up(), level=2, draws=5000, runs=200, device="cuda")
    assert report.verdict == "pass" and report.device.startswith("cuda"), report.failed
