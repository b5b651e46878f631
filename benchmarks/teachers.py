"""What thousands of teachers cost: a generator step is two updates of every teacher and the directions of 15 fakes.

A teacher learns from fakes of its own labels, picked from those of every class; on CUDA a step with fakes of the
query's labels, the same for all, takes turns with it.

    python -m benchmarks.teachers [--json] [--teachers N] [--device cuda] [--full]

On a CPU, one thread: stacked teachers against a loop over the same teachers as ordinary modules, and the scaling from
64 to 2048 small teachers. On CUDA: a sweep over precision, moments and block size. `--full` takes the critic of the
paper (0.556 M parameters) rather than a small one; it is what CUDA is for.

The least traffic of one teacher of the paper is counted by `traffic`. Of an update: weights read forth and back, their
gradient written and read, weights and moments changed, short weights kept beside long ones; windows of the second
convolution written once and read twice, those of its gradient written and read; a few passes over the maps. For 4000
teachers, at the 4.3 TB/s of a copy on an H200 (counted, not measured):

    products   moments    traffic   floor    state      beside, in blocks of 1000
    tf32       float32    339 GB    79 ms    26.7 GB    9.8 GB
    tf32       bfloat16   304 GB    71 ms    17.8 GB    9.8 GB
    bfloat16   float32    241 GB    56 ms    31.0 GB    6.6 GB
    bfloat16   bfloat16   188 GB    44 ms    22.0 GB    6.6 GB

Where both are bfloat16 the gradient of the linear layer is not stored at all (`sfumato/engine/teachers/fused_adam.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from sfumato.engine.teachers.critics import Critics  # noqa: E402
from sfumato.engine.teachers.stacked import Stacked, chunk_for  # noqa: E402

Row = dict[str, Any]
FAKES = 15
KINDS = (
    ("bfloat16", "bfloat16", 1000),
    ("tf32", "float32", 1000),
    ("bfloat16", "bfloat16", 2000),
    ("tf32", "bfloat16", 1000),
    ("bfloat16", "float32", 1000),
    ("tf32", "float32", 500),
    ("float32", "float32", 1000),
)


class Plain(nn.Module):
    """The critic as one would write it for a single teacher: planes concatenated, layers of torch.nn."""

    def __init__(self, critics: Critics) -> None:
        super().__init__()
        (c, _, _), y, (a, b) = critics.shape, critics.classes, critics.maps
        self.critics = critics
        self.first = nn.Conv2d(c + y, a, 5, 2, 2)
        self.second = nn.Conv2d(a + y, b, 5, 2, 2)
        self.dense = nn.Linear(b * critics.positions[2] + y, critics.hidden)
        self.last = nn.Linear(critics.hidden + y, 1)
        self.norms = nn.ModuleList()
        if critics.norm:
            self.norms.append(nn.BatchNorm2d(b, track_running_stats=False))
            self.norms.append(nn.BatchNorm1d(critics.hidden, track_running_stats=False))

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        hot = functional.one_hot(labels, self.critics.classes).to(x) if self.critics.classes else x.new_zeros(len(x), 0)

        def planes(z: Tensor) -> Tensor:
            return torch.cat([z, hot[:, :, None, None].expand(-1, -1, *z.shape[2:])], 1)

        norms = self.norms or (nn.Identity(), nn.Identity())
        x = functional.leaky_relu(self.first(planes(x)), 0.2)
        x = functional.leaky_relu(norms[0](self.second(planes(x))), 0.2)
        x = functional.leaky_relu(norms[1](self.dense(torch.cat([x.flatten(1), hot], 1))), 0.2)
        return self.last(torch.cat([x, hot], 1))[:, 0]


def plain_of(block: Stacked, teacher: int) -> Plain:
    """The same teacher as a plain module, weights copied."""
    r = block.critics
    w = {name: tensor[teacher] for name, tensor in block.weights.items()}
    net, y, (a, b) = Plain(r).to(w["last"]), r.classes, r.maps
    for conv, name, inputs in ((net.first, "first", r.shape[0]), (net.second, "second", a)):
        image = w[name].view(5, 5, inputs, -1).permute(3, 2, 0, 1)
        label = w[f"{name}_label"].view(y, 5, 5, conv.out_channels).permute(3, 0, 1, 2)
        conv.weight.data = torch.cat([image, label], 1).contiguous()
        conv.bias.data = w[f"{name}_bias"].clone()
    size = b * r.positions[2]
    maps = w["dense"][:size].view(r.positions[2], b, r.hidden).permute(2, 1, 0).flatten(1)
    net.dense.weight.data = torch.cat([maps, w["dense"][size : size + y].mT], 1).contiguous()
    net.dense.bias.data = w["dense"][size + y].clone()
    net.last.weight.data = w["last"][None, :-1].clone()
    net.last.bias.data = w["last"][-1:].clone()
    for norm, name in zip(net.norms, ("second", "dense"), strict=False):
        norm.weight.data = w[f"{name}_scale"].clone()
        norm.bias.data = w[f"{name}_shift"].clone()
    return net


def adam_of(net: Plain) -> torch.optim.Optimizer:
    """The optimiser that the critics asks for."""
    return torch.optim.Adam(
        net.parameters(), lr=net.critics.learning_rate, betas=(net.critics.beta1, net.critics.beta2)
    )


def teach(
    net: Plain, optimiser: torch.optim.Optimizer, real: Tensor, labels: Tensor, fakes: Tensor, fake_labels: Tensor
) -> None:
    """One update of a plain teacher."""
    optimiser.zero_grad()
    loss = functional.softplus(-net(real, labels)).mean() + functional.softplus(net(fakes, fake_labels)).mean()
    loss.backward()
    optimiser.step()


def ask(net: Plain, fakes: Tensor, labels: Tensor) -> Tensor:
    """Directions of a plain teacher (m, c h w)."""
    fakes = fakes.clone().requires_grad_()
    return -torch.autograd.grad(functional.softplus(-net(fakes, labels)).mean(), fakes)[0].flatten(1)


def critics_for(full: bool, **settings: Any) -> Critics:
    """The paper's critic, or a small one."""
    return Critics((1, 28, 28), 10, **({} if full else {"width": 8, "hidden": 32}), **settings)


def given(critics: Critics, count: int, device: str) -> list[Tensor]:
    """Made-up images and labels of `count` teachers, and fakes of every class."""
    images = torch.rand(count, critics.teacher_batch, *critics.shape, device=device)
    labels = torch.randint(critics.classes, (count, critics.teacher_batch), device=device)
    return [images, labels, torch.rand(FAKES, critics.classes, *critics.shape, device=device)]


def asked(fakes: Tensor) -> tuple[Tensor, Tensor]:
    """Fakes of one class for each latent, with their labels: what a query asks about."""
    latents = torch.arange(len(fakes), device=fakes.device)
    labels = latents % fakes.shape[1]
    return fakes[latents, labels], labels


def step(blocks: list[Stacked], images: Tensor, labels: Tensor, fakes: Tensor, own_labels: bool = True) -> None:
    """A generator step's work of all teachers, block by block."""
    start = 0
    query = asked(fakes)
    for block in blocks:
        own = slice(start, start := start + block.count)
        for _ in range(2):
            block.update(images[own], labels[own], *((fakes,) if own_labels else query))
        block.directions(*query)


def blocks_of(critics: Critics, count: int, device: str, chunk: int | None = None) -> list[Stacked]:
    """`count` teachers in blocks."""
    size = chunk or chunk_for(critics, device, count)
    random = torch.Generator().manual_seed(0)
    return [critics.make(min(size, count - start), random, device) for start in range(0, count, size)]


def traffic(critics: Critics) -> int:
    """Bytes that a generator step of one teacher moves at least (see above)."""
    (a, b), (_, first, second), n = critics.maps, critics.positions, critics.teacher_batch + FAKES
    short = critics.precision == "bfloat16"
    rounded = critics.moments == "bfloat16"
    e = 2 if short else 4
    windows = 25 * a * second
    back = 9 * b * second
    grads = 0 if short and rounded else 2 * e
    each = 2 * e + grads + 8 + (8 if rounded else 16) + (2 if short else 0)  # read, gradient, changed, moments, copy
    update = each * critics.parameters + n * e * (3 * windows + 2 * back + 3 * 25 * critics.shape[0] * first)
    maps = n * (5 * e * a * first + 4 * 8 * b * second)
    directions = 2 * e * critics.parameters + FAKES * e * (2 * windows + 2 * back + 2 * 9 * a * first) + maps // 3
    return 2 * (update + maps) + directions


def clocked(work: Callable[[], Any]) -> float:
    """Processor seconds."""
    start = time.process_time()
    work()
    return time.process_time() - start


def row(what: str, seconds: float, ok: bool | None, result: str, **more: Any) -> Row:
    return {"what": what, "seconds": round(seconds, 4), "ok": ok, "result": result} | more


def against_a_loop(critics: Critics, count: int, repeats: int = 3) -> list[Row]:
    """The same teachers stacked and one by one, in turns; the better of each is held against the other."""
    (block,), data = blocks_of(critics, count, "cpu", count), given(critics, count, "cpu")
    nets = [plain_of(block, i) for i in range(count)]
    optimisers = [adam_of(net) for net in nets]
    images, labels, fakes = data
    latents = torch.arange(len(fakes))

    def loop() -> None:
        for i, (net, optimiser) in enumerate(zip(nets, optimisers, strict=True)):
            for _ in range(2):
                teach(net, optimiser, images[i], labels[i], fakes[latents, labels[i]], labels[i])
            ask(net, *asked(fakes))

    turns = [(clocked(lambda: step([block], *data)), clocked(loop)) for _ in range(repeats)]
    stacked, one_by_one = (min(times) for times in zip(*turns, strict=True))
    ratio = one_by_one / stacked
    return [
        row(f"{count} teachers one by one", one_by_one, None, f"{1e3 * one_by_one / count:.1f} ms a teacher"),
        row(f"{count} teachers stacked", stacked, ratio >= 3, f"{ratio:.2f} times faster (3 asked)", ratio=ratio),
    ]


def equality(critics: Critics, count: int) -> list[Row]:
    """Directions of stacked and plain teachers. In single precision a unit at the kink of a leaky ReLU may fall on
    either side by rounding, so the largest difference is asked of double precision and the median of single."""
    found = []
    for dtype in (torch.float64, torch.float32):
        (block,), (fakes, labels) = blocks_of(critics, count, "cpu", count), asked(given(critics, 1, "cpu")[2])
        block = Stacked(critics, {name: w.to(dtype) for name, w in block.weights.items()})
        fakes = fakes.to(dtype)
        ours = block.directions(fakes, labels)
        plain = torch.stack([ask(plain_of(block, i), fakes, labels) for i in range(count)])
        off = (ours - plain).norm(dim=(1, 2)) / plain.norm(dim=(1, 2))
        most = float(off.max())
        middle = float(off.median())
        beyond = int((off > 1e-5).sum())
        ok = (most if dtype == torch.float64 else middle) < 1e-5
        text = f"relative difference {middle:.1e}, at most {most:.1e}, over 1e-5 for {beyond}"
        found.append(row(f"directions of {count}, stacked against plain, {dtype}", 0.0, ok, text, most=most))
    return found


def peak() -> int:
    """The most memory that the process held since `forget_peak`, in bytes."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def forget_peak() -> int:
    """Start `peak` anew where the system can, and say where it stands."""
    refs = Path("/proc/self/clear_refs")
    if refs.exists():
        refs.write_text("5")
    return peak()


def scaling(critics: Critics, counts: tuple[int, ...] = (64, 256, 1024, 2048)) -> list[Row]:
    """Seconds and memory beside the state, against the number of teachers."""
    found: list[Row] = []
    start = forget_peak()
    for count in counts:
        blocks = blocks_of(critics, count, "cpu")
        data = given(critics, count, "cpu")
        seconds = min(clocked(lambda b=blocks, d=data: step(b, *d)) for _ in range(3 if count <= 256 else 1))
        extra = peak() - start - critics.held(count) - sum(x.numel() * x.element_size() for x in data)
        each = seconds / count
        ok = each < 1.35 * (found[0]["each"] if found else each) and extra < 2**28
        text = f"{1e3 * each:.2f} ms a teacher, {len(blocks)} blocks, {extra / 2**20:.0f} MiB beside state and data"
        found.append(row(f"{count} teachers, scaling", seconds, ok, text, each=each, extra=extra))
        del blocks, data
        forget_peak()
    return found


def bandwidth() -> float:
    """Bytes a second of a large copy on CUDA, read and written."""
    x = torch.rand(2**29, device="cuda")
    y = torch.empty_like(x)
    return 8 * len(x) / on_cuda(lambda: y.copy_(x))


def on_cuda(work: Callable[[], Any], repeats: int = 5) -> float:
    """Median seconds between events, after two warm runs."""
    times = []
    for turn in range(repeats + 2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times += [start.elapsed_time(end) / 1e3] if turn > 1 else []
    return statistics.median(times)


def sweep(full: bool, count: int, kinds: int) -> Iterator[Row]:
    """Precision, moments and block size on CUDA. The first step, with what is compiled for it, is shown apart."""
    speed = bandwidth()
    yield row("copy bandwidth", 0.0, None, f"{speed / 1e12:.2f} TB/s", speed=speed)
    for precision, moments, chunk in KINDS[:kinds]:
        critics = critics_for(full, precision=precision, moments=moments)
        torch.compiler.reset()  # or its limit of variants is met
        torch.cuda.empty_cache()
        blocks = blocks_of(critics, count, "cuda", min(count, chunk))
        data = given(critics, count, "cuda")
        start = time.perf_counter()
        step(blocks, *data)
        torch.cuda.synchronize()
        first = time.perf_counter() - start
        torch.cuda.reset_peak_memory_stats()
        seconds = on_cuda(lambda b=blocks, d=data: step(b, *d))
        most = torch.cuda.max_memory_allocated()
        before = on_cuda(lambda b=blocks, d=data: step(b, *d, own_labels=False))
        least = traffic(critics) * count / speed
        fused = all(block.tuning.compiled for block in blocks)
        text = (
            f"{most / 1e9:.1f} GB, {least / seconds:.0%} of copy bandwidth, first step {first:.1f} s; with labels of "
            f"the query {before:.4f} s, ratio {seconds / before:.3f}"
        )
        ok = (seconds <= 0.1 and most <= 45e9) if full and count == 4000 and precision != "float32" else None
        name = f"{count} teachers, {precision}, moments {moments}, blocks of {chunk}"
        text += "" if fused else ", not fused"
        yield row(name, seconds, ok, text, peak=most, floor=least, first=first, query_labels=before)
        del blocks, data


def told(rows: Iterator[Row]) -> list[Row]:
    """All of them, each shown on the error output as it comes."""
    found = []
    for line in rows:
        found.append(line)
        print(json.dumps(line), file=sys.stderr, flush=True)
    return found


def machine() -> str:
    """Where this ran."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()


def main() -> None:
    """Print a table, or JSON."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.teachers")
    options.add_argument("--json", action="store_true")
    options.add_argument("--teachers", type=int)
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--full", action="store_true")
    options.add_argument("--kinds", type=int, default=len(KINDS), help="how many of the sweep, which compiles each")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    if chosen.device == "cuda":
        found = told(sweep(chosen.full, chosen.teachers or 4000, chosen.kinds))
    else:
        critics = critics_for(chosen.full)
        count = chosen.teachers or 256
        found = [] if chosen.full else scaling(critics)
        found += against_a_loop(critics, count) + equality(critics, count)
    if chosen.json:
        print(json.dumps({"device": machine(), "threads": 1, "full": chosen.full, "rows": found}, indent=2))
        return
    for line in found:
        print(f"{line['seconds']:9.4f} s  {line['what']}{' (MISSED)' if line['ok'] is False else ''}")
        print(f"             {line['result']}")


if __name__ == "__main__":
    main()
