"""A method by itself: a fresh process that gets a plan, public data and a channel, and no road to a record.

It is started by `isolated.py`. What it asks, keeps and shows goes over the channel.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import torch

from sfumato.errors import InputError
from sfumato.flow.rehearsal import Stage, rehearse
from sfumato.privacy.barrier import Barrier
from sfumato.remote.asking import AskingRun, Line, RemoteBehind, Told
from sfumato.remote.failures import in_words
from sfumato.remote.wire import decode, fingerprint
from sfumato.run.run import Run

# What the data process may send beside what queries are made of: a plan and public images.
FROM_DATA = (
    *("sfumato.privacy." + name for name in ("plan", "mechanisms", "samplers")),
    *("sfumato." + name for name in ("accounting.selection", "data.public", "run.preview")),
)


def work(channel: Connection) -> None:
    """Do the one thing that is asked for, or say why not."""
    line = Line(channel, allow=FROM_DATA)
    try:
        module = channel.recv_bytes().decode()
        job = decode(channel.recv_bytes(), allow=(*FROM_DATA, module))
        if job["fingerprint"] != fingerprint():
            raise InputError(
                "The two processes of an isolated run found different versions of sfumato; start it again."
            )
        torch.set_num_threads(job["threads"])
        _VERBS[job["verb"]](job, channel, line)
    except Exception as error:
        with contextlib.suppress(OSError):  # nobody listens any more
            line.tell("failed", *in_words(error))


def learn(job: Mapping[str, Any], channel: Connection, line: Line) -> None:
    """Learn through a barrier that lies in another process."""
    line = Line(channel, device=job["run"]["device"], allow=FROM_DATA)
    behind = RemoteBehind(line, job["plan"], job["noise"], job["used"])
    run = AskingRun(**job["run"], odometer=behind.odometer, progress=Told(line), line=line, resumable=job["resumable"])
    run.recall(job["kept"], job["step"])
    with run.interruptible():
        generator = job["method"].learn(Barrier.before(behind), run, job["public"])
    preview = run.pictures.get("preview")
    line.tell("finished", generator, run.kept, run.made, preview and preview.snapshots())


def try_out(job: Mapping[str, Any], channel: Connection, line: Line) -> None:
    """A rehearsal, all of it here: its records are made up."""
    found: dict[str, Any] = {"generator": None, "kept": {}}

    def after(stage: Stage, generator: Any, brief: Run) -> None:
        found.update(generator=generator, kept=brief.kept | brief.made)

    run = Run(**job["run"])
    seconds = rehearse(job["method"], job["plan"], run, job["public"], after=after)
    line.tell("rehearsed", seconds, found["generator"], found["kept"])


_VERBS = {"learn": learn, "rehearse": try_out}


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as own:
        work(own)
    sys.stderr.flush()
    os._exit(0)  # nothing is left to put away, and a library that lingers would keep the run waiting
