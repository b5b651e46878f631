"""What accounting costs: calibrations, a million compositions, the whole curve, the discrete sampler.

    python -m benchmarks.accounting [--json]

One thread, in a warm process (imports are measured apart). Limits are held against processor seconds, which is what
the wall shows on an idle machine; both are printed.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

Row = dict[str, Any]


def timed(name: str, limit: float | None, work: Callable[[], str]) -> Row:
    """One row: what was done, how long it took, what was allowed and what came out."""
    wall = time.perf_counter()
    cpu = time.process_time()
    result = work()
    seconds = time.perf_counter() - wall
    used = time.process_time() - cpu
    return {
        "what": name,
        "seconds": round(seconds, 3),
        "limit": limit,
        "cpu": round(used, 3),
        "ok": limit is None or used <= limit,
        "result": result,
    }


def warm() -> str:
    """Import everything and touch it once, so that rows measure work alone."""
    from sfumato.accounting import accountant
    from sfumato.accounting.budget import Relation
    from sfumato.accounting.events import Event

    accountant.epsilon([Event("gaussian", 1.0, 1.0, 1.0, Relation.ADD_REMOVE, 0.01, 10)], 1e-5)
    return "ready"


def rows() -> list[Row]:
    """All measurements."""
    found = [timed("imports", None, warm)]
    return found + calibrations() + compositions() + [timed("discrete Gaussian, 1e6 integers, sigma 50", 2.0, sampler)]


def calibrations() -> list[Row]:
    """Noise for a budget of (1, 1e-5), by the accountant that is stated."""
    from sfumato.accounting import accountant
    from sfumato.accounting.budget import Relation
    from sfumato.accounting.calibrate import noise_within
    from sfumato.accounting.events import Event

    add = Relation.ADD_REMOVE
    replace = Relation.REPLACE_ONE

    def dp_sgd(relation: Relation, learning_rate: float, times: int, nu: float) -> list[Event]:
        return [Event("gaussian", nu, 1.0 if relation is add else 2.0, 1.0, relation, learning_rate, times)]

    def votes(nu: float, k: int = 200, times: int = 1301) -> list[Event]:
        size = 2 * math.sqrt(k)
        return [Event("discrete-gaussian", nu * size, size, size, add, times=times, shifts=((k, 2), (2 * k, 1)))]

    plans: dict[str, Callable[[float], list[Event]]] = {
        "dp-merf (one Gaussian)": lambda nu: [Event("gaussian", nu, 1.0, 1.0, add)],
        "dp-merf with a private label histogram": lambda nu: [
            Event("gaussian", nu, 1.0, 1.0, add),
            Event("discrete-gaussian", 10 * nu, 1.0, 1.0, add),
        ],
        "DP-SGD, 14,040 steps of 256/60000": lambda nu: dp_sgd(add, 256 / 60000, 14_040, nu),
        "the same under replace-one": lambda nu: dp_sgd(replace, 256 / 60000, 14_040, nu),
        "DP-SGD, 20,000 steps of 64/182637": lambda nu: dp_sgd(add, 64 / 182637, 20_000, nu),
        "truncated DP-SGD, 14,040 steps": lambda nu: [
            Event("gaussian", nu, 1.0, 1.0, add, 256 / 60000, 14_040, cap=400, records=60_000)
        ],
        "TopAgg, 1301 discrete queries of k 200": votes,
    }

    def run(events_at: Callable[[float], list[Event]]) -> str:
        noise = noise_within(events_at, 1.0, 1e-5)
        profile = accountant.profile(events_at(noise))
        return f"multiplier {noise:.5g}, epsilon {profile.epsilon(1e-5):.6f} by {profile.name}"

    return [timed(f"calibrate {name}", 2.0, lambda p=plan: run(p)) for name, plan in plans.items()]


def compositions() -> list[Row]:
    """A million subsampled compositions, and the whole curve of one."""
    from sfumato.accounting import accountant
    from sfumato.accounting.budget import Relation
    from sfumato.accounting.events import Event

    def million(learning_rate: float, multiplier: float, relation: Relation) -> str:
        size = 1.0 if relation is Relation.ADD_REMOVE else 2.0
        profile = accountant.profile([Event("gaussian", multiplier, size, 1.0, relation, learning_rate, 10**6)])
        return f"epsilon {profile.epsilon(1e-5):.4f} by {profile.name}"

    def curve() -> str:
        event = Event("gaussian", 1.0, 1.0, 1.0, Relation.ADD_REMOVE, 256 / 60000, 14_040)
        return f"{len(accountant.curve([event], [10 ** (-i / 10) for i in range(20, 101)]))} points"

    cases = [
        (rate, nu, relation) for rate, nu in ((1e-3, 1.0), (1e-4, 0.6), (1e-2, 5.0)) for relation in list(Relation)
    ]
    found = [
        timed(f"a million compositions, rate {q:g}, multiplier {nu:g}, {r}", 5.0, lambda c=(q, nu, r): million(*c))
        for q, nu, r in cases
    ]
    return [*found, timed("81 points of a curve, 14,040 steps", None, curve)]


def sampler() -> str:
    """The exact discrete Gaussian of the noise source."""
    from sfumato.privacy.noise import Noise

    drawn = Noise().discrete_gaussian(50.0, (1_000_000,))
    return f"standard deviation {float(drawn.std()):.2f}"


def main() -> None:
    """Print a table, or JSON."""
    found = rows()
    if "--json" in sys.argv[1:]:
        print(json.dumps({"threads": 1, "rows": found}, indent=2))
        return
    print("One thread.\n")
    for row in found:
        limit = "" if row["limit"] is None else f"  (limit {row['limit']:g} s{'' if row['ok'] else ', EXCEEDED'})"
        print(f"{row['seconds']:8.3f} s ({row['cpu']:.3f} s cpu)  {row['what']}{limit}\n            {row['result']}")


if __name__ == "__main__":
    main()
