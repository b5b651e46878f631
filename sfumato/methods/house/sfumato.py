"""Sfumato: a private labeller, and images that match a private mean embedding. Sites B1 and B2.

    psi(x)     fixed features (scattering; for colour, patches of images of nobody too)
    labeller   theta <- theta - eta (sum over a sample S of clip_C(gradient of CE(theta psi(x_i), y_i)) + C z) / |S|
               T steps of DP-SGD on a linear layer                                    Delta = C, the crossing "labeller"
    phi(x)     random Fourier features of the pixels and of scattering,  ||phi(x)|| = 1
    S_c        sum of phi(x_i) over the records of class c, + N(0, sigma^2 I), once  Delta = 1, the crossing "embedding"
    G_1 ...    min over G of sum_c || S_c / n_c - E phi(G(u, c)) ||^2, u images of nobody         free post-processing
    release    images G(u, c) with the class that the labeller sees in them

What crosses the barrier knows more than images of one embedding carry: a linear classifier on scattering features is
better than any classifier that learns from the images with the classes they were made for. So their own classes are
forgotten. And a generator that starts from images of nobody keeps their variety, which noise vectors do not have.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = Sfumato().plan(spec, Budget(epsilon=1))
    >>> {name: crossing.times for name, crossing in plan.crossings.items()}
    {'labeller': 80, 'embedding': 1}
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sfumato.accounting.budget import Budget, Relation
from sfumato.accounting.claims import Claim, dp_sgd, mean_embedding
from sfumato.accounting.gaussian import mu_of
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.dpsgd import DPSGD, DPSGDConfig
from sfumato.engine.match import match
from sfumato.engine.random_fourier import RandomFourier
from sfumato.engine.repeated import RepeatedRun
from sfumato.methods.base import Method
from sfumato.methods.embedding.dp_merf import UNIT_BALL
from sfumato.methods.embedding.mean_embedding import EMBEDDING, means, public_random, too_few_data
from sfumato.methods.settings import count, setting
from sfumato.networks.conv import ConvGenerator
from sfumato.networks.fixed_features import FixedFeatures
from sfumato.networks.generator import Generator
from sfumato.networks.labelled import LEAGUES, LabelledGenerator, Labeller, labeller_weights, put_weights
from sfumato.networks.leaves import LeavesGenerator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import BoundedSum
from sfumato.privacy.plan import BudgetShare, Crossing, Plan, crossing
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

LABELLER = "labeller"
GENERATORS = ("leaves", "conv")
LATENT = 32
LABELLED = "Labels are those that a private labeller gives the images; the class that one was made for is forgotten."
TEACHING = (
    "Every second image is turned, scaled, shifted and dimmed a little: these images are made to teach a classifier, "
    "and resemble the data less than generated ones alone."
)
MOMENTUM = 0.9
# Steps of the labeller: the noise in its mean gradient falls with mu times the records, and more steps pay then.
FEWEST = 3
MOST = 400
USUAL = 80
AT = 16_000  # mu times records at which the usual number is best: 60,000 records at epsilon 1
WHOLE = 20  # steps up to which the labeller looks at all records each time: sampling saves little noise in so few
SHORTEST = 50  # steps of a generator: below AT it would learn the noise of the embedding by heart in more


@dataclass(frozen=True, kw_only=True)
class Sfumato(Method):
    """The method of the house."""

    adapt: bool = setting(True, "settings that were left alone follow records, shape, epsilon and device")
    images: str = setting("resembling", "generated images alone, or half of them changed, to teach", choices=LEAGUES)
    labeller_steps: int = count(USUAL, "T, steps of the labeller")
    labeller_rate: float = setting(32.0, "eta, of its SGD with momentum", above=0, high=1e6)
    sample: float = setting(0.25, "|S| as a share of the records", above=0, high=1)
    clip: float = setting(0.1, "C, clipping norm of its gradients", low=1e-9, high=1e9)
    patches: int = count(0, "of images of nobody that its features look for", low=0, high=100_000)
    mirrored: bool = setting(False, "its features are those of an image and its mirror image")
    embedding_share: float = setting(0.4, "share of the budget, in squared mu, for the embedding", above=0, below=1)
    features: int = count(8000, "D, random features of the embedding", low=4, multiple=4)
    scattering: float = setting(0.5, "share of phi, in squared norm, of scattering; the rest: pixels", low=0, below=1)
    bandwidth: float = setting(0.2, "h / sqrt(pixels) of the kernel on pixels in [0, 1]", above=0)
    scattering_bandwidth: float = setting(0.5, "the same of the kernel on scattering features", above=0)
    octaves: float = setting(1.5, "bandwidths are spread over so many octaves", low=0, high=20)
    feature_seed: int = setting(0, "public seed of the frequencies", low=0, below=2**63)
    generator: str = setting("leaves", "from images of nobody, or from noise vectors", choices=GENERATORS)
    generators: int = count(1, "with first weights of their own", high=100)
    steps: int = count(400, "steps of a generator")
    batch: int = count(100, "images of a step, of all classes together", low=2)
    learning_rate: float = setting(4e-3, "of Adam for a generator", above=0, below=10)
    width: int = count(16, "channels of a generator", low=8, multiple=8)

    name: ClassVar[str] = "sfumato"
    site: ClassVar[Site] = Site.B1
    family: ClassVar[str] = "mean embedding and a private labeller"
    good_for: ClassVar[str] = (
        "Labelled images of any kind, the first to take: a minute on a GPU, a few on two cores; "
        "measured on grey images at epsilon 1 so far."
    )
    paper: ClassVar[str] = "Sfumato's own, after DP-MERF (AISTATS 2021) and Tramer, Boneh (ICLR 2021)"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "static", "distribution-wise")
    measured: ClassVar[tuple[str, ...]] = (
        *("features", "scattering", "bandwidth", "scattering_bandwidth", "octaves", "feature_seed"),
        *("labeller_steps", "labeller_rate", "sample", "clip", "patches", "mirrored", "embedding_share"),
    )

    def fitted_to(self, spec: DataSpec, budget: Budget, device: str) -> Sfumato:
        """Settings that stand at their defaults, by the size and kind of the images, the budget and the device."""
        if not self.adapt:
            return self
        colour = spec.shape[0] == 3
        large = device != "cpu"
        signal = mu_of(budget.epsilon, budget.delta) * spec.records
        size = min(1.0, 32**2 / (spec.shape[1] * spec.shape[2]))  # of larger images, fewer a step
        labeller_steps = min(MOST, max(FEWEST, round(USUAL * (signal / AT) ** 0.75)))
        found: dict[str, Any] = {
            "labeller_steps": labeller_steps,
            "sample": 1.0 if labeller_steps <= WHOLE else self.sample,
            "labeller_rate": 8.0 if colour else 32.0,
            "patches": (1024 if large else 128) if colour else 0,
            "mirrored": colour,
            "batch": max(4 * len(spec.classes), round(self.batch * size)),
        }
        found["steps"] = max(SHORTEST, round((1000 if large else self.steps) * min(1.0, (signal / AT) ** 0.5)))
        if large:
            found |= {"features": 24_000, "width": 48 if colour else 32}
            found |= {"batch": max(100, round((600 if colour else 1000) * size))}
            found |= {"learning_rate": 1e-3 if colour else 2e-3}
        default = Sfumato()
        left = {name: value for name, value in found.items() if getattr(self, name) == getattr(default, name)}
        return replace(self, **left, adapt=False)

    def small(self) -> Sfumato:
        """The same crossings of small networks."""
        few = self.at_most(patches=2, features=40, steps=2, batch=8, width=8, generators=2)
        return few.at_most(labeller_steps=4)

    def dpsgd(self, spec: DataSpec) -> DPSGDConfig:
        """The public side of the labeller's steps."""
        return DPSGDConfig(self.labeller_steps, max(1, math.ceil(self.sample * spec.records)), self.clip)

    def shares(self, spec: DataSpec) -> dict[str, BudgetShare]:
        return {EMBEDDING: BudgetShare(UNIT_BALL, self.embedding_share)} if spec.conditional else {}

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        if not spec.conditional:  # nothing to label: the embedding is all that is asked
            return {EMBEDDING: crossing(UNIT_BALL, z)}
        return {LABELLER: self.dpsgd(spec).crossing(spec, z)}

    def facts(self, plan: Plan) -> dict[str, Any]:
        return {"images": self.images}

    def claim(self, plan: Plan) -> Claim:
        embedding = plan.crossings[EMBEDDING]
        delta = plan.budget.delta
        if LABELLER not in plan.crossings:
            return mean_embedding(embedding.mechanism.multiplier, delta, records=plan.data.records)
        labeller = plan.crossings[LABELLER]
        z = labeller.mechanism.multiplier
        return dp_sgd(labeller.sampler.rate, z, labeller.times, delta, also=[embedding.event(Relation.ADD_REMOVE)])

    def stated_deviations(self) -> tuple[str, ...]:
        return (LABELLED, TEACHING) if self.images == "teaching" else (LABELLED,)

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        return too_few_data(plan, self.features)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        theta = Labeller(spec.shape, len(spec.classes), self.patches, self.mirrored).to(run.device)
        if LABELLER in run.kept:  # a refit
            put_weights(theta, run.kept[LABELLER])
        elif spec.conditional:
            optimiser = torch.optim.SGD(theta.head.parameters(), lr=self.labeller_rate, momentum=MOMENTUM)
            sgd = DPSGD(theta, loss, run, self.dpsgd(spec), optimiser)
            for _ in sgd.steps():  # t = 1, ..., T
                G = barrier.release(LABELLER, sgd.query)  # the barrier
                sgd.step(G / sgd.config.batch)
            run.made[LABELLER] = labeller_weights(theta)
        phi = self.embed(spec, run)
        query = BoundedSum(phi, UNIT_BALL, (self.features,), by_class=True)
        S = run.once(EMBEDDING, lambda: barrier.release(EMBEDDING, query))  # the barrier
        target = means(self.labels, S, barrier, run)
        weights = label_histogram.shares(self.labels, barrier, run)
        nets = []
        for number in range(self.generators):
            again = RepeatedRun(run, f"generator {number}", f"generator {number + 1} of {self.generators}")
            net = self.first(spec, weights, again).to(run.device)
            each = max(2, self.batch // len(spec.classes))
            rate = self.learning_rate
            nets.append(match(net, target, phi, again, steps=self.steps, batch=each, learning_rate=rate))  # type: ignore[arg-type]
        made = LabelledGenerator(
            spec.shape, spec.classes, nets, self.patches, self.mirrored, self.images, weights, theta
        )
        return made.to(run.device).eval()

    def first(self, spec: DataSpec, weights: list[float] | None, run: RepeatedRun) -> Generator:
        """A generator before its first step."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=run.generator("weights"))))
            if self.generator == "conv":
                return ConvGenerator(spec.shape, spec.classes, LATENT, self.width, weights)
            return LeavesGenerator(spec.shape, spec.classes, self.width, weights)

    def embed(self, spec: DataSpec, run: Run) -> Callable[..., Tensor]:
        """phi: pixels, and scattering where it has a share."""
        random = public_random(self.feature_seed)
        if not self.scattering:
            return RandomFourier(spec.pixels, self.features, self.bandwidth, random, self.octaves).to(run.device)
        seen = FixedFeatures(spec.shape).to(run.device)
        half = self.features // 2
        pixels = RandomFourier(spec.pixels, half, self.bandwidth, random, self.octaves).to(run.device)
        waves = RandomFourier(seen.width, half, self.scattering_bandwidth, random, self.octaves).to(run.device)
        parts = math.sqrt(1 - self.scattering), math.sqrt(self.scattering)

        def phi(images: Tensor, labels: Tensor | None = None) -> Tensor:
            return torch.cat([parts[0] * pixels(images), parts[1] * waves(seen(images).to(images))], 1)

        return phi


def loss(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """One number an image."""
    return cross_entropy(net(images), labels, reduction="none")
