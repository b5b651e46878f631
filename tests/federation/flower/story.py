"""Three uneven hospitals with other clothes each: their records and their plan, and a site that dies at a known moment.

`python -m tests.federation.flower.story ADDRESS FOLDER` is the site `isle`. It is killed when it has worked out its
second sum and has not sent it: the budget is spent, and nobody has the answer.
"""

from __future__ import annotations

import gzip
import os
import signal
import sys
from pathlib import Path

import numpy as np

import sfumato
from sfumato.federation import flower
from sfumato.federation.agreement import read
from sfumato.federation.runs import boxed_for, site
from sfumato.federation.transport import Answer
from sfumato.remote import wire

RECORDS = {"north": 2400, "south": 900, "isle": 30}
CLASSES = {"north": range(6), "south": range(4, 10), "isle": range(9, 10)}  # that a site has
BATCH = 20  # fakes of a question, each of which counts as a query
PLAN = f"""
data: {{name: clothes, shape: [1, 28, 28], classes: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]}}
sites:
  north: {{records: {RECORDS["north"]}}}
  south: {{records: {RECORDS["south"]}}}
  isle: {{records: {RECORDS["isle"]}}}
method: kernel-votes
settings: {{teachers: 40, teacher_batch: 8, frequencies: 200, steps: 6, batch: {BATCH},
           fits: 4, finish: 8, fakes: 40, latent: 8, width: 8}}
labels: uniform
epsilon: 1
dropouts: 1
"""
CLOTHES = Path(sfumato.__file__).parent / "data" / "fashion_mnist"


def write(folder: Path) -> None:
    """The plan, and the records of each site; no record is at two."""
    (folder / "plan.yaml").write_text(PLAN)
    with gzip.open(CLOTHES / "train-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(CLOTHES / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    for at, (name, count) in enumerate(RECORDS.items()):
        mine = np.arange(len(labels)) % len(RECORDS) == at
        chosen = np.flatnonzero(mine & np.isin(labels, CLASSES[name]))[:count]
        np.savez(folder / f"{name}.npz", images=pixels[chosen], labels=labels[chosen])


def mortal(answer: Answer) -> Answer:
    """It does what it is asked up to its second sum, and dies with that in its hands."""
    sums = 0

    def answered(request: bytes) -> bytes:
        nonlocal sums
        reply = answer(request)
        sums += wire.decode(request)["kind"] == "sum"
        if sums == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return reply

    return answered


def main(address: str, folder: Path) -> None:
    agreed = read(folder / "plan.yaml")
    box = boxed_for(agreed, "isle", str(folder / "isle.npz"))
    with site(agreed, "isle", box, ledger=folder / "isle.sqlite") as house:
        flower.run_site("isle", mortal(house), address)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
