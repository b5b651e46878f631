"""A moving average of a network's weights: steadier than the last step, and free."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.networks.generator import Generator


class EMA:
    """The exponential moving average of the parameters of `net`.

    After t updates the decay is min(decay, t / (t + 9)), so that a short run does not remember its first weights.
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"Expected decay from 0 to below 1, found decay={decay}.")
        self.decay = decay
        self.count = 0
        self.weights: dict[str, Tensor] = {name: p.detach().clone() for name, p in net.named_parameters()}

    @torch.no_grad()
    def update(self, net: nn.Module) -> None:
        """Take in the present weights."""
        kept = min(self.decay, self.count / (self.count + 9))
        for name, parameter in net.named_parameters():
            self.weights[name].lerp_(parameter, 1 - kept)
        self.count += 1

    @torch.no_grad()
    def put(self, net: nn.Module) -> None:
        """Set the parameters of `net` to the average."""
        for name, parameter in net.named_parameters():
            parameter.copy_(self.weights[name])

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"count": self.count, "weights": dict(self.weights)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint of the same network."""
        if set(state["weights"]) != set(self.weights):
            raise ValueError("Expected an average of the same parameters, found others.")
        self.count = int(state["count"])
        for name, value in state["weights"].items():
            self.weights[name].copy_(value)


def finished(net: Generator, average: EMA | None, random: torch.Generator | None = None) -> Generator:
    """A copy with the averaged weights, settled on latents drawn from `random`, in eval mode."""
    net = copy.deepcopy(net)
    if average:
        average.put(net)
    with repeatable():
        net.settle(random or torch.Generator().manual_seed(0))
    return net.eval()


@contextmanager
def repeatable() -> Iterator[None]:
    """Convolutions on a GPU by algorithms that give the same answer each time."""
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic = True
    cudnn.benchmark = False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before
