"""The figures of the papers, drawn from what is computed or measured: SVG, the same bytes each time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.bench.datalens_trained import table_8
from sfumato.bench.results import Result, matched
from sfumato.bench.run import Asked
from sfumato.bench.table import Figure, where
from sfumato.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

INK = "#222222"
TONES = ("#2c6e9b", "#e08e2b", "#5a8f5a", "#8a5a9b", "#b3261e")
DELTA = 1e-5
# Figure 2: set, k, sigma, beta, teachers, images a step, pixels of an image; as in section 5.3 and the official code.
SETTINGS = (
    ("MNIST", 200, 5000.0, 0.7, 4000, 15, 784),
    ("CelebA-Hair", 700, 9000.0, 0.9, 8000, 15, 12_288),
)
CALLED = {"Apart": "Flatten"}  # layers of ours that have a name of their own
SAMPLED = (("mnist", 1.0), ("mnist", 10.0), ("fashion-mnist", 1.0), ("fashion-mnist", 10.0))


def draw(entry: Figure, results: Sequence[Result], asked: Asked, out: Path) -> None:
    """Draw a figure into a file of the kind that its name says."""
    if out.suffix not in (".svg", ".png"):
        raise InputError(f"Expected --out FILE.svg or FILE.png, found '{out.name}'.")
    out.parent.mkdir(parents=True, exist_ok=True)
    if entry.runs:
        return samples(asked, out)
    drawings: dict[str, Callable[[Sequence[Result]], Canvas]] = {
        "dependent_bound": lambda _: dependent_bound(),
        "privacy_accuracy": privacy_accuracy,
        "convergence": lambda _: convergence_bound(),
        "classifier": lambda _: classifier(),
        "barriers": lambda _: barriers(),
    }
    return _save(drawings[entry.drawing](results), out)


def _save(canvas: Canvas, out: Path) -> None:
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "sfumato", "svg.fonttype": "none"}):
        metadata = {"Date": None} if out.suffix == ".svg" else None
        canvas.savefig(out, dpi=110, metadata=metadata)


def _canvas(panels: int, width: float = 4.6, height: float = 3.6) -> tuple[Canvas, list[Axes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(width * panels, height), layout="constrained")
    FigureCanvasAgg(canvas)
    return canvas, [canvas.add_subplot(1, panels, at + 1) for at in range(panels)]


def _finished(axes: Axes, title: str, x: str, y: str, **more: Any) -> None:
    axes.set(xlabel=x, ylabel=y, **more)
    axes.set_title(title, fontsize=10, color=INK)
    axes.grid(color="#e5e5e5", linewidth=0.6)
    axes.legend(fontsize=8, frameon=False)


def failure(k: int, sigma: float, beta: float, teachers: int, pixels: int) -> float:
    """log10 of the chance that TopAgg gives its likeliest answer, where all teachers agree: 1 - q of theorem 5.

    Votes are made up: k pixels with every vote, none on the others. No votes of teachers are more alike.
    """
    from sfumato.accounting.data_dependent import threshold_outcome

    threshold = beta * teachers
    one, none = (max(threshold_outcome(v, threshold, sigma, o) for o in (-1, 0, 1)) for v in (teachers, 0.0))
    return (k * math.log(one) + (pixels - k) * math.log(none)) / math.log(10)


def independent(k: int, sigma: float, images: int) -> tuple[list[int], list[float], list[float]]:
    """Steps, with epsilon after each by theorem 3 and exactly, until theorem 3 says 1."""
    from sfumato.accounting.claims.datalens_votes import datalens as claimed
    from sfumato.accounting.claims.datalens_votes import datalens_queries
    from sfumato.accounting.gaussian import epsilon_of

    steps = list(range(1, datalens_queries(k, sigma, 1.0, DELTA) // images + 1))
    printed = [claimed(k, sigma, DELTA, queries=images * step)["epsilon"] for step in steps]
    exact = [epsilon_of(DELTA, 2 * math.sqrt(k * images * step) / sigma) for step in steps]
    return steps, printed, exact


def dependent_bound() -> Canvas:
    """Figure 2: epsilon by steps, and in how few dimensions a data-dependent bound could help at all."""
    from sfumato.accounting.data_dependent import gaussian_likely_outcome

    canvas, panels = _canvas(3)
    for axes, (name, k, sigma, beta, teachers, images, pixels) in zip(panels, SETTINGS, strict=False):
        steps, printed, exact = independent(k, sigma, images)
        chance = failure(k, sigma, beta, teachers, pixels)
        axes.plot(steps, printed, color=TONES[0], label="data-independent, theorem 3")
        axes.plot(steps, exact, color=TONES[2], label="the same, exactly")
        axes.plot(
            steps, printed, ":", color=TONES[1], linewidth=2.5, label=f"data-dependent: 1 - q = 1e{chance:.0f}, no help"
        )
        _finished(axes, f"{name}: k {k}, sigma {sigma:g}", "generator steps", "epsilon at delta 1e-5")
    order = 8.0
    _, k, sigma, beta, teachers, _, _ = SETTINGS[0]
    for noise, tone in zip((700.0, 900.0, 1100.0, sigma), TONES, strict=False):
        slope = 2 * k / noise**2
        dimensions = [round(1.15**i) for i in range(50)]
        shares = [
            gaussian_likely_outcome(order, -math.expm1(failure(0, noise, beta, teachers, d) * math.log(10)), slope)
            / (slope * order)
            for d in dimensions
        ]
        panels[2].plot(dimensions, shares, color=tone, label=f"sigma {noise:g}")
    _finished(
        panels[2], "no votes at all, threshold 2800", "dimensions", "data-dependent / data-independent", xscale="log"
    )
    return canvas


def convergence_bound() -> Canvas:
    """Theorem 6: what k costs in bias and in noise, for guesses M = L = c = 1 and a learning rate of 0.01."""
    from sfumato.accounting.convergence import Landscape, bound, noise_constant, weibull_tau
    from sfumato.accounting.gaussian import mu_of

    canvas, panels = _canvas(2)
    teachers, images, queries, d = 4000, 15, 1301, 784
    ks = range(1, d + 1)
    for axes, title, noisy in zip(panels, ("as printed", "noise in all coordinates"), (1, d), strict=True):
        for epsilon, tone in zip((0.2, 1.0, 10.0), TONES, strict=False):
            noise = noise_constant(mu_of(epsilon, DELTA), queries) / teachers**2
            land = Landscape(d, 1.0, 1.0, 1.0, noise, 0.01, queries // images, 1.0, noisy_coordinates=noisy)
            values = [bound(k, weibull_tau(k, d, 1.0, 0.3), land) for k in ks]
            best = min(ks, key=lambda k, v=values: v[k - 1])  # type: ignore[misc]
            axes.plot(ks, values, color=tone, label=f"epsilon {epsilon:g}: least at k {best}")
            axes.plot([best], [values[best - 1]], "o", color=tone)
        _finished(axes, f"Theorem 6, {title}", "k of 784", "bound", yscale="linear" if noisy == 1 else "log")
    return canvas


def privacy_accuracy(results: Sequence[Result]) -> Canvas:
    """Figure 3: accuracy against epsilon, printed and ours, of tables 8a and 8b."""
    canvas, panels = _canvas(2)
    cells = table_8()
    for axes, data in zip(panels, ("mnist", "cifar10"), strict=True):
        for column, tone in zip(("k 0.7", "k 0.8", "GM-DP"), TONES, strict=False):
            mine = [c for c in cells if c.data == data and c.column == column and c.epsilon != math.inf]
            printed = [(c.epsilon, c.printed) for c in mine if c.epsilon and c.printed]
            axes.plot(*zip(*printed, strict=True), "--", color=tone, label=f"{column}, printed")
            found = [(c.epsilon, m[0].result.values["fixed"]) for c in mine if (m := matched(c, results, cells))]
            if found:
                xs, values = zip(*found, strict=True)
                means = [100 * v["mean"] for v in values]
                axes.errorbar(
                    xs, means, [100 * (v["std"] or 0) for v in values], color=tone, marker="o", label=f"{column}, ours"
                )
        _finished(axes, f"{where(data, None)}, DP-SGD with TopAgg", "epsilon", "accuracy, %", xscale="log")
    return canvas


def classifier() -> Canvas:
    """Figure 8 of DPAF: the CNN that judges, layer by layer, as it is built here."""
    import torch

    from sfumato.evaluate.networks import build

    layers = []
    shown = torch.zeros(2, 3, 64, 64)
    for layer in build("cnn", (3, 64, 64), 2, [0]).eval():
        shown = layer(shown)
        size = "x".join(map(str, shown.shape[1:])) if shown.dim() == 4 else str(shown.shape[-1])
        layers.append((CALLED.get(type(layer).__name__, type(layer).__name__.removesuffix("2d")), size))
    canvas, (axes,) = _canvas(1, 1.05 * len(layers), 1.6)
    axes.axis("off")
    axes.set(xlim=(-0.6, len(layers) - 0.4), ylim=(0, 1))
    for at, (name, size) in enumerate(layers):
        axes.text(
            at,
            0.62,
            name,
            ha="center",
            fontsize=9,
            color=INK,
            bbox={"boxstyle": "round", "facecolor": "#e8f0f5", "edgecolor": TONES[0]},
        )
        axes.text(at, 0.25, size, ha="center", fontsize=8, color=INK)
    return canvas


def barriers() -> Canvas:
    """Figure 1 of the survey: the blocks of a generative model, the four barriers, and the methods at each."""
    from sfumato.methods.registry import find, names
    from sfumato.types import Site

    canvas, (axes,) = _canvas(1, 10.0, 3.6)
    axes.axis("off")
    axes.set(xlim=(0, 8), ylim=(-2.9, 2))
    blocks = ("real data", "measurement", "synthetic data", "generator")
    for at, block in enumerate(blocks):
        axes.text(
            2 * at + 1,
            1,
            block,
            ha="center",
            va="center",
            bbox={"boxstyle": "round,pad=0.6", "facecolor": "#f4f1ea", "edgecolor": INK},
        )
    for start, end in ((1, 3), (5, 3), (7, 5)):  # what is compared, and where it comes from
        toward = 0.55 if end > start else -0.55
        axes.annotate("", (end - toward, 1), (start + toward, 1), arrowprops={"arrowstyle": "->", "color": INK})
    places = {Site.B1: 2.0, Site.B2: 3.0, Site.B3: 4.0, Site.B4: 7.0}
    for (site, x), tone in zip(places.items(), TONES, strict=False):
        axes.plot([x, x], [-0.1, 1.8], color=tone, linewidth=2, zorder=0)
        axes.text(x, -0.25, site.name, ha="center", va="top", color=tone, weight="bold")
        mine = [name for name in names() if find(name).site is site]
        axes.text(x, -0.75, "\n".join(mine), ha="center", va="top", fontsize=8, color=INK)
    return canvas


def samples(asked: Asked, out: Path) -> None:
    """Figure 4: images of DataLens at epsilon 1 and 10, a column a class; sets that are not here are left out."""
    from sfumato.accounting.budget import Budget
    from sfumato.bench.measure import method_of, release
    from sfumato.bench.pictures import beside, grid
    from sfumato.bench.table import Source
    from sfumato.data.images import png

    if out.suffix != ".png":
        raise InputError(f"Expected --out FILE.png for a grid of images, found '{out.name}'.")
    found = []
    for data, epsilon in SAMPLED:
        if data == "mnist" and data not in asked.given:
            continue
        method = method_of(Source(f"datalens-code-{data}-{epsilon:g}"), {})
        images = release(method, asked.given.get(data, data), Budget(epsilon), seed=0, count=200, device=asked.device)
        found.append(grid(images, scale=1))
    out.write_bytes(png(beside(found)))
