"""The classifiers on real data: what synthetic images are measured against.

python -m benchmarks.real [DATA ...]
"""

from __future__ import annotations

import json
import sys
import time

from sfumato.data import load_public
from sfumato.evaluate import stacked
from sfumato.run.run import pick_device

NAMES = ("cnn", "mlp", "logreg", "resnet", "wrn", "resnext")
SEEDS = (0, 1, 2)


def main() -> None:
    """One line of JSON for each set and classifier."""
    device = pick_device("auto")
    for data in sys.argv[1:] or ["fashion-mnist"]:
        train, test = (load_public(data, "a named public set", split=s).images for s in ("train", "test"))
        for name in NAMES:
            start = time.perf_counter()
            found = stacked.train(
                name,
                train.pixels,
                train.labels,
                test.pixels,
                test.labels,
                classes=len(train.classes),
                seeds=SEEDS,
                device=device,
            )
            last = found.accuracies[:, -1]
            row = {"data": data.split(":")[0], "classifier": name}
            row |= {"mean": float(last.mean()), "std": float(last.std(ddof=1))}
            print(json.dumps(row | {"seconds": round(time.perf_counter() - start, 1), "device": device}), flush=True)


if __name__ == "__main__":
    main()
