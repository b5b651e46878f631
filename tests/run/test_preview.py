"""Previews: taken at the right steps, of the same latents, without a trace in the training, and shown in the report."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
import torch
from PIL import Image

from sfumato import DataSpec, InputError, Run
from sfumato.data.images import png
from sfumato.engine.student import Student
from sfumato.networks import DCGANGenerator
from sfumato.privacy.odometer import Odometer
from sfumato.release.documents.report import make_report
from sfumato.release.files.reading import read_snapshots
from sfumato.run import checkpoint
from sfumato.run.preview import EACH, MOST_CLASSES, Preview, Snapshots, due_steps
from sfumato.run.progress import Recorder
from sfumato.types import Images
from tests.made_up import plan
from tests.release.files.test_fakes import fake_statement

SPEC = DataSpec("made up", 60, (1, 8, 8), ("a", "b", "c"))


def generator(spec=SPEC, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return DCGANGenerator(spec.shape, spec.classes, latent=4, width=4, hidden=8)


def charged_run(**options):
    run = Run(device="cpu", odometer=Odometer(plan()), **options)
    run.odometer.charge("sum")
    return run


def taken(total=20, times=4, spec=SPEC, run=None):
    """A preview over a training in which the weights change at every step."""
    net = generator(spec)
    preview = Preview(run or charged_run(), net, spec, times)
    for step in range(total):
        with torch.no_grad():
            net.last.bias.add_(0.1)
        preview.snapshot(step, total, net)
    return preview


@pytest.mark.parametrize(("total", "times"), [(86, 8), (1, 8), (3, 8), (8, 8), (1000, 8), (5, 1), (0, 8)])
def test_moments_are_few_and_spread_from_the_first_to_the_last(total, times):
    found = due_steps(total, times)
    assert len(found) == min(total, times) and all(1 <= step <= total for step in found)
    if total > 1 and times > 1:
        gaps = np.diff(found)
        assert found[0] == 1 and found[-1] == total and gaps.max() - gaps.min() <= 1


def test_a_grid_has_a_column_for_each_class_and_follows_the_weights():
    preview = taken()
    made = preview.snapshots()
    assert made.steps == (1, 7, 14, 20) and made.total == 20 and len(made) == 4
    assert made.pixels.shape == (4, 1, EACH * 8, 3 * 8) and made.pixels.dtype == np.uint8
    assert made.picture().shape == (1, 4 * EACH * 8, 3 * 8)
    assert np.all(np.diff([grid.mean() for grid in made.pixels]) > 0)
    assert made.epsilons == (preview.run.odometer.epsilon(),) * 4
    assert preview.run.pictures["preview"] is preview


def test_columns_are_classes_and_rows_are_latents():
    preview, net = Preview(charged_run(), generator(), SPEC), generator()
    net.settle(torch.Generator().manual_seed(0))
    preview.snapshot(0, 1, lambda: net.eval())
    for row in range(EACH):
        for column in range(3):
            at = row * 3 + column
            assert preview.labels[at] == column
            cell = preview.grids[0][:, row * 8 : row * 8 + 8, column * 8 : column * 8 + 8]
            assert np.array_equal(cell, net.pixels(preview.latents, preview.labels)[at])


def test_skipped_steps_are_made_up_for_at_the_next_look():
    preview, net = Preview(charged_run(), generator(), SPEC, times=3), generator()
    for step in (0, 7, 8, 9):
        preview.snapshot(step, 10, net)
    assert preview.steps == [1, 8, 10]


def test_a_look_leaves_the_training_alone():
    seen, unseen = (Student(generator(), ema_decay=0.9) for _ in range(2))
    preview = Preview(charged_run(), seen.net, SPEC)
    torch.manual_seed(3)
    for step in range(3):
        for student in (seen, unseen):
            z = torch.randn(5, 4, generator=torch.Generator().manual_seed(step))
            student.step(z, torch.tensor([0, 1, 2, 0, 1]), torch.ones(5, 1, 8, 8))
        preview.snapshot(step, 3, seen.net if step else seen.finished)
    assert seen.net.training and len(preview.grids) == 3
    assert torch.rand(1).equal(torch.rand(1, generator=torch.Generator().manual_seed(3)))
    for name, value in seen.net.state_dict().items():
        assert torch.equal(value, unseen.net.state_dict()[name]), name


def test_a_function_is_asked_only_when_it_is_time():
    asked = []
    preview = Preview(charged_run(), generator(), SPEC, times=2)
    for step in range(50):
        preview.snapshot(step, 50, lambda: asked.append(1) or generator())
    assert len(asked) == 2 == len(preview.grids)


def test_many_classes_are_cut():
    spec = DataSpec("many", 60, (3, 8, 8), tuple(f"c{n}" for n in range(40)))
    assert taken(spec=spec, total=1).snapshots().pixels.shape == (1, 3, EACH * 8, MOST_CLASSES * 8)


def shown_by(run):
    """A preview whose run saves a checkpoint after every fifth step."""
    preview, net = Preview(run, generator(), SPEC, times=4), generator()
    for step in range(20):
        with torch.no_grad():
            net.last.bias.add_(0.1)
        preview.snapshot(step, 20, net)
        if step % 5 == 4:
            preview.show()
            preview.show()
    return preview


def test_the_latest_grid_lies_in_the_folder_of_the_run_and_the_display_is_told(tmp_path):
    shown, again = Recorder(), Recorder()
    preview = shown_by(charged_run(folder=tmp_path, progress=shown))
    with Image.open(tmp_path / "preview.png") as image:
        assert np.array_equal(np.asarray(image), preview.grids[-1][0])
    told = [line for line in shown.lines if line[0] == "picture"]
    assert len(told) == 4 and len(set(told)) == 4  # grids after steps 1, 7, 14 and 20; each told once
    (tmp_path / "other").mkdir()
    shown_by(charged_run(folder=tmp_path / "other", progress=again))
    assert again.lines == shown.lines


def test_nothing_is_shown_before_a_checkpoint(tmp_path):
    shown = Recorder()
    taken(run=charged_run(folder=tmp_path, progress=shown))
    assert shown.lines == [] and list(tmp_path.iterdir()) == []
    nowhere = charged_run(progress=shown)
    taken(run=nowhere).show()
    assert shown.lines == []


def test_a_resumed_strip_is_the_uninterrupted_one(tmp_path):
    whole, halved, net = taken(total=9), Preview(charged_run(), generator(), SPEC, times=4), generator()

    def go_on(preview, first, last):
        for step in range(first, last):
            with torch.no_grad():
                net.last.bias.add_(0.1)
            preview.snapshot(step, 9, net)

    go_on(halved, 0, 5)
    checkpoint.save(tmp_path / "c", {"preview": halved.state_dict()})
    resumed = Preview(charged_run(), generator(), SPEC, times=4)
    resumed.load_state_dict(checkpoint.load(tmp_path / "c")["preview"])
    go_on(resumed, 5, 9)
    assert np.array_equal(resumed.snapshots().pixels, whole.snapshots().pixels)
    assert resumed.snapshots().facts() == whole.snapshots().facts()
    over = Preview(charged_run(), generator(), SPEC, times=4)  # resumed after its last step
    over.load_state_dict(resumed.state_dict())
    assert over.snapshots().facts() == whole.snapshots().facts()


def test_nothing_seen_is_nothing_shown():
    assert Preview(charged_run(), generator(), SPEC).snapshots() is None


def test_without_a_ledger_the_step_alone_is_told():
    assert taken(total=1, run=Run(device="cpu")).snapshots().epsilons == (None,)


def written(folder, made):
    (folder / "strip.png").write_bytes(png(made.picture()))
    (folder / "strip.json").write_text(json.dumps(made.facts()))


def test_moments_come_back_from_their_files(tmp_path):
    assert read_snapshots(tmp_path) is None
    made = taken().snapshots()
    written(tmp_path, made)
    back = read_snapshots(tmp_path)
    assert np.array_equal(back.pixels, made.pixels) and back.facts() == made.facts()


SPOILS = {
    "no facts": lambda folder: (folder / "strip.json").unlink(),
    "no picture": lambda folder: (folder / "strip.png").unlink(),
    "no JSON": lambda folder: (folder / "strip.json").write_text("[" * 9999),
    "no moments": lambda folder: (folder / "strip.json").write_text('{"moments": []}'),
    "words": lambda folder: (folder / "strip.json").write_text('{"moments": [{"step": "x", "epsilon": 1}]}'),
    "no image": lambda folder: (folder / "strip.png").write_bytes(b"none"),
    "another height": lambda folder: (folder / "strip.png").write_bytes(png(np.zeros((1, 63, 24), np.uint8))),
    "a key more": lambda folder: (folder / "strip.json").write_text(
        json.dumps(json.loads((folder / "strip.json").read_text()) | {"more": 1})
    ),
}


@pytest.mark.parametrize("name", SPOILS)
def test_spoilt_files_are_one_sentence(tmp_path, name):
    written(tmp_path, taken().snapshots())
    SPOILS[name](tmp_path)
    with pytest.raises(InputError, match="strip"):
        read_snapshots(tmp_path)


@pytest.mark.parametrize(
    ("steps", "epsilons", "says"),
    [
        ((1, 5), (0.2, 0.9), None),
        ((1, 5), (None, None), None),
        ((1, 5), (0.2, 1.0 + 1e-9), None),
        ((5, 1), (0.2, 0.9), "order"),
        ((0, 1), (0.2, 0.9), "order"),
        ((1, 11), (0.2, 0.9), "order"),
        ((), (), "order"),
        ((1, 5), (0.2, 1.1), "stated"),
        ((1, 5), (0.9, 0.2), "stated"),
        ((1, 5), (-0.1, 0.2), "stated"),
        ((1, 5), (math.nan, 0.2), "stated"),
    ],
)
def test_moments_that_cannot_be_are_found(steps, epsilons, says):
    found = Snapshots(np.zeros((len(steps), 1, 8, 8), np.uint8), steps, epsilons, 10).problem(1.0)
    assert found is None if says is None else says in found


def test_the_report_shows_them_and_does_without():
    images = Images(np.zeros((3, 1, 8, 8), np.uint8), np.arange(3), ("a", "b", "c"))
    made = taken().snapshots()
    page = make_report(fake_statement(), images, made)
    assert "How the images came about" in page and page.count('class="moment small"') == 4
    assert "Step 7 of 20" in page and "spent</small>" in page and "max-width: 168px" in page
    assert "How the images came about" not in make_report(fake_statement(), images)


def test_a_picture_holds_nothing_but_pixels():
    from sfumato.release.files.content import png_problem

    data = png(taken().snapshots().picture())
    assert png_problem(data) is None
    with Image.open(io.BytesIO(data)) as image:
        assert image.info == {}
