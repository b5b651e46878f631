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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.accounting.claims import Claim, private_evolution
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.label_histogram import VOTE
from sfumato.methods.base import Method
from sfumato.methods.sets.evolve import Api, Transforms, next_population, whole
from sfumato.methods.sets.nearest import Nearest
from sfumato.methods.sets.pipelines import DiffusionPipeline, bring
from sfumato.methods.sets.synthetic_set import public_draw, repeated
from sfumato.methods.settings import count, setting
from sfumato.networks.image_set import ImageSet
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import BoundedSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

VOTES = "votes"
DEVIATIONS = (
    "Noise on votes is a discrete Gaussian, since votes are whole numbers.",
    "Part of the population stays as it is in each round; the paper varies all of it.",
    "Distances are of average-pooled pixels, so that no embedding network is needed.",
)


@dataclass(frozen=True, kw_only=True)
class PrivateEvolution(Method):
    """Private Evolution of a labelled population of images."""

    each: int = count(50, "images of each class", low=2)
    rounds: int = count(20, "T, rounds of votes")
    threshold: float = setting(1.0, "H, in standard deviations of the noise on a vote", low=0, below=1e6)
    kept: float = setting(0.5, "share of the population that stays in each round", low=0, below=1)
    pool: int = count(2, "pixels across that are averaged before distances are taken")
    pipeline: str = setting("", "folder of a local diffusers pipeline; empty for image transforms")
    prompt: str = setting("a photo of {}", "what the pipeline is asked for; {} stands for the name of the class")
    diffusion_steps: int = count(20, "steps of the pipeline for an image")

    name: ClassVar[str] = "private-evolution"
    site: ClassVar[Site] = Site.B1
    family: ClassVar[str] = "votes on a population"
    good_for: ClassVar[str] = (
        "A first look within seconds on any device, since nothing is trained; meant for data that resemble public "
        "images or a public model."
    )
    paper: ClassVar[str] = "Lin, Gopi, Kulkarni, Nori, Yekhanin: DPSDA (ICLR 2024)"
    framework: ClassVar[str] = "Gaussian mechanism"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "static", "point-wise")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    stand_ins: ClassVar[tuple[str, ...]] = ("pipeline",)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pipeline", bring(self.pipeline))  # settings are published, the way to it is not

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {VOTES: crossing(VOTE, z * math.sqrt(self.rounds), times=self.rounds)}

    def facts(self, plan: Plan) -> dict[str, Any]:
        return {"sigma": plan.crossings[VOTES].mechanism.multiplier}

    def claim(self, plan: Plan) -> Claim:
        return private_evolution(plan.facts["sigma"], plan.budget.delta, rounds=self.rounds)

    def warnings(self, plan: Plan) -> Iterator[str]:
        votes = plan.data.records / (len(plan.data.classes) * self.each)
        sigma = plan.facts["sigma"]
        if votes < sigma:
            yield (
                f"Too few data: an image has about {votes:.1f} votes, under noise of {sigma:.1f}; take fewer images "
                "of each class, fewer rounds, a larger epsilon or more data."
            )
        yield repeated(plan, self.each)

    def small(self) -> PrivateEvolution:
        """The same votes, among few images and without a pipeline."""
        return replace(self.at_most(each=8), pipeline="")

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ImageSet:
        spec = barrier.spec
        weights = label_histogram.shares(self.labels, barrier, run)
        P = ImageSet(spec.shape, spec.classes, self.each, weights).to(run.device)
        query = BoundedSum(Nearest(self.pool), VOTE, (self.each,), by_class=True)
        preview = Preview(run, P, spec)
        api = self._api(spec, run)
        H = self.threshold * barrier.plan.facts["sigma"]
        P.put(whole(self._start(spec, public, api, run)))
        for t in run.steps(self.rounds, net=P, preview=preview):
            V = barrier.release(VOTES, query, P.images.detach())  # the barrier
            votes = (V.cpu() - H).clamp(min=0)
            random = run.generator("evolve", t)
            images = P.images.detach().cpu()
            P.put(next_population(images, votes, api, random, strength=1 - t / self.rounds, kept=self.kept))
            preview.snapshot(t, self.rounds, P)
        return P.requires_grad_(False).eval()

    def _api(self, spec: DataSpec, run: Run) -> Api:
        if not self.pipeline:
            return Transforms(spec.shape)
        return DiffusionPipeline(self.pipeline, spec.shape, spec.classes, self.prompt, run.device, self.diffusion_steps)

    def _start(self, spec: DataSpec, public: PublicImages | None, api: Api, run: Run) -> Tensor:
        """The first population: public images, whatever their labels, where there are some; else the API's."""
        if public is None:
            labels = torch.arange(len(spec.classes)).repeat_interleave(self.each)
            return api.make(labels, run.generator("population"))
        return public_draw(public, spec, self.each * len(spec.classes), run)
