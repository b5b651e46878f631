"""Several processes as one: the same votes, one noise, and a lost rank that costs nothing but time."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from tests.ranks import TINY_RUNS, methods, noise

HERE = Path(__file__).parents[2]


def ranks(count, *given, expect=0):
    """Run ranks.py in `count` processes and return what the first said on standard error."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    command = [sys.executable] if count == 1 else [*command, "--no-python", sys.executable]
    done = subprocess.run(
        [*command, str(HERE / "tests" / "ranks.py"), *map(str, given)],
        capture_output=True,
        text=True,
        timeout=240,
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE), "PYTHONWARNINGS": "ignore"},
    )
    assert (done.returncode == 0) == (expect == 0), done.stderr[-2000:]
    return done.stderr


def weights(folder, rank=0):
    return torch.load(folder / f"weights-{rank}.pt", weights_only=True)


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noiseless")
    ranks(1, "learn", folder, 0)
    return weights(folder)


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_votes_do_not_depend_on_the_number_of_ranks(count, alone, tmp_path):
    folder = tmp_path / "noiseless"
    folder.mkdir()
    ranks(count, "learn", folder, 0)
    assert all(same(weights(folder, rank), alone) for rank in range(count))


QUICK = ["dpdm", "dpgan"]


@cache
def by_itself(name):
    """The weights of a tiny run in this process alone."""
    with TemporaryDirectory() as place:
        methods(Path(place), [name])
        return torch.load(Path(place) / f"{name}-0.pt", weights_only=True)


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def together(request, tmp_path_factory):
    """What so many ranks have found out in one go: answers of a barrier, and tiny runs under one tape."""
    folder = tmp_path_factory.mktemp("together")
    ranks(request.param, "noise,methods", folder, 0, *QUICK)
    return request.param, folder


def test_noise_is_added_once_and_is_everybodys(together):
    _noise_is_right(*together)


def test_noise_of_one_process_is_its_own(tmp_path):
    noise(tmp_path)
    _noise_is_right(1, tmp_path)


def _noise_is_right(count, folder):
    found = [torch.load(folder / f"noise-{rank}.pt", weights_only=True) for rank in range(count)]
    assert all(torch.equal(f["noise"], found[0]["noise"]) for f in found)
    # 20,000 values: their deviation is known to half a per cent, four of which are allowed.
    assert found[0]["noise"].std().item() == pytest.approx(5.0, rel=0.02)
    assert found[0]["sum"].mean().item() == pytest.approx(60 * 0.02, abs=4 * 5 / 500**0.5)


@pytest.mark.parametrize("name", QUICK)
def test_dpsgd_gives_the_same_on_any_number_of_ranks_under_one_tape(name, together):
    count, folder = together
    for rank in range(count):
        assert same(torch.load(folder / f"{name}-{rank}.pt", weights_only=True), by_itself(name))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_all_methods_of_dpsgd_do(count, tmp_path):
    ranks(count, "methods", tmp_path, 0, *TINY_RUNS)
    for name in TINY_RUNS:
        for rank in range(count):
            assert same(torch.load(tmp_path / f"{name}-{rank}.pt", weights_only=True), by_itself(name)), name


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_rank_that_is_lost_in_dpsgd_changes_nothing(name, tmp_path):
    """Fewer ranks take the run up, and under the tape it ends where one without a loss does."""
    ranks(4, "methods", tmp_path, 3, name, expect=1)
    assert (tmp_path / "checkpoint.safetensors").exists() and not (tmp_path / f"{name}-0.pt").exists()
    ranks(2, "methods", tmp_path, 0, name)
    assert same(torch.load(tmp_path / f"{name}-1.pt", weights_only=True), by_itself(name))


def test_a_lost_rank_stops_the_run_and_fewer_take_it_up(alone, tmp_path):
    folder = tmp_path / "noiseless"
    folder.mkdir()
    said = ranks(4, "learn", folder, 3, expect=1)
    assert "A rank of this run was lost" in said
    assert (folder / "checkpoint.safetensors").exists() and not (folder / "weights-0.pt").exists()
    ranks(2, "learn", folder, 0)
    assert same(weights(folder, 0), alone) and same(weights(folder, 1), alone)
