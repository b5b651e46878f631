"""A site: its records, its ledger and its part of every sum. It answers bytes with bytes, and keeps count on its disk.

    join     who asks, with which agreement and which code        a public key
    meet     the public keys of all sites                         nothing
    sum      question n, attempt a                                its sum with its share of the noise, masked
    ready    who answered                                         whether this site can open that attempt
    open     who answered                                         the seeds that open the sum of those, once
    end      the run is over                                      nothing; the reservation is committed

A mark is on the disk before an answer leaves: a site that was killed answers no attempt twice, and opens one attempt of
a question at most. It can still open the one that it had sent, since its seeds follow from a secret beside the mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.data.private import PrivateImages, with_classes
from sfumato.errors import InputError, SfumatoError
from sfumato.federation.agreement import Agreement
from sfumato.federation.marks import Marks
from sfumato.federation.masks import Attempt, Keys, Masks, fingerprint
from sfumato.federation.teachers import Teachers
from sfumato.ledger.durable import replace
from sfumato.ledger.job import Job
from sfumato.ledger.reservation import Charge, charged
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.one_of_several import OneOfSeveral
from sfumato.remote import wire
from sfumato.remote.served import check

MARKS = "marks.jsonl"
SECRET = "secret.key"
SAVE_EVERY = 25  # updates of teachers between two checkpoints of a site
NOTHING: dict[str, Any] = {"run": None, "publics": None, "asked": [0, 0], "about": None, "opened": None, "used": None}


class Refused(SfumatoError):
    """A question that a site does not answer, in a sentence that may be told to whoever asked."""

    exit_code = 4


class Site:
    """What one site does with the requests of a coordinator; see the module."""

    def __init__(
        self,
        agreement: Agreement,
        name: str,
        box: PrivateImages,
        charge: Charge,
        *,
        device: str = "cpu",
        microbatch: int = 1024,
        pins: Mapping[str, str] | None = None,
        told: Callable[[str], None] = lambda sentence: None,
        save_every: int = SAVE_EVERY,
        **how: Any,
    ) -> None:
        self.agreement = agreement
        self.name = name
        self._charge = charge
        self._folder: Path = charge.job.folder
        self._device = device
        self._pins = dict(pins or {})
        self._told = told
        odometer = Odometer(agreement.plan, charge.begin)
        spec = agreement.spec_of(name)
        self._side = OneOfSeveral(box, spec, odometer, device=device, microbatch=microbatch, **how)
        self.teachers = Teachers(self._side, self._folder, device, save_every)
        self._remembered = wire.Kept()
        self.ended = False
        self._load()

    @property
    def run(self) -> str:
        """The name of this site's run, by which it is resumed."""
        return self._folder.name

    def _load(self) -> None:
        """The secret and the marks of a run that goes on, or new ones."""
        secret = self._folder / SECRET
        self.keys = Keys(secret.read_bytes() if secret.exists() else None)
        if not secret.exists():
            replace(secret, self.keys.secret)
        self._file = Marks(self._folder / MARKS, NOTHING)
        if self._marks["used"] is not None:
            self._side.count_from(self._marks["used"])
        self._masks = self._met(self._marks["publics"])

    def _met(self, publics: Mapping[str, str] | None) -> Masks | None:
        if publics is None:
            return None
        return Masks(self.name, self.keys, {name: bytes.fromhex(key) for name, key in publics.items()})

    @property
    def _marks(self) -> dict[str, Any]:
        return self._file.now

    def _mark(self, **changes: Any) -> None:
        """On the disk before anything follows from it."""
        self._file.put(**changes, used=self._side.counted())

    def __call__(self, request: bytes) -> bytes:
        """The reply to a request. One that is refused says why; what fails otherwise is raised here, and stays here."""
        try:
            asked = wire.decode(request)
            answer = getattr(self, f"_on_{_kind(asked)}")
            if asked["kind"] != "join":
                self._refuse_strangers(asked)
            return wire.encode(answer(asked))
        except (Refused, wire.WireError) as refusal:
            self._told(f"refused: {refusal}")
            return wire.encode({"refused": f"{self.name}: {refusal}"})

    def _refuse_strangers(self, asked: Mapping[str, Any]) -> None:
        if asked["run"] != self._marks["run"]:
            raise Refused("This site takes part in another run; start it anew for this one.")

    def _on_join(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Agree on the plan and the code, and give a public key."""
        if asked["agreement"] != self.agreement.digest:
            raise Refused("The coordinator has another plan; let all sites and the coordinator read the same file.")
        if asked["code"] != wire.fingerprint():
            raise Refused("The coordinator runs another version of sfumato, Python or torch; install the same.")
        if self._marks["run"] is None:
            self._mark(run=asked["run"])
            self._told(f"joined run {asked['run'][:12]}; key of {self.name}: {fingerprint(self.keys.public)}")
        self._refuse_strangers(asked)
        return {"key": self.keys.public, "asked": list(self._marks["asked"]), **self.teachers.known()}

    def _on_meet(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Learn the other sites' keys, once."""
        publics = {name: bytes(key).hex() for name, key in asked["keys"].items()}
        if self._marks["publics"] not in (None, publics):
            raise Refused("The keys of the sites changed since the run began; start a new run.")
        if set(publics) != set(self.agreement.sites) or publics[self.name] != self.keys.public.hex():
            raise Refused("The keys are not those of the sites in the plan.")
        self._check_pins({name: fingerprint(bytes.fromhex(key)) for name, key in publics.items()})
        if self._marks["publics"] is None:
            self._mark(publics=publics)
            self._masks = self._met(publics)
        return {}

    def _check_pins(self, found: Mapping[str, str]) -> None:
        for name, key in found.items():
            self._told(f"key of {name}: {key}")
            if self._pins.get(name, key).replace(" ", "") != key.replace(" ", ""):
                raise Refused(f"The key of {name} is not the one that this site was told; ask that site for it.")

    def _on_sum(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """This site's part of a sum: charged, noised, masked, marked."""
        question, number = asked["question"], asked["attempt"]
        self._refuse_old(question, number)
        self.teachers.hear(asked["hear"])
        if not self.teachers.stand_at(asked["stand"]):
            return {"behind": True, **self.teachers.known()}
        query, public = wire.decode(
            asked["query"], device=self._device, handles=self.teachers.held.__getitem__, kept=self._remembered
        )
        check(query)
        new = self._new(question, [asked["crossing"], getattr(query, "queries", 1)])
        steps = self._side.steps(asked["crossing"], query, public, self.agreement.shares, charge=new)
        words = steps if self.agreement.shares is None else self._hidden(steps, question, number)
        self._mark(asked=[question, number], about=[asked["crossing"], getattr(query, "queries", 1)])
        return {"words": words.astype("<u8").tobytes(), **self.teachers.known()}

    def _new(self, question: int, about: list[Any]) -> bool:
        """Whether a question is to be charged; one that is asked again must be what was charged before."""
        again = question == self._marks["asked"][0]
        if again and about != self._marks["about"]:
            raise Refused(f"Question {question} was of another crossing before; it is not answered.")
        return not again

    def _refuse_old(self, question: int, number: int) -> None:
        if [question, number] <= self._marks["asked"]:
            raise Refused(f"Question {question}, attempt {number}, was answered before; it is not answered again.")
        if self._marks["opened"] is not None and question <= self._marks["opened"][0]:
            raise Refused(f"Question {question} was opened before; it is not answered again.")

    def _hidden(self, steps: Any, question: int, number: int) -> Any:
        if self._masks is None:
            raise Refused("The keys of the other sites are not known yet.")
        return self._masks.hide(steps, self._attempt(question, number))

    def _attempt(self, question: int, number: int) -> Attempt:
        return Attempt(str(self._marks["run"]), question, number)

    def _on_ready(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Whether this site would open; it reveals nothing."""
        self._check_opening(asked)
        return {"ready": True}

    def _on_open(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Reveal what opens the sum of those that answered. The same again, where it is asked again."""
        self._check_opening(asked)
        answered = sorted(asked["answered"])
        self._mark(opened=[asked["question"], asked["attempt"], answered])
        assert self._masks is not None
        return self._masks.reveal(self._attempt(asked["question"], asked["attempt"]), answered)

    def _check_opening(self, asked: Mapping[str, Any]) -> None:
        question, number, answered = asked["question"], asked["attempt"], sorted(asked["answered"])
        if self.agreement.shares is None or [question, number] != self._marks["asked"]:
            raise Refused(f"Question {question}, attempt {number}, is not the one that was answered last.")
        if len(answered) < self.agreement.least or self.name not in answered:
            raise Refused(f"Expected {self.agreement.least} answers, this site's among them, found {len(answered)}.")
        if not set(answered) <= set(self.agreement.sites):
            raise Refused("Expected answers of the sites in the plan, found others.")
        opened = self._marks["opened"]
        if opened is not None and opened[0] == question and opened != [question, number, answered]:
            raise Refused(f"Question {question} was opened before, with other answers or in another attempt.")

    def _on_end(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Commit what was reserved, and delete every private file of the run."""
        if not self.ended:
            self._charge.finish()
            self.ended = True
        return {}


def _kind(asked: Any) -> str:
    kinds = ("join", "meet", "sum", "ready", "open", "end")
    if not isinstance(asked, dict) or asked.get("kind") not in kinds:
        raise Refused(f"Expected a request of kind {', '.join(kinds)}, found another.")
    return str(asked["kind"])


def check_box(agreement: Agreement, name: str, box: PrivateImages) -> None:
    """Refuse records that are not what the plan says of this site; told to their custodian alone."""
    if name not in agreement.sites:
        raise InputError(f"The plan has no site {name!r}; it has {', '.join(agreement.sites)}.")
    planned = agreement.spec_of(name)
    for what in ("shape", "unit", "count_public", "records"):
        wanted, found = getattr(planned, what), getattr(box.spec, what)
        if wanted != found:
            raise InputError(f"The plan has {what} of {name} as {wanted}, and the data have {found}; let them agree.")


@contextmanager
def at_site(
    agreement: Agreement,
    name: str,
    box: PrivateImages,
    *,
    ledger: str | Path | None = None,
    resume: str | None = None,
    **how: Any,
) -> Iterator[Site]:
    """A site whose whole plan is reserved in its own ledger; what fails after the first answer stays spent.

    Its records may lack classes that others have.
    """
    box = with_classes(box, agreement.spec.classes)
    check_box(agreement, name, box)
    job = Job.find(resume) if resume else Job.create({}, str(ledger) if ledger else None)
    with charged(agreement.plan, box, job, ledger) as charge:
        yield Site(agreement, name, box, charge, **how)
