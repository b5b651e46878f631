"""What clipping by example costs: a plain step, ours, torch.func's vmap, Opacus with hooks and with ghost clipping.

    python -m benchmarks.dpsgd [--json] [--net cnn] [--batch 256] [--device cuda] [--repeats 7]

A step is what leads from a batch to the gradient, without noise and update: the mean gradient for the plain step, the
sum of clipped gradients of single examples for the others. One thread on a CPU. Steps of all kinds take turns, so that
a busy machine slows them alike; the median is shown, with the fastest. Peak memory is what a step adds to the process
(a fresh one for each kind) or to the GPU. `away` is the distance to the clipped sum by vmap, relative. Maps have their
channels last, which is faster for plain steps too, except with Opacus, which then gives wrong gradients.

    cnn      3x3 convolutions of 32, 64 and 64, dense 64 (GS-WGAN, DataLens, DPAF), as in sfumato/evaluate/networks.py
    dp-cnn   the network of DataLens' Table 8: 8x8 and 4x4 convolutions of 16 and 32, dense 32
    unet     a small denoising network with group normalisation, skips and attention at 7x7
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Row = dict[str, Any]
Step = Callable[[], Tensor]
CLIP = 1.0
LIMITS = {"cpu": 1.7, "cuda": 1.5}  # times a plain step, on the CNN


def cnn() -> nn.Module:
    """93,322 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(576, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def dp_cnn() -> nn.Module:
    """26,010 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


class Block(nn.Module):
    """Two convolutions beside a skip, told the noise level."""

    def __init__(self, inputs: int, outputs: int, level: int) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.GroupNorm(4, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.level = nn.Linear(level, outputs)
        self.two = nn.Sequential(nn.GroupNorm(4, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        return self.skip(x) + self.two(self.one(x) + self.level(level)[:, :, None, None])


class UNet(nn.Module):
    """28 to 14 to 7 pixels and back."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(1, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.last = nn.Conv2d(width, 1, 3, padding=1)
        self.down = nn.ModuleList([Block(width, width, 32), Block(width, 2 * width, 32)])
        self.middle = Block(2 * width, 2 * width, 32)
        self.ask = nn.Linear(2 * width, 6 * width)
        self.give = nn.Linear(2 * width, 2 * width)
        self.up = nn.ModuleList([Block(4 * width, width, 32), Block(2 * width, width, 32)])

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        told = self.embed(level)
        high = self.down[0](self.first(x), told)
        low = self.down[1](F.avg_pool2d(high, 2), told)
        deep = self._attend(self.middle(F.avg_pool2d(low, 2), told))
        low = self.up[0](torch.cat([low, F.interpolate(deep, scale_factor=2)], 1), told)
        return self.last(self.up[1](torch.cat([high, F.interpolate(low, scale_factor=2)], 1), told))

    def _attend(self, x: Tensor) -> Tensor:
        flat = x.flatten(2).transpose(1, 2)
        mixed = self.give(F.scaled_dot_product_attention(*self.ask(flat).chunk(3, 2)))
        return (flat + mixed).transpose(1, 2).reshape(x.shape)


def classify(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy."""
    return F.cross_entropy(net(images), labels, reduction="none")


def denoise(net: nn.Module, images: Tensor, labels: Tensor, noise: Tensor, level: Tensor) -> Tensor:
    """Squared error of the predicted noise."""
    shown = images * (1 - level[:, :, None, None]) + noise * level[:, :, None, None]
    return (net(shown, level) - noise).square().mean((1, 2, 3))


NETS: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor]]] = {
    "cnn": (cnn, classify),
    "dp-cnn": (dp_cnn, classify),
    "unet": (UNet, denoise),
}


def setting(name: str, batch: int, device: str) -> tuple[nn.Module, Callable[..., Tensor], tuple[Tensor, ...]]:
    """Network, loss and a made-up batch; with the draws of the loss where it has some."""
    torch.manual_seed(0)
    make, loss = NETS[name]
    net = make().to(device, memory_format=torch.channels_last)
    data = [torch.rand(batch, 1, 28, 28), torch.randint(0, 10, (batch,))]
    if loss is denoise:
        data += [torch.randn(batch, 1, 28, 28), torch.rand(batch, 1)]
    return net, loss, tuple(t.to(device) for t in data)


def plain(net: nn.Module, loss: Callable[..., Tensor], data: tuple[Tensor, ...]) -> Step:
    """Forward and backward pass of the mean loss."""
    parameters = list(net.parameters())
    return lambda: _flat(torch.autograd.grad(loss(net, *data).mean(), parameters))


def engine(way: str) -> Callable[..., Step]:
    """Ours, by a way."""

    def make(net: nn.Module, loss: Callable[..., Tensor], data: tuple[Tensor, ...]) -> Step:
        from sfumato.engine.gradients.per_example import per_example

        drawn = data[2:]
        query = per_example(net, loss, CLIP, way=way, draw=lambda n: tuple(t[:n] for t in drawn))
        return lambda: query.total(*data[:2])

    return make


def opacus_hooks(net: nn.Module, loss: Callable[..., Tensor], data: tuple[Tensor, ...]) -> Step:
    """Opacus, materialised by hooks."""
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    wrapped = GradSampleModule(net, loss_reduction="sum")
    optimiser = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), 0.1),
        noise_multiplier=0.0,
        max_grad_norm=CLIP,
        expected_batch_size=len(data[0]),
        loss_reduction="sum",
    )

    def step() -> Tensor:
        optimiser.zero_grad()
        loss(wrapped, *data).sum().backward()
        optimiser.clip_and_accumulate()
        return _flat([p.summed_grad for p in optimiser.params])

    return step


def opacus_ghost(net: nn.Module, loss: Callable[..., Tensor], data: tuple[Tensor, ...]) -> Step:
    """Opacus, norms first, then a second backward pass."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping

    wrapped = GradSampleModuleFastGradientClipping(
        net, loss_reduction="sum", max_grad_norm=CLIP, use_ghost_clipping=True
    )

    def step() -> Tensor:
        wrapped.zero_grad()
        losses = loss(wrapped, *data)
        losses.sum().backward(retain_graph=True)
        wrapped.zero_grad()
        weights = wrapped.get_clipping_coef()
        wrapped.disable_hooks()
        (weights * losses).sum().backward()
        wrapped.enable_hooks()
        return _flat([p.grad for p in wrapped.parameters()])

    return step


def _flat(tensors: Any) -> Tensor:
    return torch.cat([t.detach().flatten() for t in tensors])


KINDS: dict[str, Callable[..., Step]] = {
    "plain": plain,
    "ours": engine("ghost"),
    "vmap": engine("vmap"),
    "opacus hooks": opacus_hooks,
    "opacus ghost": opacus_ghost,
}


def built(kind: str, name: str, batch: int, device: str) -> Step:
    """One kind of step, ready to run."""
    warnings.simplefilter("ignore")
    net, loss, data = setting(name, batch, device)
    if kind.startswith("opacus"):
        # Its hooks for convolutions read maps with channels last in the wrong order (1.6.0): `away` is 0.05 to 0.5.
        net = net.to(memory_format=torch.contiguous_format)
    return KINDS[kind](net, loss, data)


def measure(name: str, batch: int, device: str, repeats: int) -> list[Row]:
    """All kinds of steps on one network."""
    steps = {}
    rows = []
    for kind in KINDS:
        try:
            steps[kind] = built(kind, name, batch, device)
            steps[kind]()
        except Exception as error:  # a mode of Opacus that is missing or cannot take the network is a result too
            steps.pop(kind, None)
            rows.append({"net": name, "what": kind, "skipped": f"{type(error).__name__}: {error}".splitlines()[0]})
    seconds: dict[str, list[float]] = {kind: [] for kind in steps}
    for _ in range(repeats):
        for kind, step in steps.items():
            seconds[kind].append(timed(step, device))
    exact = steps["vmap"]().double()
    found = []
    for kind, step in steps.items():
        middle = statistics.median(seconds[kind])
        row: Row = {"net": name, "what": kind, "seconds": round(middle, 4), "fastest": round(min(seconds[kind]), 4)}
        row["times plain"] = round(middle / statistics.median(seconds["plain"]), 2)
        row["peak MB"] = peak(kind, name, batch, device)
        if kind != "plain":
            row["away"] = float(f"{float((step().double() - exact).norm() / exact.norm()):.1e}")
        if kind == "ours" and name == "cnn":
            row |= {"limit": LIMITS[device], "ok": row["times plain"] <= LIMITS[device]}
        found.append(row)
    return found + rows


def timed(step: Step, device: str) -> float:
    """Processor seconds on a CPU, wall seconds on a GPU."""
    if device == "cpu":
        start = time.process_time()
        step()
        return time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def peak(kind: str, name: str, batch: int, device: str) -> float:
    """Megabytes that a step adds at its highest."""
    if device != "cpu":
        step = built(kind, name, batch, device)
        step()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return round((torch.cuda.max_memory_allocated() - before) / 1e6, 1)
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak, (kind, name, batch))


def _peak(kind: str, name: str, batch: int) -> float:
    torch.set_num_threads(1)
    # A step of a small batch loads what only the first step loads.
    with contextlib.suppress(Exception):
        built(kind, name, 4, "cpu")()
    step = built(kind, name, batch, "cpu")
    before = _resident("VmRSS")
    step()
    return round((_resident("VmHWM") - before) / 1e3, 1)


def _resident(field: str) -> float:
    """Kilobytes of this process now (VmRSS) or at most so far (VmHWM), by Linux."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(field))


def arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--net", choices=list(NETS), action="append")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--repeats", type=int, default=7)
    return parser.parse_args()


def main() -> None:
    """Print a table, or JSON."""
    chosen = arguments()
    torch.set_num_threads(1)
    found = [row for name in chosen.net or NETS for row in measure(name, chosen.batch, chosen.device, chosen.repeats)]
    if chosen.json:
        print(json.dumps({"threads": 1, "device": chosen.device, "batch": chosen.batch, "rows": found}, indent=2))
        return
    print(f"Batch {chosen.batch} on {chosen.device}, one thread.\n")
    for row in found:
        if "skipped" in row:
            print(f"{row['net']:8} {row['what']:14} skipped: {row['skipped']}")
            continue
        limit = "" if "limit" not in row else f"  (limit {row['limit']:g}{'' if row['ok'] else ', EXCEEDED'})"
        print(
            f"{row['net']:8} {row['what']:14} {row['seconds']:8.4f} s, {row['times plain']:6.2f} times plain{limit}, "
            f"{row['peak MB']:8.1f} MB, away {row.get('away', '')}"
        )


if __name__ == "__main__":
    main()
