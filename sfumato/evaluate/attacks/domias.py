"""DOMIAS (van Breugel, Sun, Qian and van der Schaar, AISTATS 2023): local overfitting as a ratio of densities.

    score(x) = log p_syn(x) - log p_ref(x)

Densities are estimated in a few principal directions of a public feature space (or of pixels), by kernels or by one
Gaussian each.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from sfumato.evaluate.attacks.subject import Batch
from sfumato.evaluate.distances import blocks, precise
from sfumato.evaluate.features import Space, pixels

DIRECTIONS = 20


def directions(rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and whitened principal directions (values, count) of public rows."""
    mean = rows.mean(0, dtype=np.float64)
    spread = np.cov(rows.astype(np.float64) - mean, rowvar=False).reshape(rows.shape[1], rows.shape[1])
    values, vectors = np.linalg.eigh(spread)
    kept = np.argsort(values)[::-1][: min(count, len(rows) - 1, rows.shape[1])]
    kept = kept[values[kept] > 1e-9 * max(float(values.max()), 1e-300)]
    return mean, vectors[:, kept] / np.sqrt(values[kept])


def log_kernel(at: np.ndarray, rows: np.ndarray, width: float, device: str = "cpu") -> np.ndarray:
    """log of the mean of Gaussian kernels of `width` at `rows`, but for the constant that both densities share."""
    total = torch.full((len(at),), -torch.inf, dtype=precise(device))
    for here, _, squared in blocks(at, rows, device):
        total[here] = torch.logaddexp(total[here], torch.logsumexp(-squared / (2 * width**2), 1).cpu())
    return np.asarray(total.double().numpy() - math.log(len(rows)) - rows.shape[1] * math.log(width))


def log_gaussian(at: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """log density of the Gaussian with the moments of `rows`, slightly widened to be proper."""
    mean = rows.mean(0)
    spread = np.cov(rows, rowvar=False).reshape(rows.shape[1], rows.shape[1]) + 1e-3 * np.eye(rows.shape[1])
    solved = np.linalg.solve(np.linalg.cholesky(spread), (at - mean).T)
    return np.asarray(-0.5 * (solved**2).sum(0) - 0.5 * np.linalg.slogdet(spread)[1])


def scott(rows: np.ndarray) -> float:
    """Scott's width for whitened rows."""
    return float(len(rows) ** (-1 / (rows.shape[1] + 4)))


def score(
    candidates: list[Batch],
    synthetic: Batch,
    reference: Batch,
    *,
    space: Space | None = None,
    density: str = "kernel",
    count: int = DIRECTIONS,
    device: str = "cpu",
) -> list[np.ndarray]:
    """The log ratio of densities for each batch of candidates."""
    space = space or pixels(synthetic.pixels.shape[1:])
    fake = space(synthetic.pixels)
    known = space(reference.pixels)
    mean, axes = directions(known, count)
    at = [(space(c.pixels) - mean) @ axes for c in candidates]
    syn = (fake - mean) @ axes
    ref = (known - mean) @ axes
    if density == "gaussian":
        return [log_gaussian(x, syn) - log_gaussian(x, ref) for x in at]
    return [log_kernel(x, syn, scott(syn), device) - log_kernel(x, ref, scott(ref), device) for x in at]
