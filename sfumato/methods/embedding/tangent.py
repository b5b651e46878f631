"""Gradient features of a frozen random network: its empirical neural tangent kernel."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


class Tangent:
    """phi(x) = gradient of f(x) with respect to all parameters of f, at random ones, made to norm 1.

    f(x) = sum_k a_k s(w_k'x + b_k) / sqrt(hidden), with s(u) = log(1 + e^u), a smooth rectifier: with the hard one
    the features would tell a generator nothing about the edge of a unit. Pixels are moved to [-1, 1] first.
    """

    def __init__(self, pixels: int, hidden: int, gain: float, random: torch.Generator) -> None:
        self.weights = torch.randn(hidden, pixels, generator=random) * (gain / math.sqrt(pixels))
        self.biases = torch.randn(hidden, generator=random)
        self.outs = torch.randn(hidden, generator=random)
        self.size = hidden * (pixels + 2)

    def to(self, device: str) -> Tangent:
        """Move the network."""
        self.weights = self.weights.to(device)
        self.biases = self.biases.to(device)
        self.outs = self.outs.to(device)
        return self

    def gradient(self, images: Tensor) -> Tensor:
        """df/dW, df/db and df/da of each image, flat, in this order."""
        x = 2 * images.flatten(1) - 1
        before = x @ self.weights.T.to(x.dtype) + self.biases.to(x.dtype)
        back = self.outs.to(x.dtype) * torch.sigmoid(before)  # df/db; the derivative of s is the logistic function
        inner = (back[:, :, None] * x[:, None, :]).flatten(1)
        return torch.cat([inner, back, F.softplus(before)], 1) / math.sqrt(len(self.biases))

    def __call__(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        return F.normalize(self.gradient(images), dim=1)

    def mean(self, images: Tensor) -> Tensor:
        """(sets, size): phi averaged over images (sets, n, pixels) by products of matrices; no image's own is held."""
        x = 2 * images - 1
        before = x @ self.weights.T.to(x.dtype) + self.biases.to(x.dtype)
        back = self.outs.to(x.dtype) * torch.sigmoid(before)
        out = F.softplus(before)
        squares = back.square().sum(2) * (1 + x.square().sum(2)) + out.square().sum(2)
        share = 1 / (x.shape[1] * squares.sqrt()[:, :, None])  # the root of hidden drops out
        inner = (back * share).mT @ x
        return torch.cat([inner.flatten(1), (back * share).sum(1), (out * share).sum(1)], 1)
