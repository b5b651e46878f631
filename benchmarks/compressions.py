"""What every compression costs, those beside table 6 of DataLens included (`sfumato bench datalens-table-6`).

    python -m benchmarks.compressions [--json] [--cuda] [--small]

For each compression: seconds to encode the words of all teachers on all images of one generator step, to sum them, and
to decode the sum. `--small` takes a hundredth of the teachers. On a processor one thread is used.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


def rows(device: str, small: bool) -> list[dict[str, Any]]:
    """All measurements."""
    from sfumato.bench.compressions import BLOCKS, COMPRESSIONS, measure

    found: list[dict[str, Any]] = []
    for name, shape in BLOCKS.items():
        times = {what: measure(what, shape, device, 0.01 if small else 1.0) for what in COMPRESSIONS}
        first = next(iter(times.values()))["all"]
        found += [{"block": name, "what": what, **t, "of top-k": t["all"] / first} for what, t in times.items()]
    return found


def main() -> None:
    """Print a table, or JSON."""
    import torch

    device = "cuda" if "--cuda" in sys.argv else "cpu"
    torch.set_num_threads(1)
    found = rows(device, "--small" in sys.argv)
    where = torch.cuda.get_device_name() if device == "cuda" else "one thread"
    if "--json" in sys.argv:
        print(json.dumps({"device": where, "rows": found}, indent=2))
        return
    print(f"Seconds for one block, on {where}.\n")
    print(f"{'':<32}{'encode':>10}{'sum':>10}{'decode':>10}{'all':>10}{'of top-k':>10}")
    for row in found:
        times = "".join(f"{row[n]:>10.4f}" for n in ("encode", "sum", "decode", "all"))
        print(f"{row['block']:<8}{row['what']:<24}{times}{row['of top-k']:>10.2f}")


if __name__ == "__main__":
    main()
