"""Pools beyond this machine: refused in a sentence where they are not, and the same to a task where they are."""

from __future__ import annotations

import sys

import pytest

from sfumato.errors import InputError
from sfumato.flow.cluster import RayPool, SlurmPool, make_pool
from sfumato.flow.pool import LocalPool
from tests.flow.test_pool import work


@pytest.mark.parametrize(("kind", "workers"), [("cloud", 2), ("local", 0), ("ray", 5000)])
def test_a_pool_that_there_is_not_is_refused(tmp_path, kind, workers):
    with pytest.raises(InputError, match="--pool|--workers"):
        make_pool(kind, workers, tmp_path, {})


def test_the_usual_pool_is_local(tmp_path):
    assert isinstance(make_pool("local", 2, tmp_path, {}), LocalPool)


@pytest.mark.parametrize(("kind", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_missing_package_is_named(tmp_path, monkeypatch, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"pip install 'sfumato\[{kind}\]'"):
        make_pool(kind, 2, tmp_path, {})


class NoSlurm(SlurmPool):
    """The jobs of submitit as processes here, in the place of a scheduler."""

    cluster = "local"


def test_slurm_is_refused_where_it_is_not(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="SLURM cannot be used here .* choose --pool local"):
        make_pool("slurm", 2, tmp_path, {})
    with pytest.raises(InputError, match="mend the options under `slurm`"):
        NoSlurm(2, tmp_path, {"no_such_option": 1})


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_jobs_survive_a_killed_worker(tmp_path):
    pytest.importorskip("submitit")
    _survives(NoSlurm(2, tmp_path / "jobs", {"timeout_min": 5}), tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_cluster_of_ray_survives_a_killed_worker(tmp_path):
    pytest.importorskip("ray")
    _survives(RayPool(2), tmp_path)


def _survives(pool, tmp_path) -> None:
    tasks = [(0, None), (1, str(tmp_path / "fatal")), (-1, None), (3, None)]
    outcomes = {o.number: o for o in pool.map(work, tasks)}
    assert [outcomes[n].found[0] for n in (0, 1, 3)] == [0, 2, 6]
    assert outcomes[1].tries == 2 and outcomes[2].lost == "ValueError: -1 is below zero"
