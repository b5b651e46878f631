"""Three uneven hospitals with other clothes each, and a coordinator: `python -m tests.federation.flower.story`.

site NAME ADDRESS FOLDER     answers, and goes on with the run that is in its folder
lead ADDRESS FOLDER          leads, and goes on with the run that is in the folder
"""

from __future__ import annotations

import gzip
import os
import signal
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sfumato
from sfumato import Run, load
from sfumato.federation import flower
from sfumato.federation.agreement import Agreement
from sfumato.federation.coordinator import Federation
from sfumato.federation.site import at_site
from sfumato.federation.transport import Answer, Transport
from sfumato.privacy.barrier import Barrier
from sfumato.remote import wire
from sfumato.types import DataSpec

RECORDS = {"north": 2400, "south": 900, "isle": 30}
FAVOURS = {"north": range(6), "south": range(4, 10), "isle": range(9, 10)}  # classes that a site has
SETTINGS = {"teachers": 40, "teacher_batch": 8, "frequencies": 200, "steps": 6, "batch": 20}
SETTINGS |= {"fits": 4, "finish": 8, "fakes": 40, "latent": 8, "width": 8}
DIES = "STORY_SITE_DIES"
TIMEOUT = 15.0  # seconds for a question
CLOTHES = Path(sfumato.__file__).parent / "data" / "fashion_mnist"


def agreed() -> Agreement:
    spec = DataSpec("clothes", sum(RECORDS.values()), (1, 28, 28), tuple("0123456789"))
    settings = {name: str(value) for name, value in SETTINGS.items()}
    return Agreement(spec, RECORDS, "kernel-votes", 1.0, settings, "uniform", dropouts=1)


def clothes(name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The records of a site; no record is at two."""
    with gzip.open(CLOTHES / "train-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(CLOTHES / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int64)
    mine = np.arange(len(labels)) % len(RECORDS) == list(RECORDS).index(name)
    chosen = np.flatnonzero(mine & np.isin(labels, FAVOURS[name]))[: RECORDS[name]]
    return pixels[chosen, None], labels[chosen]


def site(name: str, address: str, folder: Path) -> None:
    os.environ["SFUMATO_RUNS"] = str(folder / f"{name}-runs")
    begun = sorted((folder / f"{name}-runs").glob("[!.]*"))
    resume = begun[0].name if begun else None
    how = {"ledger": folder / f"{name}.sqlite", "resume": resume, "told": print}
    with at_site(agreed(), name, load(clothes(name)), **how) as house:
        flower.run_site(name, mortal(house) if os.environ.get(DIES) else house, address)


def mortal(answer: Answer) -> Answer:
    """A site that is killed when it has worked out its second sum, and has not sent it."""
    sums = 0

    def answered(request: bytes) -> bytes:
        nonlocal sums
        reply = answer(request)
        sums += wire.decode(request)["kind"] == "sum"
        if sums == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return reply

    return answered


def lead(address: str, folder: Path) -> None:
    def work(transport: Transport) -> list[str]:
        far = Federation(agreed(), transport, folder / "lead", timeout=TIMEOUT, told=print)
        far.join()
        run = Run(device="cpu", odometer=far.odometer, folder=folder / "lead", every=0.0)
        agreed().made.learn(Barrier.before(far), run)
        run.finished()
        return far.end()

    (folder / "lead").mkdir(exist_ok=True)
    missing = flower.run_coordinator(tuple(RECORDS), work, address, timeout=60)
    print("ended without", missing, flush=True)


if __name__ == "__main__":
    role, *words = sys.argv[1:]
    *words, place = words
    {"site": site, "lead": lead}[role](*words, Path(place))
