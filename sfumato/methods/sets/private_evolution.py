"""Private Evolution: images that noisy votes select and a public API varies (DPSDA; Lin et al., ICLR 2024). Site B1.

    P_0      = images of a public API, `each` of every class
    V_ck     = number of records of class c whose nearest image in P_t of that class is the k-th
    released = V + N_Z(0, sigma^2), in each of T rounds       Delta = 1 (add-remove), sqrt(2) (replace-one)
    P_(t+1)  = the images with most votes, and the API's variations of parents drawn by max(V - H, 0)

T rounds compose exactly: mu = sqrt(T) Delta / sigma for Gaussian noise. All but the votes is public. The API is a set
of image transforms that needs no model, or a local diffusion pipeline; distances are of average-pooled pixels.
Public images, where given, are the first population.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = PrivateEvolution(rounds=20).plan(spec, Budget(epsilon=1))
    >>> plan.crossings["votes"].times, round(plan.crossings["votes"].mechanism.multiplier, 2)
    (20, 16.68)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from sfumato.accounting.budget import Budget
from sfumato.accounting.claims import private_evolution
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.label_histogram import VOTE
from sfumato.errors import InputError
from sfumato.methods.base import Method
from sfumato.methods.sets.evolve import Api, Transforms, evolve
from sfumato.methods.sets.nearest import Nearest
from sfumato.methods.sets.pipelines import DiffusionPipeline, bring
from sfumato.networks.image_set import FixedSet
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import BoundedSum
from sfumato.privacy.plan import Plan, crossing, within
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

DEVIATIONS = (
    "Noise on votes is a discrete Gaussian, since votes are whole numbers.",
    "Part of the population stays as it is in each round; the paper varies all of it.",
    "Distances are of average-pooled pixels, so that no embedding network is needed.",
)


@dataclass(frozen=True, kw_only=True)
class PrivateEvolution(Method):
    """Private Evolution of a labelled population of images."""

    each: int = 50  # images of each class
    rounds: int = 20  # T
    threshold: float = 1.0  # H, in standard deviations of the noise on a vote
    kept: float = 0.5  # share of the population that stays in each round
    pool: int = 2  # pixels across that are averaged before distances are taken
    pipeline: str = ""  # folder of a local diffusers pipeline; empty for image transforms
    prompt: str = "a photo of {}"  # {} stands for the name of the class
    diffusion_steps: int = 20

    name: ClassVar[str] = "private-evolution"
    site: ClassVar[Site] = Site.B1
    family: ClassVar[str] = "votes on a population"
    paper: ClassVar[str] = "Lin, Gopi, Kulkarni, Nori, Yekhanin: DPSDA (ICLR 2024)"
    framework: ClassVar[str] = "Gaussian mechanism"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "static", "point-wise", "approximate")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    stand_ins: ClassVar[tuple[str, ...]] = ("pipeline",)

    def __post_init__(self) -> None:
        for name in ("each", "rounds", "pool", "diffusion_steps"):
            if not 1 <= getattr(self, name) <= 1_000_000:
                raise ValueError(f"Expected {name} from 1 to a million, found {name}={getattr(self, name)}.")
        if self.each < 2 or not 0 <= self.kept < 1 or not 0 <= self.threshold < 1e6:
            raise ValueError(
                f"Expected each of at least 2, kept from 0 to below 1 and threshold of at least 0, found "
                f"{self.each}, {self.kept}, {self.threshold}."
            )
        object.__setattr__(self, "pipeline", bring(self.pipeline))

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        main, counted = label_histogram.split(self.labels)

        def at(noise: float) -> Plan:
            sigma = noise * main * math.sqrt(self.rounds)
            crossings = {"votes": crossing(VOTE, sigma, times=self.rounds)}
            if counted is not None:
                crossings[label_histogram.CROSSING] = crossing(VOTE, noise * counted)
            return Plan(
                self.name,
                self.settings(),
                spec,
                budget,
                crossings,
                paper=private_evolution(sigma, budget.delta, rounds=self.rounds),
                facts={"sigma": sigma},
                labels=label_histogram.describe(self.labels),
                deviations=DEVIATIONS,
                warnings=self._warnings(spec, sigma),
            )

        return within(budget, at)

    def _warnings(self, spec: DataSpec, sigma: float) -> tuple[str, ...]:
        votes = spec.records / (len(spec.classes) * self.each)
        if votes >= sigma:
            return ()
        return (
            f"Too few data: an image has about {votes:.1f} votes, under noise of {sigma:.1f}; take fewer images "
            "of each class, fewer rounds, a larger epsilon or more data.",
        )

    def small(self) -> PrivateEvolution:
        """The same votes, among few images and without a pipeline."""
        return replace(self.at_most(each=8), pipeline="")

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> FixedSet:
        spec = barrier.spec
        weights = label_histogram.shares(self.labels, barrier, run)
        net = FixedSet(spec.shape, spec.classes, self.each, weights).to(run.device)
        query = BoundedSum(Nearest(self.pool), VOTE, (self.each,), by_class=True)
        preview = Preview(run, net, spec)

        def ask(population: Tensor) -> Tensor:
            return barrier.release("votes", query, population)  # the barrier

        for step in evolve(
            net,
            ask,
            self._api(spec, run),
            run,
            rounds=self.rounds,
            kept=self.kept,
            keep={"preview": preview},
            threshold=self.threshold * barrier.plan.facts["sigma"],
            start=self._start(spec, public, run),
        ):
            preview.snapshot(step, self.rounds, net)
        return net.requires_grad_(False).eval()

    def _api(self, spec: DataSpec, run: Run) -> Api:
        if not self.pipeline:
            return Transforms(spec.shape)
        return DiffusionPipeline(self.pipeline, spec.shape, spec.classes, self.prompt, run.device, self.diffusion_steps)

    def _start(self, spec: DataSpec, public: PublicImages | None, run: Run) -> Tensor | None:
        """Public images in the place of made ones, whatever their labels."""
        if public is None:
            return None
        pixels = torch.from_numpy(public.images.pixels)
        if not len(pixels) or tuple(pixels.shape[1:]) != spec.shape:
            raise InputError(f"Expected public images of shape {spec.shape}, found {tuple(pixels.shape[1:])}.")
        count = self.each * len(spec.classes)
        return pixels[torch.randint(len(pixels), (count,), generator=run.generator("public"))].float() / 255
