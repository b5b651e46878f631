"""DPAF as printed, on a public set, for comparison: `python -m benchmarks.dpaf_printed fashion-mnist --epsilon 1`.

The images are written with the stamp "not private: the paper's accounting does not hold" and are never a release.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from sfumato import DPAF, Run, load
from sfumato.accounting.split import parse_split
from sfumato.data.public import load_public
from sfumato.train.dpaf_printed import printed


def main() -> None:
    """Run it and write the images beside their stamp."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--split", default="0.1,x,0.1")
    parser.add_argument("--epochs", type=float, default=5.0)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("dpaf-printed"))
    given = parser.parse_args()
    with load(given.data) as box:
        spec = box.spec
    public = load_public(given.data, f"the public set {spec.name}")
    epsilons = parse_split(given.split, given.epsilon, 3)
    if epsilons is None:
        parser.error("--split: expected three parts")
    made = printed(DPAF(epochs=given.epochs), public, spec, Run(device=given.device),
                   epsilons=(epsilons[0], epsilons[1], epsilons[2]), count=given.count)  # fmt: skip
    given.out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(given.out / "not-private.npz", images=made.images.pixels, labels=made.images.labels)
    (given.out / "NOT-PRIVATE.json").write_text(json.dumps({"stamp": made.stamp, "paper": dict(made.paper)}, indent=2))
    print(made.stamp)


if __name__ == "__main__":
    main()
