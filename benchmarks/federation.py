"""Three sites against the pooled set at the same noise: Fashion-MNIST, uneven and class-skewed, by kernel votes.

    python -m benchmarks.federation [--records 60000] [--seeds 3] [--epsilon 1] [--skew 0.5] [--set FIELD=VALUE]

The sites have 60, 35 and 5 % of the records; the shares of the classes at a site are drawn from a Dirichlet law of
parameter `--skew`: at 0.5 some lack whole classes, at 1000 all have the same. All sites and the coordinator are one
process here: the same messages, masks, shares of noise and ledgers as over a network, and none of its delays. A linear
classifier learns from 2,000 synthetic images and is tested on the real test set. With no dropouts the noise of both
sums has one law. What may differ beyond seeds is skew: a kernel teacher without an image of a class has no vote on it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

from sfumato import Images, Run, load  # noqa: E402
from sfumato.data import load_public  # noqa: E402
from sfumato.federation.agreement import Agreement  # noqa: E402
from sfumato.federation.coordinator import Federation  # noqa: E402
from sfumato.federation.site import at_site  # noqa: E402
from sfumato.federation.transport import InProcess  # noqa: E402
from sfumato.flow.tune import JUDGED, judge  # noqa: E402
from sfumato.privacy.barrier import Barrier  # noqa: E402
from sfumato.privacy.odometer import Odometer  # noqa: E402
from sfumato.types import DataSpec  # noqa: E402

SHARES = {"north": 0.6, "south": 0.35, "isle": 0.05}
BENCHMARK = "a public benchmark"
SETTINGS = {
    "teachers": "1000",
    "teacher_batch": "12",
    "frequencies": "500",
    "steps": "20",
    "batch": "50",
    "fits": "15",
    "finish": "200",
    "fakes": "200",
    "width": "16",
}


class Counted(InProcess):
    """Counts what passes."""

    messages = 0
    bytes = 0

    def ask(self, requests: Any, timeout: float | None = None) -> Any:
        replies = super().ask(requests, timeout)
        self.messages += len(requests)
        self.bytes += sum(map(len, requests.values())) + sum(map(len, replies.values()))
        return replies


def split(images: Images, skew: float, seed: int = 0) -> dict[str, Images]:
    """Uneven sites, each with its own shares of the classes; every record is at one of them."""
    random = np.random.default_rng(seed)
    likes = random.dirichlet([skew] * len(images.classes), len(SHARES)) * np.array(list(SHARES.values()))[:, None]
    left = np.round(np.array(list(SHARES.values())) * len(images)).astype(int)
    left[0] += len(images) - left.sum()
    home = np.empty(len(images), int)
    for row in random.permutation(len(images)):
        odds = likes[:, images.labels[row]] * (left > 0) + 1e-12 * (left > 0)
        home[row] = random.choice(len(SHARES), p=odds / odds.sum())
        left[home[row]] -= 1
    return {name: images[np.flatnonzero(home == i)] for i, name in enumerate(SHARES)}


def federated(agreed: Agreement, parts: dict[str, Images], seed: int) -> tuple[Any, dict[str, Any]]:
    """A generator learned by all sites, and what passed between them."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        os.environ["SFUMATO_RUNS"] = f"{folder}/runs"
        sites = {
            name: stack.enter_context(
                at_site(agreed, name, load((part.pixels, part.labels)), ledger=Path(folder) / f"{name}.sqlite")
            )
            for name, part in parts.items()
        }
        transport = Counted(sites)
        far = Federation(agreed, transport, Path(folder) / "state")
        far.join()
        run = Run(device="cpu", seed=seed, odometer=far.odometer)
        net = agreed.made.learn(Barrier.before(far), run)
        run.finished()
        far.end()
        return net, {"messages": transport.messages, "megabytes": transport.bytes / 1e6}


def pooled(agreed: Agreement, images: Images, seed: int) -> tuple[Any, dict[str, Any]]:
    """A generator learned from all records in one place, with the same plan."""
    odometer = Odometer(agreed.plan)
    barrier = Barrier(load((images.pixels, images.labels)), agreed.spec, odometer)
    return agreed.made.learn(barrier, Run(device="cpu", seed=seed, odometer=odometer)), {}


def measure(agreed: Agreement, parts: dict[str, Images], images: Images, test: Images, seed: int) -> dict[str, Any]:
    """Accuracy and time of both."""
    row: dict[str, Any] = {"seed": seed}
    for name, learn, data in (("federated", federated, parts), ("pooled", pooled, images)):
        began = time.monotonic()
        net, told = learn(agreed, data, seed)  # type: ignore[operator]
        row |= {f"{name}_{key}": value for key, value in told.items()}
        row[f"{name}_seconds"] = time.monotonic() - began
        row[f"{name}_accuracy"] = judge(net.sample(JUDGED, seed=seed)).accuracy(test)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--skew", type=float, default=0.5)
    parser.add_argument("--method", default="kernel-votes")
    parser.add_argument("--dropouts", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    train = load_public("fashion-mnist", BENCHMARK).images[: asked.records]
    test = load_public("fashion-mnist", BENCHMARK, split="test").images
    parts = split(train, asked.skew)
    chosen = SETTINGS if asked.method == "kernel-votes" else {}
    spec = DataSpec("fashion-mnist", len(train), train.pixels.shape[1:], tuple("0123456789"))  # type: ignore[arg-type]
    agreed = Agreement(
        spec,
        {name: len(part) for name, part in parts.items()},
        asked.method,
        asked.epsilon,
        chosen | dict(text.split("=", 1) for text in asked.set),
        "uniform",
        dropouts=asked.dropouts,
    )
    rows = [measure(agreed, parts, train, test, seed) for seed in range(asked.seeds)]
    report(rows, {name: np.bincount(part.labels, minlength=10).tolist() for name, part in parts.items()}, asked.json)


def report(rows: list[dict[str, Any]], sites: dict[str, list[int]], as_json: bool) -> None:
    """All of it, as JSON or as a table."""
    if as_json:
        print(json.dumps({"sites": sites, "rows": rows}))
        return
    for name, counts in sites.items():
        print(f"{name:>6} {sum(counts):6,} records, by class {counts}")
    for kind in ("federated", "pooled"):
        found = [row[f"{kind}_accuracy"] for row in rows]
        spread = statistics.stdev(found) if len(found) > 1 else 0.0
        seconds = statistics.mean(row[f"{kind}_seconds"] for row in rows)
        print(f"{kind:>10}: accuracy {statistics.mean(found):.3f} ± {spread:.3f}, {seconds:.0f} s a run")
    print(f"messages of a run: {rows[0]['federated_messages']:,}, {rows[0]['federated_megabytes']:.1f} MB")


if __name__ == "__main__":
    main()
