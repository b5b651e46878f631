"""A new generator from the sanitised measurement of a release: nothing crosses any more, so it costs no privacy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.accounting.budget import Budget, Unit
from sfumato.data.labels import LabelPrior
from sfumato.errors import InputError
from sfumato.flow.make import check_out, make_budget, make_plan
from sfumato.methods import Method, find
from sfumato.methods.settings import parse
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.release import Release, restated
from sfumato.release.files.command import write
from sfumato.run.run import Run
from sfumato.types import DataSpec


def refit(
    folder: str | Path,
    out: str | Path,
    *,
    seed: int = 1,
    count: int | None = None,
    settings: Mapping[str, str] | None = None,
    format: str = "png",
    run: Run | None = None,
) -> Release:
    """Train a new generator from the sanitised measurement that a release carries. Costs no privacy.

    It makes `count` images, as many as the release has unless that is said.
    """
    release = Release.load(folder)
    if not release.measurement:
        raise InputError(
            f"{folder} carries no sanitised measurement, so there is nothing to refit from; sample it instead."
        )
    count = len(release.images) if count is None else count
    check_out(out, count, format)
    method, spec, budget = _from_statement(release.statement, settings or {}, folder)
    plan = replace(make_plan(method, spec, budget), crossings={})  # nothing may cross any more
    odometer = Odometer(plan)
    run = replace(run or Run(), seed=seed, odometer=odometer)
    run.kept.update({name: value.value for name, value in release.measurement.items()})
    generator = method.learn(Barrier(None, spec, odometer, device=run.device), run)
    statement = restated(release.statement, method.settings())
    again = Release(generator, generator.sample(count, seed=seed), statement, dict(release.measurement))
    asked = {"count": count, "seed": seed, "format": format, "settings": settings or {}}
    again.save(out, format=format, command=write("refit", str(folder), asked))
    return again


def _from_statement(
    statement: dict[str, Any], changes: Mapping[str, str], folder: str | Path
) -> tuple[Method, DataSpec, Budget]:
    """Method, data description and budget as a statement records them."""
    try:
        made = statement["reproducibility"]["configuration"]
        return _rebuilt(made, statement["reproducibility"]["labels"], changes, folder)
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder}/privacy.json does not describe a run; fetch the release again.") from error


def _rebuilt(
    made: dict[str, Any], labels: dict[str, Any], changes: Mapping[str, str], folder: str | Path
) -> tuple[Method, DataSpec, Budget]:
    cls = find(made["method"])
    if fixed := sorted(set(changes) & set(cls.measured)):
        raise InputError(f"The measurement in {folder} fixes {', '.join(fixed)}; leave it out of --set.")
    weights = labels["weights"] and tuple(labels["weights"])
    prior = LabelPrior(labels["kind"], weights, 0.5 if labels["kind"] == "private" else None)
    given = made["settings"] | parse(cls, changes)
    try:
        method = cls(**given, labels=prior)
    except ValueError as error:
        raise InputError(str(error)) from error
    data = made["data"] | {"shape": tuple(made["data"]["shape"]), "classes": tuple(made["data"]["classes"])}
    return method, DataSpec(**data | {"unit": Unit(data["unit"])}), make_budget(**made["budget"])
