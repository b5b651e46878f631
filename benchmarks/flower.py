"""How long a question takes over Flower: `.venv-federation/bin/python -m benchmarks.flower`.

A SuperLink and three sites are processes on this machine, and the sites give back what they get. One question is one
message to each of them and the three replies; questions follow each other at once, as in a run.
"""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path
from statistics import median

from sfumato.federation import flower
from sfumato.federation.transport import Transport
from tests.federation.flower.processes import processes, superlink

SITES = ("north", "south", "west")
SIZES = {"1 KB": 1 << 10, "1 MB": 1 << 20, "16 MB": 1 << 24}
TIMES = 15


def once(transport: Transport, body: bytes) -> float:
    """Seconds until all have replied."""
    began = time.perf_counter()
    replies = transport.ask(dict.fromkeys(SITES, body))
    assert len(replies) == len(SITES)
    return time.perf_counter() - began


def measure(transport: Transport) -> None:
    """A line for each size."""
    print(f"{'each way':<10} {'median':>8} {'best':>8} {'worst':>8}")
    for name, size in SIZES.items():
        times = [once(transport, bytes(size - 2) + number.to_bytes(2)) for number in range(TIMES)]
        print(f"{name:<10} {median(times):7.2f}s {min(times):7.2f}s {max(times):7.2f}s", flush=True)


def main() -> None:
    """Start all, ask, and end all."""
    with tempfile.TemporaryDirectory() as folder, processes(Path(folder)) as started:
        address = superlink(started)
        for name in SITES:
            started.python(name, "tests.federation.flower.echo", name, address)
        logging.disable()
        flower.run_coordinator(SITES, measure, address, timeout=60)


if __name__ == "__main__":
    main()
