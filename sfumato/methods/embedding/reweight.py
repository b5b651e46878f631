"""A distance of characteristic functions whose weights learn to tell real from generated (PEARL)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

LIMIT = 2.0  # a weight lies between e^-LIMIT and e^LIMIT of another, so that none is lost to noise


class Reweighting:
    """Sum over frequencies of w_j |target_j - mean_j|^2, with w raised where the two differ.

    The weights are a ratio of densities omega(t_j) / omega_0(t_j) of Gaussians that differ in the variance of each
    coordinate. The logarithm of that ratio is linear in the squares t_jd^2, so that one number for each coordinate is
    learned, by one step up before each of the generator's steps down. All it sees are released values.
    """

    def __init__(self, frequencies: Tensor, learning_rate: float) -> None:
        squares = frequencies.T.square()  # (frequencies, pixels)
        spread = squares.std(0, correction=0).clamp(min=1e-12)
        self.squares = (squares - squares.mean(0)) / (spread * squares.shape[1] ** 0.5)
        self.tilt = torch.zeros(squares.shape[1], device=squares.device, requires_grad=True)
        self.optimiser = torch.optim.Adam([self.tilt], lr=learning_rate, maximize=True)

    def weights(self) -> Tensor:
        """One for each frequency, with mean one."""
        log_ratio = LIMIT * torch.tanh(self.squares @ self.tilt / LIMIT)
        return torch.softmax(log_ratio, 0) * len(log_ratio)

    def __call__(self, features: Tensor, target: Tensor) -> Tensor:
        apart = self._apart(features, target)
        gain = (self.weights() * apart.detach()).sum()
        self.optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(gain)
        self.optimiser.step()
        return (self.weights().detach() * apart).sum()

    @staticmethod
    def _apart(features: Tensor, target: Tensor) -> Tensor:
        """|target_j - mean_j|^2, averaged over classes, without the pairs of an image with itself."""
        batch = features.shape[1]
        mean = features.mean(1)
        own = (batch * mean.square() - features.square().mean(1)) / (batch - 1)
        apart = own - 2 * mean * target + target.square()
        return apart.view(len(apart), 2, -1).sum(1).mean(0)  # cosines, then sines

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"tilt": self.tilt.detach().clone(), "optimiser": self.optimiser.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From a checkpoint of the same run."""
        with torch.no_grad():
            self.tilt.copy_(state["tilt"])
        self.optimiser.load_state_dict(state["optimiser"])
