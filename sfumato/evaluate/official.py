"""The judge of the official DataLens code: best of 600 test epochs, for comparison with the numbers that it gave.

    convolution 3x3 to 32, ReLU, pool 2, dropout 0.2; convolution 3x3 to 64, ReLU, dropout 0.25; linear to 64, ReLU;
    linear to classes. Plain gradient descent at 0.002, batches of 512, 600 passes over 100,000 synthetic images.

The best of 600 looks at the test set is chosen by the test set, so it flatters; the last epoch is given beside it. On
CUDA a step is one graph, replayed: 117,000 of them are launched faster than one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.run.progress import Silent

IMAGES = 100_000  # synthetic ones that the official evaluation learns from
WARM = 3  # steps before a graph is recorded, as CUDA asks for


@dataclass(frozen=True)
class OfficialSchedule:
    """Of the official evaluation of grey images at 28 pixels."""

    epochs: int = 600
    batch: int = 512
    learning_rate: float = 2e-3


def official(
    pixels: np.ndarray,
    labels: np.ndarray,
    test_pixels: np.ndarray,
    test_labels: np.ndarray,
    *,
    classes: int,
    seed: int = 0,
    device: str = "cpu",
    schedule: OfficialSchedule | None = None,
    progress: Silent | None = None,
) -> np.ndarray:
    """Test accuracy after each epoch (epochs,); the official number is its largest."""
    progress = progress or Silent()
    schedule = schedule or OfficialSchedule()
    with torch.random.fork_rng(devices=[device] if device.startswith("cuda") else []):
        torch.manual_seed(seed)
        judge = _Judge(network(pixels.shape[1:], classes), device, schedule)
        judge.show(_tensors(pixels, labels, device), _tensors(test_pixels, test_labels, device))
        progress.start("official evaluation", schedule.epochs)
        found = []
        for epoch in range(schedule.epochs):
            found.append(judge.epoch())
            progress.advance(epoch + 1)
    return torch.stack(found).double().cpu().numpy() / len(test_labels)


def network(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """The network, with first weights as Keras draws them (Glorot and Bengio 2010).

    >>> sum(p.numel() for p in network((1, 28, 28), 10).parameters())
    515146
    """
    channels, height, width = shape
    net = nn.Sequential(
        nn.Conv2d(channels, 32, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.2),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * ((height - 2) // 2 - 2) * ((width - 2) // 2 - 2), 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )
    for layer in net:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
    return net


class _Judge:
    """The network with its images, one epoch at a time."""

    def __init__(self, net: nn.Sequential, device: str, schedule: OfficialSchedule) -> None:
        self.net = net.to(device)
        self.device = device
        self.schedule = schedule

    def show(self, data: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]) -> None:
        """The images to learn from, and those to be tested on."""
        self.data = data
        self.test = test
        self.batch = min(self.schedule.batch, len(data[1]))
        self.rows = torch.zeros(self.batch, dtype=torch.long, device=self.device)
        self.right = torch.zeros((), dtype=torch.long, device=self.device)
        self.step = self._recorded(self._step)
        self.look = self._recorded(self._look)

    def epoch(self) -> Tensor:
        """One pass over the images in an order by chance; how many test images are right then."""
        order = torch.randperm(len(self.data[1]), device=self.device)
        for at in range(len(order) // self.batch):
            self.rows.copy_(order[at * self.batch : (at + 1) * self.batch])
            self.step()
        self.look()
        return self.right.clone()

    def _step(self) -> None:
        self.net.train()
        pixels, labels = self.data
        loss = F.cross_entropy(self.net(pixels[self.rows].float().div(255)), labels[self.rows])
        weights: list[Tensor] = list(self.net.parameters())
        slopes = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            torch._foreach_add_(weights, slopes, alpha=-self.schedule.learning_rate)

    @torch.no_grad()
    def _look(self) -> None:
        self.net.eval()
        chunks = zip(*(x.split(5000) for x in self.test), strict=True)
        right = [(self.net(x.float().div(255)).argmax(1) == y).sum() for x, y in chunks]
        self.right.copy_(torch.stack(right).sum())

    def _recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """The work as one graph on CUDA; as it is elsewhere."""
        if not self.device.startswith("cuda"):
            return work
        before = {name: w.clone() for name, w in self.net.state_dict().items()}
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM):
                work()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        self.net.load_state_dict(before)
        return graph.replay


def _tensors(pixels: np.ndarray, labels: np.ndarray, device: str) -> tuple[Tensor, Tensor]:
    return (
        torch.from_numpy(np.ascontiguousarray(pixels)).to(device),
        torch.from_numpy(np.ascontiguousarray(labels, dtype=np.int64)).to(device),
    )
