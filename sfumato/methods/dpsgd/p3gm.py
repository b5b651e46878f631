"""P3GM: a decoder on top of a private PCA and a private mixture (Takagi et al., ICDE 2021). Site B4.

    mean      m  = (sum of x_i, shortened to R, + noise) / n                        Delta = R     one crossing
    scatter   S  = sum of (x_i - m)(x_i - m)', shortened to C, + symmetric noise    Delta = C^2   one crossing
    code      u_i = V' (x_i - m) over the square roots of the eigenvalues: white, a function of what was released
    mixture   of u for each class, by DP-EM on (r, r u, r u^2)                      Delta = sqrt(3) a round
    decoder   DP-SGD on  -log p(x_i | z_i, c_i) + log q(z_i | x_i) - log p_mixture(z_i | c_i),   z_i = u_i + s(u_i) n_i
              over decoder and s together, clipped as a whole                       Delta = C_g a step, Poisson samples

(add-remove; under replace-one each distance is at most twice as large). All in one ledger: mean, scatter and mixture
have the public shares `to_mean`, `to_scatter`, `to_mixture` of the budget, counted in squared mu, gradients the rest.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> sorted(P3GM(rounds=2).plan(spec, Budget(epsilon=1)).crossings)
    ['gradient', 'mean', 'mixture-1', 'mixture-2', 'scatter']
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from sfumato.accounting.budget import Budget
from sfumato.data.public import PublicImages
from sfumato.engine import generator_dpsgd, label_histogram
from sfumato.engine.dpsgd import DPSGDConfig
from sfumato.engine.generator_dpsgd import BudgetShare
from sfumato.engine.match import warm_cosine
from sfumato.methods.base import Method
from sfumato.methods.dpsgd import mixture
from sfumato.methods.dpsgd.scatter_matrix import Scatter, matrix_of
from sfumato.networks.generator import Generator
from sfumato.networks.vae import VAEGenerator, Whitened, surprise
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Plan
from sfumato.record_rng import normal, record_keys
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

REASON = (
    "unsound as run by the official code: it centres with the exact mean and keeps that in the model, and its "
    "DP-EM is charged for other statistics than it uses; this is Renyi DP of what is released here"
)
DEVIATIONS = (
    "The mean is released with noise; the official code keeps the exact one.",
    "DP-EM releases stacked statistics and computes means and variances from them alone.",
    "A mixture for each class, and the class is told to the decoder.",
    "The scatter has symmetric Gaussian noise in place of the paper's Wishart noise.",
)


@dataclass(frozen=True, kw_only=True)
class P3GM(Method):
    """Private PCA, a private mixture of its codes for each class, and a decoder trained by DP-SGD."""

    steps: int = 1000
    batch: int = 1024  # expected; of a smaller set, a quarter
    clip: float = 1.0  # C_g
    learning_rate: float = 2e-3  # of Adam
    ema_decay: float = 0.999
    latent: int = 16
    width: int = 32
    likelihood: str = "bernoulli"  # or "gaussian"
    noise: float = 0.3  # deviation of the Gaussian likelihood
    reach: float = 0.35  # R and C over sqrt(pixels): root mean square of a record's pixels
    components: int = 3
    rounds: int = 5  # of DP-EM
    to_mean: float = 0.02
    to_scatter: float = 0.2
    to_mixture: float = 0.08
    bfloat16: bool = False

    name: ClassVar[str] = "p3gm"
    site: ClassVar[Site] = Site.B4
    family: ClassVar[str] = "private PCA and mixture, then a decoder"
    paper: ClassVar[str] = "Takagi, Takahashi, Cao, Yoshikawa: P3GM (ICDE 2021)"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, str, str, str]] = ("explicit", "learnable", "point-wise", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "latent", "width", "components", "rounds"):
            if not 1 <= getattr(self, name) <= 10_000_000:
                raise ValueError(f"Expected {name} from 1 to ten million, found {name}={getattr(self, name)}.")
        if self.likelihood not in ("bernoulli", "gaussian") or self.width % 8 or self.noise <= 0:
            raise ValueError(
                "Expected likelihood=bernoulli or likelihood=gaussian, width a multiple of 8 and noise > 0"
                f", found {self.likelihood}, {self.width}, {self.noise}."
            )
        if not (
            0 < self.learning_rate <= 1 and 0 < self.clip < 1e6 and 0 <= self.ema_decay < 1 and 0 < self.reach <= 1
        ):
            raise ValueError(
                "Expected rate and reach up to 1, clip above 0 and average from 0 to below 1, found "
                f"{self.learning_rate}, {self.reach}, {self.clip}, {self.ema_decay}."
            )
        shares = (self.to_mean, self.to_scatter, self.to_mixture)
        if min(shares) <= 0 or sum(shares) > 0.95:
            raise ValueError(
                f"Expected to_mean, to_scatter and to_mixture above 0 and up to 0.95 in all, found {shares}."
            )

    def descent(self, spec: DataSpec) -> DPSGDConfig:
        """Steps, batch and clip; a set smaller than four batches gives a quarter of its records."""
        return DPSGDConfig(self.steps, min(self.batch, max(1, spec.records // 4)), self.clip)

    def queries(self, spec: DataSpec) -> tuple[BoundedSum, Scatter]:
        """Of the mean and of the scatter matrix."""
        reach = self.reach * math.sqrt(spec.pixels)
        mean = BoundedSum(lambda images, labels: images.flatten(1), Bound(reach), (spec.pixels,))
        return mean, Scatter(spec.pixels, reach)

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        mean, scatter = self.queries(spec)
        parts = mixture.crossings(self.rounds, self.to_mixture)
        parts |= {"mean": BudgetShare(mean.bound, self.to_mean), "scatter": BudgetShare(scatter.bound, self.to_scatter)}
        return generator_dpsgd.plan(
            self, self.descent(spec), spec, budget, deviations=DEVIATIONS, parts=parts, reason=REASON
        )

    def small(self) -> P3GM:
        """The same gradients of a small network."""
        return self.at_most(width=8, latent=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec, (first, second) = barrier.spec, self.queries(barrier.spec)
        weights = label_histogram.shares(self.labels, barrier, run)
        mean = run.once("mean", lambda: barrier.release("mean", first)) / spec.records  # the barrier
        triangle = run.once("scatter", lambda: barrier.release("scatter", second, mean))  # and here
        values, vectors = torch.linalg.eigh(matrix_of(triangle, spec.pixels).cpu() / spec.records)
        latent = min(self.latent, spec.pixels)
        # Pixels are in [0, 1], so that their scatter is at most their number; noise may say otherwise.
        spread = values[-latent:].clamp(1e-4, spec.pixels).sqrt()
        decoder = generator_dpsgd.seeded(
            run, lambda: VAEGenerator(spec.shape, spec.classes, latent, self.width, weights, self.components)
        )
        net = generator_dpsgd.seeded(run, lambda: Whitened(decoder, mean.cpu(), vectors[:, -latent:] / spread))
        reach = 2 * latent**0.5  # white codes are rarely longer
        codes = lambda images, labels: net.code(images).double() / reach  # noqa: E731
        generator_dpsgd.place(decoder, mixture.fit(codes, self.components, latent, self.rounds, barrier, run), reach)
        return generator_dpsgd.train(
            net,
            self.loss,
            barrier,
            run,
            self.descent(spec),
            learning_rate=self.learning_rate,
            ema_decay=self.ema_decay,
            pace=lambda t: warm_cosine(t, self.steps),
            bfloat16=self.bfloat16,
            generator=decoder,
        )

    def loss(self, net: nn.Module, images: Tensor, labels: Tensor, keys: Tensor, copy: Tensor) -> Tensor:
        """Minus the lower bound of each row's likelihood, with one draw of its latent."""
        code, log_variance = net(images)
        noise = normal(record_keys(images, keys), code.shape[1:])
        z = code + torch.exp(log_variance / 2) * noise
        log_q = -(noise.square() + log_variance + math.log(2 * math.pi)).sum(1) / 2
        logits = net.decoder.logits(z, labels)  # type: ignore[operator, union-attr]
        prior = net.decoder.log_prior(z, labels)  # type: ignore[operator, union-attr]
        return surprise(logits, images, self.likelihood, self.noise) + log_q - prior
