"""Synthetic images and their generator, from private ones: what `sfumato synthesize` plans, learns and writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from sfumato import __version__
from sfumato.data.public import PublicImages
from sfumato.flow.flow import Audited, Others, Reserved, Resumable
from sfumato.flow.isolated import STATED, Isolated
from sfumato.flow.make import Learner, check_out
from sfumato.flow.rehearsal import IMAGES, Stage, rehearse, trying
from sfumato.methods import Method
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Plan
from sfumato.release import Public, Release, make_statement
from sfumato.release.files.sign import read_key
from sfumato.run.run import Run
from sfumato.types import Images

DEFAULTS = "tuned on public data: these are the defaults of the software, and no private data had a part in them"
CHOSEN = "not charged: settings were chosen by the user; the software tried no other on the private data"


@dataclass(frozen=True)
class Learned:
    """A generator, images of it, and what the statement and the release say of how it was learned."""

    method: Method
    plan: Plan
    generator: Any
    images: Images
    barrier: Barrier  # that it was learned through
    kept: Mapping[str, Any]
    preview: Any = None
    isolated: bool = False  # in a process of its own

    @classmethod
    def by(cls, run: Run, method: Method, plan: Plan, generator: Any, images: Images, barrier: Barrier) -> Learned:
        """With what the run kept on the way."""
        return cls(method, plan, generator, images, barrier, run.kept | run.made, run.pictures.get("preview"))


@dataclass(frozen=True)
class Synthesis(Resumable[Learned, Release]):
    """A method with its plan, and how its release is to be written."""

    method: Method
    plan: Plan
    public: PublicImages | None = None
    count: int = 10_000
    out: Path | None = None
    format: str = "png"
    command: str | None = None
    key: str | Path | None = None
    signer: str | None = None
    publication: Mapping[str, str] | None = None  # what the publisher says: licence, title, contact
    isolate: bool = False  # the method runs in a process of its own, see `isolated`

    verb: ClassVar[str] = "synthesize"

    def check(self) -> None:
        """Refuse a place, a format or a key with which nothing could be written."""
        check_out(self.out, self.count, self.format)
        if self.key is not None:
            read_key(self.key)

    def audits(self) -> Iterable[tuple[Learner, Plan, PublicImages | None]]:
        """The method."""
        return [(self.method, self.plan, self.public)]

    def made(self) -> str:
        """Images and their generator."""
        more = " and the noisy measurement" if self.method.measured else ""
        return f"{self.count:,} synthetic images with labels ({self.format}), the weights of their generator{more}"

    def rehearse(self, run: Run, complete: Callable[[Learned], None]) -> float:
        """With all that the method needs; it makes a few images."""
        if self.isolate:
            return self._rehearse_apart(run, complete)

        def after(stage: Stage, generator: Any, brief: Run) -> None:
            images = generator.sample(IMAGES, seed=brief.seed)
            complete(Learned.by(brief, self.method, self.plan, generator, images, stage.barrier))

        return rehearse(self.method, self.plan, run, self.public, after=after)

    def _rehearse_apart(self, run: Run, complete: Callable[[Learned], None]) -> float:
        """The same where the method never runs in this process."""
        with trying(self.plan, run.device, run.microbatch):
            seconds, generator, kept = Isolated(self.method).rehearse(self.plan, run, self.public)
            if generator is not None:
                blind = Barrier(None, self.plan.data, Odometer(self.plan), device=run.device)
                images = generator.sample(IMAGES, seed=run.seed)
                complete(Learned(self.method, self.plan, generator, images, blind, kept, isolated=True))
        return seconds

    def learn(self, reserved: Reserved) -> Learned:
        """Learn, and make the images."""
        barrier, run = reserved.start(self.plan)
        learner = Isolated(self.method) if self.isolate else self.method
        with run.interruptible():
            generator = learner.learn(barrier, run, self.public)
            run.ranks.wait()
            run.finished()
            images = generator.sample(self.count, seed=run.seed)
            run.check()
        learned = Learned.by(run, self.method, self.plan, generator, images, barrier)
        return replace(learned, isolated=self.isolate)

    def state(self, learned: Learned, others: Others, audited: Audited) -> Release:
        """The release."""
        return released(learned, self.public, others, audited)

    def save(self, made: Release, place: Path) -> None:
        """As a folder that verifies."""
        options = {"format": self.format, "command": self.command, "key": self.key, "signer": self.signer}
        made.save(place, verified=True, publication=self.publication, **options)  # type: ignore[arg-type]

    def digest(self, made: Release) -> str:
        """SHA-256 of the generator."""
        digest = hashlib.sha256(json.dumps(made.generator.config(), sort_keys=True).encode())
        for name, tensor in sorted(made.generator.state_dict().items()):
            digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def load(self, place: Path) -> Release | None:
        """The release there."""
        return Release.load(place) if (place / "privacy.json").is_file() else None


def released(
    learned: Learned, public: PublicImages | None, others: Others, audited: Audited, tuning: str | None = None
) -> Release:
    """Everything that may be published, as one object."""
    statement = state(learned, public, others, audited, tuning)
    # Values kept by a run are what the barrier released, under the names of their crossings.
    measurement = {name: Public.after(value, name) for name, value in learned.kept.items()}
    snapshots = learned.preview and learned.preview.snapshots()
    return Release(learned.generator, learned.images, statement, measurement, snapshots)


def state(
    learned: Learned, public: PublicImages | None, others: Others, audited: Audited, tuning: str | None = None
) -> dict[str, Any]:
    """The privacy statement of a plan that was carried out."""
    plan = learned.plan
    released = ["synthetic images", "generator weights", "sample grids on the way", "label shares"]
    released += ["the noisy measurement"] * bool(learned.method.measured)
    released += ["weights of the critic, made of released values"] * bool(plan.settings.get("keep_critic"))
    return make_statement(
        plan.to_json(),
        released=released,
        account=others,
        noise=noise_facts(plan, learned.barrier) | ({"process": STATED} if learned.isolated else {}),
        public_data=None if public is None else {"provenance": public.provenance, "records": len(public.images)},
        tuning=tuning or tuning_of(learned.method, plan),
        audit=audited,
        version=__version__,
    )


def noise_facts(plan: Plan, barrier: Barrier) -> dict[str, str]:
    """Where the noise of a plan came from, and how each kind of it is drawn."""
    noise = barrier.noise
    kinds = {crossing.mechanism.kind for crossing in plan.crossings.values()}
    samplers = {
        "gaussian": noise.sampler,
        "discrete-gaussian": "exact discrete Gaussian on whole numbers",
        "discrete-laplace": "exact discrete Laplace distribution on whole numbers",
    }
    return {"source": noise.source, "sampler": "; ".join(samplers[kind] for kind in sorted(kinds))}


def tuning_of(method: Learner, plan: Plan) -> str:
    """Where settings come from that nobody chose by looking at the private data."""
    default = type(method)()
    if isinstance(default, Method):  # fitted for a GPU or for a CPU, by public facts alone
        known = [default.fitted_to(plan.data, plan.budget, device).settings() for device in ("cpu", "cuda")]
    else:
        known = [default.settings()]
    return DEFAULTS if dict(plan.settings) in known else CHOSEN
