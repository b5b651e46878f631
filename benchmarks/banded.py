"""What correlated noise is worth: the noise of a plan's gradients for the same budget, by batch and number of bands.

    python -m benchmarks.banded [--steps 2000] [--records 60000] [--epsilon 1 10] [--batch 1024] [--bands 1 8 16 32 48]

z        deviation of Z over the clipping norm
|c|      norm of a column, by which a gradient is stretched before it is charged for
step     noise of the mean gradient of one step, in clipping norms: z times the rows of C^-1, over the batch
sums     noise of the mean gradient in the sums of all steps so far, root mean square: what independent noise of this
         size would leave there. It is the figure that weights without momentum follow.
as batch the batch that has the same noise in its sums without correlation; its work against ours is the saving

All of it is computed from public facts; no record and no noise is drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.signal import lfilter

from sfumato import DPDM, Budget, DataSpec
from sfumato.privacy.banded import ONE, Banded

COLUMNS = ("epsilon", "batch", "bands", "power", "z", "|c|", "step", "sums", "as batch")


def noise_of(method: DPDM, spec: DataSpec, epsilon: float) -> tuple[float, float, float]:
    """z, and the noise of one step and of sums, over the batch."""
    sgd = method.dpsgd(spec)
    z = method.plan(spec, Budget(epsilon)).facts["noise"]
    rows = float(np.sqrt(mean_square_row(sgd.matrix, sgd.steps)))
    return z, z * rows / sgd.batch, z * sgd.noise_of_sums / sgd.batch


def mean_square_row(matrix: Banded, steps: int) -> float:
    """Of C^-1."""
    inverse = lfilter([1.0], np.array(matrix.coefficients) / ONE, np.eye(1, steps)[0])
    return float((np.arange(steps, 0, -1) * inverse**2).sum() / steps)


def as_batch(sums: float, spec: DataSpec, epsilon: float, steps: int) -> str:
    """The batch whose independent noise is no larger, within a twentieth; most sets are too small for some."""
    low, high = 16, spec.records // 4
    if noise_of(DPDM(steps=steps, batch=high), spec, epsilon)[2] > sums:
        return f"over {high}"
    while high > 1.05 * low:
        middle = round((low * high) ** 0.5)
        enough = noise_of(DPDM(steps=steps, batch=middle), spec, epsilon)[2] <= sums
        low, high = (low, middle) if enough else (middle, high)
    return str(high)


def rows(options: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """A line for each number of bands, at each epsilon."""
    spec = DataSpec("public facts", options.records, (1, 28, 28), tuple("0123456789"))
    for epsilon in options.epsilon:
        for bands in options.bands:
            method = DPDM(steps=options.steps, batch=options.batch, bands=bands)
            matrix = method.dpsgd(spec).matrix
            z, step, sums = noise_of(method, spec, epsilon)
            other = as_batch(sums, spec, epsilon, options.steps) if bands > 1 else str(options.batch)
            shown = (f"{z:.4g}", f"{matrix.column_norm(options.steps):.3f}", f"{step:.3e}", f"{sums:.3e}", other)
            yield (f"{epsilon:g}", str(options.batch), str(bands), f"{matrix.power:.3f}", *shown)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--bands", type=int, nargs="+", default=[1, 8, 16, 32, 48])
    print(" ".join(f"{name:>10}" for name in COLUMNS))
    for row in rows(parser.parse_args()):
        print(" ".join(f"{value:>10}" for value in row), flush=True)


if __name__ == "__main__":
    main()
