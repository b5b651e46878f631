"""Runs: checkpoints without pickle, public randomness that depends on nothing else, private folders."""

from __future__ import annotations

import os
import stat

import pytest
import torch

from sfumato import InputError, OverBudget, Run
from sfumato.errors import Interrupted
from sfumato.ledger.job import Job
from sfumato.privacy.odometer import Odometer
from sfumato.run import checkpoint
from sfumato.run.progress import Recorder
from tests.made_up import plan


def test_a_checkpoint_brings_back_nested_state_bit_for_bit(tmp_path):
    net = torch.nn.Linear(3, 2)
    optimiser = torch.optim.Adam(net.parameters())
    net(torch.randn(4, 3)).sum().backward()
    optimiser.step()
    plain = {"n": 3, "none": None, "words": ["a", 1.5, True]}
    state = {"net": net.state_dict(), "optimiser": optimiser.state_dict(), **plain}
    checkpoint.save(tmp_path / "c", state)
    back = checkpoint.load(tmp_path / "c")
    assert torch.equal(back["net"]["weight"], net.weight)
    torch.optim.Adam(net.parameters()).load_state_dict(back["optimiser"])
    assert back["optimiser"]["state"][0]["step"] == 1
    assert (back["n"], back["none"], back["words"]) == (3, None, ["a", 1.5, True])


def test_a_checkpoint_is_private_and_replaced_whole(tmp_path):
    path = tmp_path / "c"
    checkpoint.save(path, {"n": 1})
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    checkpoint.save(path, {"n": 2})
    assert checkpoint.load(path) == {"n": 2} and os.listdir(tmp_path) == ["c"]


def test_a_damaged_checkpoint_gets_a_sentence(tmp_path):
    (tmp_path / "c").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="no readable checkpoint"):
        checkpoint.load(tmp_path / "c")


def test_code_is_never_stored(tmp_path):
    with pytest.raises(TypeError, match="plain values"):
        checkpoint.save(tmp_path / "c", {"f": print})


def test_public_randomness_depends_on_seed_name_and_step_alone():
    def draw(seed, name, step):
        return torch.rand(3, generator=Run(device="cpu", seed=seed).generator(name, step)).tolist()

    first = draw(0, "latents", 1)
    torch.rand(100)
    assert first == draw(0, "latents", 1)
    assert first not in (draw(1, "latents", 1), draw(0, "labels", 1), draw(0, "latents", 2))


def test_a_value_is_computed_once_and_survives(tmp_path):
    def run():
        return Run(device="cpu", folder=tmp_path, odometer=Odometer(plan()))

    made = []
    value = run().once("x", lambda: made.append(1) or torch.ones(2))
    again = run().once("x", lambda: made.append(1) or torch.zeros(2))
    assert torch.equal(value, again) and len(made) == 1


def test_a_run_that_lost_its_token_writes_nothing(tmp_path):
    def lost():
        raise OverBudget("resumed elsewhere")

    run = Run(device="cpu", folder=tmp_path, odometer=Odometer(plan()), owned=lost)
    with pytest.raises(OverBudget):
        run.once("x", lambda: torch.ones(1))
    assert os.listdir(tmp_path) == []


def test_ctrl_c_stops_after_the_step_and_twice_at_once():
    run = Run(device="cpu")
    with run.interruptible(), pytest.raises(Interrupted):
        for step in run.steps(10):
            if step == 3:
                os.kill(os.getpid(), 2)
        assert False, "not reached"  # noqa: B011
    run = Run(device="cpu")
    with pytest.raises(KeyboardInterrupt), run.interruptible():
        os.kill(os.getpid(), 2)
        os.kill(os.getpid(), 2)


def test_progress_carries_steps_and_epsilon():
    shown = Recorder()
    run = Run(device="cpu", progress=shown, odometer=Odometer(plan()))
    run.odometer.charge("sum")
    list(run.steps(2))
    assert shown.lines[0] == ("start", "training", 2)
    assert shown.lines[-1][1] == 2 and shown.lines[-1][2].startswith("epsilon")


def test_a_job_has_a_private_folder_and_a_lock():
    job = Job.create({}, None)
    assert stat.S_IMODE(os.stat(job.folder).st_mode) == 0o700
    with pytest.raises(InputError, match="still going"):
        Job.find(job.folder.name)
    job.close()
    Job.find(job.folder.name).discard()
    with pytest.raises(InputError, match="no unfinished run"):
        Job.find(job.folder.name)


@pytest.mark.parametrize("device", ["gpu", "cuda:99", ""])
def test_a_device_that_is_not_here_is_refused(device):
    with pytest.raises(InputError, match="--device"):
        Run(device=device)
