"""A run: public randomness, steps that can be stopped and resumed, and values computed once."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch

from sfumato.errors import AuditFailed, InputError, Interrupted
from sfumato.ledger.durable import replace
from sfumato.privacy.partitions import PartitionHandle, inside
from sfumato.privacy.ranks import Alone
from sfumato.run import checkpoint
from sfumato.run.progress import Silent, Throttle

QUICK = 0.5  # seconds that a checkpoint may take just to show a preview
# bytes of held state from which on checkpoints are rare, and seconds between those
HEAVY = 2**28
SELDOM = 600.0


def pick_device(name: str) -> str:
    """The named device; "auto" takes CUDA where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and "LOCAL_RANK" in os.environ:  # one of several processes on this machine
        name = f"cuda:{int(os.environ['LOCAL_RANK']) % max(1, torch.cuda.device_count())}"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"Expected --device as auto, cpu or cuda, and one that is here; found '{name}'.") from error
    return name


@dataclass
class Run:
    """How to run, apart from what is computed: none of it changes the guarantee.

    `seed` reaches only public randomness (initial weights, latents, labels); privacy noise has its own source.
    `folder` (mode 0700) holds the checkpoint; without one a run cannot be resumed.
    """

    device: str = "auto"
    seed: int = 0
    microbatch: int = 1024
    folder: Path | None = None
    progress: Silent = field(default_factory=Silent)
    every: float = 20.0  # seconds between checkpoints
    odometer: Any = None  # of privacy.odometer.Odometer: its counts travel in the checkpoint
    owned: Callable[[], None] = lambda: None  # raises when this run was resumed elsewhere
    ranks: Any = field(default_factory=Alone)  # of privacy.ranks: the processes that carry out this run together
    most: int | None = None  # steps that are taken at most: of an audit or a rehearsal, on made-up records

    previews: ClassVar[bool] = True  # whether grids of samples are taken on the way

    def __post_init__(self) -> None:
        self.device = pick_device(self.device)
        if not 0 <= self.seed < 2**63:
            raise InputError(f"Expected --seed from 0 to 2^63 - 1, found {self.seed}.")
        self.kept: dict[str, Any] = {}  # released values, as the barrier returned them
        self.made: dict[str, Any] = {}  # further values to publish, made of released ones
        self.pictures: dict[str, Any] = {}  # previews: made of released values, shown once the odometer counts those
        self._stepping = False
        self._spent = ""
        self._step: dict[str, Any] | None = None
        self._stop = threading.Event()
        if self.folder and self.path.exists():
            state = checkpoint.load(self.path)
            self.kept = state["kept"]
            self._step = state["step"]
            self.odometer.load_state_dict(state["odometer"])

    @property
    def path(self) -> Path:
        """The checkpoint file."""
        assert self.folder is not None
        return self.folder / "checkpoint.safetensors"

    def generator(self, name: str, step: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
        """Public randomness that depends on (seed, name, step) alone, so that a resumed run draws the same.

        A device draws other numbers than a CPU, but faster: worth it for large tensors.
        """
        digest = hashlib.blake2b(f"{self.seed}/{name}/{step}".encode(), digest_size=8).digest()
        return torch.Generator(device).manual_seed(int.from_bytes(digest, "big") >> 1)

    def once(self, name: str, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """`make()`, stored durably before it is used; a resumed run gets the stored value."""
        if name not in self.kept:
            value = make()
            self.kept[name] = value
            self.save()
        kept: torch.Tensor = self.kept[name]
        return kept.to(self.device)

    def steps(self, total: int, *, stages: Sequence[int] = (), **state: Any) -> Iterator[int]:
        """Step numbers from where the run stands; `state` is restored first and saved on the way.

        `stages` are the steps at which something else begins, which a rehearsal takes too.

        Each value of `state` has state_dict and load_state_dict, or is a handle on held parts. Ctrl-C ends the run
        after the current step, with a checkpoint.
        """
        first = self._restore(total, state)
        self.begun("training", total)
        heavy = self.held_bytes(_held(state)) > HEAVY
        throttle = Throttle(max(self.every, SELDOM) if heavy else self.every)
        took = QUICK if heavy else 0.0
        for step in range(first, total if self.most is None else min(total, self.most)):
            yield step
            self.progress.advance(step + 1, self._note(step, total))
            if self._agreed(throttle.due() or (took < QUICK and any(p.waiting for p in self.pictures.values()))):
                began = time.monotonic()
                self._keep(step + 1, state)
                took = time.monotonic() - began
                throttle.at_least(20 * took)  # large states are saved less often
            self.check()
        self._keep(total, {name: value for name, value in state.items() if not isinstance(value, PartitionHandle)})

    def rounds(self, total: int) -> Iterable[int]:
        """Round numbers of a loop over public or released values, which is made again when a run is resumed.

        All of them; a rehearsal takes fewer.
        """
        return range(total)

    def begun(self, what: str, total: int | None) -> None:
        """Steps begin; from now on the barrier's own progress is not shown."""
        self._stepping = True
        self.progress.start(what, total)

    def memory(self) -> dict[str, Any]:
        """Where the run stands, apart from its counts."""
        return {"kept": self.kept, "step": self._step}

    @property
    def stopping(self) -> bool:
        """Whether the user asked to stop."""
        return self._stop.is_set()

    def _agreed(self, due: bool) -> bool:
        """Whether to save now: all ranks do it at the same step, and stop at the same step."""
        asked = self.ranks.sum(torch.tensor([self._stop.is_set(), due and self.ranks.first], dtype=torch.int64))
        if asked[0]:
            self._stop.set()
        return bool(asked.any())

    def _keep(self, done: int, state: dict[str, Any]) -> None:
        held = _held(state)
        self.store(done, {name: value.state_dict() for name, value in state.items() if name not in held}, held)
        for picture in self.pictures.values():
            picture.show()

    def store(self, done: int, own: Mapping[str, Any], held: Mapping[str, PartitionHandle]) -> None:
        """Held parts go to a file of their own for each rank, named by the step; the checkpoint names them last."""
        if held and self.folder is not None:
            states = {name: inside(value).state_dict() for name, value in held.items()}
            checkpoint.save(self.folder / f"held-{done}-{self.ranks.rank}.safetensors", states)
            self.ranks.sum(torch.zeros(1))  # every rank has written
        self._step = {"done": done, "state": own, "held": sorted(held)}
        self.save()
        if self.folder is not None:
            self._forget(f"held-{done}-")

    def held_bytes(self, held: Mapping[str, PartitionHandle]) -> int:
        """Size of their state."""
        return sum(inside(value).bytes for value in held.values())

    def _forget(self, current: str) -> None:
        for path in self.folder.glob(f"held-*-{self.ranks.rank}.safetensors") if self.folder else ():
            if not path.name.startswith(current):
                path.unlink()

    def _restore(self, total: int, state: dict[str, Any]) -> int:
        if self._step is None:
            return 0
        done = int(self._step["done"])
        for name in self._step["state"]:
            state[name].load_state_dict(checkpoint.to_device(self._step["state"][name], self.device))
        if done < total and self._step["held"]:
            self.restore_held({name: state[name] for name in self._step["held"]})
        return done

    def restore_held(self, held: Mapping[str, PartitionHandle]) -> None:
        """The blocks of every rank that wrote some, whatever their number was."""
        done = int(self._step["done"]) if self._step else 0
        assert self.folder is not None
        states_of_ranks = [checkpoint.load(path) for path in sorted(self.folder.glob(f"held-{done}-*.safetensors"))]
        if not states_of_ranks:
            raise InputError(f"{self.folder} lacks the state of its teachers; start a new run.")
        for name, parts in held.items():
            states = {block: s for file in states_of_ranks for block, s in file[name]["states"].items()}
            inside(parts).load_state_dict(states_of_ranks[0][name] | {"states": states})

    def _note(self, step: int, total: int) -> str:
        """What was spent so far; found anew a hundred times in a run, since that may take longer than a step."""
        if (
            self.odometer
            and self.ranks.first
            and (step % max(1, total // 100) == 0 or step == total - 1 or not self._spent)
        ):
            self._spent = f"epsilon {self.odometer.epsilon():.3g}"
        return self._spent

    @property
    def shows(self) -> bool:
        """Whether there is somewhere to put a picture."""
        return self.folder is not None

    def show(self, picture: bytes) -> None:
        """Put a picture into the folder, as a PNG."""
        assert self.folder is not None
        path = self.folder / "preview.png"
        replace(path, picture)
        self.progress.picture(path)

    def save(self) -> None:
        """Write the checkpoint, if there is a folder for it and the run is still ours."""
        if self.folder is None or not self.ranks.first:
            return
        self.owned()
        checkpoint.save(self.path, {"odometer": self.odometer.state_dict(), "kept": self.kept, "step": self._step})

    def finished(self) -> None:
        """Refuse an end that the plan does not foresee: crossings left over, or kept values that are no answers."""
        left = [f"'{n}'" for n, c in self.odometer.plan.crossings.items() if self.odometer.used[n] != c.times]
        if left:
            raise AuditFailed(
                f"Learning ended before all planned crossings were used ({', '.join(left)}); such an end "
                "may depend on the data, so nothing is released."
            )
        others = [f"'{name}'" for name, value in self.kept.items() if not self.odometer.returned(value)]
        if others:
            raise AuditFailed(
                f"What was kept as {', '.join(others)} is not what the barrier returned, so nothing is released."
            )

    def tick(self, crossing: str, fraction: float | None) -> None:
        """Told by the barrier how far a crossing is; None where the pace is private. Shown outside of steps."""
        if self._stepping:
            return
        self.check()
        if not fraction:
            self.progress.start("measuring", 100 if fraction == 0 else None)
        else:
            self.progress.advance(round(100 * fraction), crossing)

    def check(self) -> None:
        """Raise `Interrupted` when the user asked to stop."""
        if self._stop.is_set():
            raise Interrupted("Stopped.")

    def interruptible(self) -> _Interruptible:
        """A context in which the first Ctrl-C asks politely and the second one ends at once."""
        return _Interruptible(self._stop)


def _held(state: Mapping[str, Any]) -> dict[str, PartitionHandle]:
    return {name: value for name, value in state.items() if isinstance(value, PartitionHandle)}


class _Interruptible:
    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def __enter__(self) -> None:
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            self._before = signal.signal(signal.SIGINT, self._ask)

    def __exit__(self, *_: object) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, *_: object) -> None:
        if self._stop.is_set():
            raise KeyboardInterrupt
        self._stop.set()
