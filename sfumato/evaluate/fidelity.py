"""How like the real images the synthetic ones are: FID, KID, precision, recall, density, coverage, Inception Score.

    FID        |m_r - m_f|^2 + tr(C_r + C_f - 2 (C_r^1/2 C_f C_r^1/2)^1/2)                     Heusel et al. 2017
    KID        unbiased squared MMD with (x'y / d + 1)^3, mean over disjoint blocks            Binkowski et al. 2018
    precision  share of synthetic rows within the k-th neighbour's distance of a real row      Kynkaanniemi et al. 2019
    recall     the same with the roles exchanged
    density    how many such real balls hold a synthetic row, over k; coverage: balls that hold one  Naeem et al. 2020
    IS         exp E_x KL(p(y|x) || p(y)) with a classifier trained on real data               DataLens, C.1

Intervals are at 95 % and cover chance in the images, not the choice of a feature space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.evaluate.cache import features as features_of
from sfumato.evaluate.distances import blocks, nearest, precise
from sfumato.evaluate.features import Space, check_names, predicted, space
from sfumato.evaluate.results import Measured, over_seeds
from sfumato.run.progress import Silent

if TYPE_CHECKING:
    from torch import nn

GROUPS = 10  # left out one at a time for the interval of FID
LIMITS = {"cuda": 10_000, "cpu": 2_500}  # images of each kind described, unless asked for more


def fidelity(
    real: np.ndarray,
    real_labels: np.ndarray | None,
    fake: np.ndarray,
    fake_labels: np.ndarray | None,
    *,
    features: Sequence[str] = ("efficientnet-lite0",),
    classifier: nn.Module | None = None,
    device: str = "auto",
    seed: int = 0,
    progress: Any = None,
    limit: int | None = None,
    k: int = 3,
    weights: dict[str, str] | None = None,
    cache: bool = False,
) -> dict[str, Measured]:
    """Every number with its interval, under names like "fid/efficientnet-lite0".

    `classifier` (a `networks.Judge`) takes images in [0, 1] to logits and has `features`; with it comes
    "inception-score". `weights` are files of public networks, by name of the space. `cache` keeps the features of the
    real images in the private cache folder. At most `limit` images of each kind are looked at, drawn by `seed`: 10,000
    with CUDA, else 2,500. FID depends on that number, which its note tells.
    """
    from sfumato.run.run import pick_device

    device = pick_device(device)
    progress = progress or Silent()
    wanted = check_names(features)
    limit = limit or LIMITS["cuda" if device.startswith("cuda") else "cpu"]
    real = _some(real, limit, seed)
    fake = _some(fake, limit, seed)
    measures: dict[str, Measured] = {}
    for name in wanted:
        where = space(name, real.shape[1:], classifier=classifier, weights=(weights or {}).get(name), device=device)
        progress.start(f"features: {name}", len(real) + len(fake))
        one = features_of(real, where, cache=cache, advance=progress.advance)
        two = where(fake, lambda done: progress.advance(len(real) + done))
        measures |= compare(one, two, where, k=k, device=device, seed=seed)
    if classifier is not None:
        measures["inception-score"] = inception_score(predicted(classifier, fake, device))
    return measures


def _some(images: np.ndarray, limit: int, seed: int) -> np.ndarray:
    """Rows drawn by the seed alone: of one set given twice they are the same, and its distance to itself is nothing."""
    if len(images) <= limit:
        return np.asarray(images)
    return np.asarray(images[np.sort(np.random.default_rng(seed).choice(len(images), limit, replace=False))])


def compare(
    real: np.ndarray, fake: np.ndarray, where: Space, *, k: int = 3, device: str = "cpu", seed: int = 0
) -> dict[str, Measured]:
    """All distances between two sets of rows of one space."""
    measures = [fid(real, fake, device=device), kid(real, fake, device=device, seed=seed)]
    measures += manifold(real, fake, k=k, device=device, seed=seed)
    return {
        f"{m.name}/{where.name}": Measured(m.name, m.mean, m.low, m.high, m.values, _notes(m.note, where.note))
        for m in measures
    }


def _notes(*notes: str) -> str:
    return "; ".join(n for n in notes if n)


def frechet(mean_1: np.ndarray, cov_1: np.ndarray, mean_2: np.ndarray, cov_2: np.ndarray, device: str = "cpu") -> float:
    """The Frechet distance of two Gaussians in float64. Singular covariances are fine: eigenvalues are cut at zero.

    >>> frechet(np.zeros(2), np.eye(2), np.array([3.0, 4.0]), 4 * np.eye(2))
    27.0
    """
    half = _half(cov_1, device)
    middle = np.sqrt(np.maximum(_eigenvalues(half.T @ cov_2 @ half, device), 0)).sum()
    gap = float(((mean_1 - mean_2) ** 2).sum())
    return max(0.0, float(gap + np.trace(cov_1) + np.trace(cov_2) - 2 * middle))


def _tensor(matrix: np.ndarray, device: str) -> Any:
    import torch

    device = "cpu" if device.startswith("mps") else device  # float64 is not known there
    return torch.as_tensor((matrix + matrix.T) / 2, dtype=torch.float64, device=device)


def _half(matrix: np.ndarray, device: str) -> np.ndarray:
    """H with HH' = matrix: any such half gives the same eigenvalues. Cholesky's is cheap and needs full rank."""
    import torch

    given = _tensor(matrix, device)
    lower, failed = torch.linalg.cholesky_ex(given)
    if not failed:
        return np.asarray(lower.cpu())
    values, vectors = torch.linalg.eigh(given)
    return np.asarray((vectors * values.clamp(min=0).sqrt()).cpu())


def _eigenvalues(matrix: np.ndarray, device: str) -> np.ndarray:
    import torch

    return np.asarray(torch.linalg.eigvalsh(_tensor(matrix, device)).cpu())


class _Moments:
    """Count, sum and sum of squares by group, about a fixed centre, so that a group can be left out."""

    def __init__(self, rows: np.ndarray, centre: np.ndarray, groups: int) -> None:
        parts = [rows[g::groups].astype(np.float64) - centre for g in range(groups)]
        self.counts = np.array([len(p) for p in parts])
        self.sums = np.stack([p.sum(0) for p in parts])
        self.squares = np.stack([p.T @ p for p in parts])

    def __call__(self, without: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean (from the centre) and covariance of all rows, or of all but one group."""
        n = self.counts.sum()
        total = self.sums.sum(0)
        square = self.squares.sum(0)
        if without is not None:
            n = n - self.counts[without]
            total = total - self.sums[without]
            square = square - self.squares[without]
        mean = total / n
        return mean, (square - n * np.outer(mean, mean)) / max(1, n - 1)


def fid(real: np.ndarray, fake: np.ndarray, *, groups: int = GROUPS, device: str = "cpu") -> Measured:
    """FID of all rows; the interval is 1.96 jackknife standard errors, leaving out one tenth of each set at a time.

    The bias of FID, which grows as sets get smaller, is not in the interval: compare sets of one size.
    """
    groups = min(groups, len(real) // 2, len(fake) // 2)
    centre = real.astype(np.float64).mean(0)
    one = _Moments(real, centre, max(1, groups))
    two = _Moments(fake, centre, max(1, groups))
    whole = frechet(*one(), *two(), device=device)
    few = min(len(real), len(fake)) <= real.shape[1]
    note = f"{len(real)} real and {len(fake)} synthetic images" + (", fewer than dimensions" if few else "")
    if groups < 2:
        return Measured("fid", whole, 0.0, float("inf"), (), note)
    parts = np.array([frechet(*one(g), *two(g), device=device) for g in range(groups)])
    half = 1.96 * float(np.sqrt((groups - 1) / groups * ((parts - parts.mean()) ** 2).sum()))
    return Measured("fid", whole, max(0.0, whole - half), whole + half, tuple(parts.tolist()), note)


def kid(real: np.ndarray, fake: np.ndarray, *, block: int = 1000, device: str = "cpu", seed: int = 0) -> Measured:
    """Mean over disjoint blocks of `block` rows (a tenth of the smaller set at most); t interval over the blocks."""
    import torch

    n = min(len(real), len(fake))
    size = max(2, min(block, n // 10))
    random = np.random.default_rng(seed)
    one = random.permutation(len(real))
    two = random.permutation(len(fake))
    values = []
    for start in range(0, n - size + 1, size):
        x, y = (
            torch.as_tensor(rows[order[start : start + size]]).to(device).to(precise(device))
            for rows, order in ((real, one), (fake, two))
        )
        values.append(float(_mmd(x, y)))
    return over_seeds("kid", values, note=f"{len(values)} blocks of {size}")


def _mmd(x: Any, y: Any) -> Any:
    n, d = x.shape
    xx, yy, xy = (((a @ b.T) / d + 1) ** 3 for a, b in ((x, x), (y, y), (x, y)))
    inside = xx.sum() - xx.diagonal().sum() + yy.sum() - yy.diagonal().sum()
    return inside / (n * (n - 1)) - 2 * xy.mean()


def manifold(
    real: np.ndarray, fake: np.ndarray, *, k: int = 3, k_density: int = 5, device: str = "cpu", seed: int = 0
) -> list[Measured]:
    """Precision and recall (k-th neighbours), density and coverage (k_density-th, as in their paper).

    A real outlier has a wide ball, and what falls into it counts as precise: read precision with recall and coverage.
    """
    import torch

    deep = min(max(k, k_density), len(real) - 1, len(fake) - 1)
    if deep < 1:
        raise ValueError(f"Expected at least two images of each kind, found {len(real)} and {len(fake)}.")
    k = min(k, deep)
    k_density = min(k_density, deep)
    radii_r, radii_f = (nearest(x, x, deep, device, skip_self=True)[0] ** 2 for x in (real, fake))
    of_real, of_fake, wide = (
        torch.as_tensor(r[:, at - 1]).to(device) for r, at in ((radii_r, k), (radii_f, k), (radii_r, k_density))
    )
    precise = torch.zeros(len(fake), dtype=torch.bool)
    recalled = torch.zeros(len(real), dtype=torch.bool)
    held = torch.zeros(len(fake))
    covered = torch.zeros(len(real), dtype=torch.bool)
    for f, r, squared in blocks(fake, real, device):
        precise[f] |= (squared <= of_real[r].to(squared)).any(1).cpu()
        recalled[r] |= (squared <= of_fake[f, None].to(squared)).any(0).cpu()
        inside = squared <= wide[r].to(squared)
        held[f] += inside.sum(1).cpu()
        covered[r] |= inside.any(0).cpu()
    each = {"precision": precise, "recall": recalled, "density": held / k_density, "coverage": covered}
    return [
        bootstrap_mean(name, x.double().numpy(), seed, f"k = {k if name in ('precision', 'recall') else k_density}")
        for name, x in each.items()
    ]


def bootstrap_mean(name: str, each: np.ndarray, seed: int = 0, note: str = "", times: int = 1000) -> Measured:
    """A mean over images with its 95 % bootstrap interval; the neighbourhoods stay as they are."""
    random = np.random.default_rng(seed)
    values, counts = np.unique(each, return_counts=True)
    drawn = random.multinomial(len(each), counts / len(each), size=times) @ values / len(each)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Measured(name, float(each.mean()), float(low), float(high), (), note)


def inception_score(chances: np.ndarray, splits: int = 10, seed: int = 0) -> Measured:
    """Mean over splits with its t interval; `values` are the splits, whose standard deviation papers print.

    >>> round(inception_score(np.tile(np.eye(4), (50, 1)), splits=1).mean, 6)
    4.0
    """
    order = np.random.default_rng(seed).permutation(len(chances))
    splits = max(1, min(splits, len(chances) // 2))
    values = [_score(chances[part].astype(np.float64)) for part in np.array_split(order, splits)]
    spread = float(np.std(values))
    return over_seeds(
        "inception-score",
        values,
        low=1.0,
        high=float(chances.shape[1]),
        note=f"{splits} splits, standard deviation {spread:.3g}",
    )


def _score(p: np.ndarray) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(p > 0, p * (np.log(p) - np.log(p.mean(0))), 0.0).sum(1)
    return float(np.exp(each.mean()))
