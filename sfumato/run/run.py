"""A run: public randomness, steps that can be stopped and resumed, and values computed once."""

from __future__ import annotations

import hashlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from sfumato.errors import InputError, Interrupted
from sfumato.run import checkpoint
from sfumato.run.progress import Silent, Throttle


def pick_device(name: str) -> str:
    """The named device; "auto" takes CUDA where there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
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
    ledger: Any = None  # of privacy.ledger.Ledger: its counts travel in the checkpoint
    owned: Callable[[], None] = lambda: None  # raises when this run was resumed elsewhere

    def __post_init__(self) -> None:
        self.device = pick_device(self.device)
        if not 0 <= self.seed < 2**63:
            raise InputError(f"Expected --seed from 0 to 2^63 - 1, found {self.seed}.")
        self.kept: dict[str, Any] = {}  # released values, under the names of their crossings
        self._stepping = False
        self._step: dict[str, Any] | None = None
        self._stop = threading.Event()
        if self.folder and self.path.exists():
            state = checkpoint.load(self.path)
            self.kept, self._step = state["kept"], state["step"]
            self.ledger.load_state_dict(state["ledger"])

    @property
    def path(self) -> Path:
        """The checkpoint file."""
        assert self.folder is not None
        return self.folder / "checkpoint.safetensors"

    def generator(self, name: str, step: int = 0) -> torch.Generator:
        """Public randomness that depends on (seed, name, step) alone, so that a resumed run draws the same."""
        digest = hashlib.blake2b(f"{self.seed}/{name}/{step}".encode(), digest_size=8).digest()
        return torch.Generator(device="cpu").manual_seed(int.from_bytes(digest, "big") >> 1)

    def once(self, name: str, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """`make()`, stored durably before it is used; a resumed run gets the stored value."""
        if name not in self.kept:
            value = make()
            self.kept[name] = value
            self.save()
        return self.kept[name].to(self.device)

    def steps(self, total: int, **state: Any) -> Iterator[int]:
        """Step numbers from where the run stands; `state` is restored first and saved on the way.

        Each value of `state` has state_dict and load_state_dict. Ctrl-C ends the run after the current step,
        with a checkpoint.
        """
        first, self._stepping = self._restore(state), True
        self.progress.start("training", total)
        throttle = Throttle(self.every)
        for step in range(first, total):
            yield step
            self.progress.advance(step + 1, self._note())
            if self._stop.is_set() or throttle.due():
                self._step = {"done": step + 1, "state": {k: v.state_dict() for k, v in state.items()}}
                self.save()
            self.check()
        self._step = {"done": total, "state": {k: v.state_dict() for k, v in state.items()}}
        self.save()

    def _restore(self, state: dict[str, Any]) -> int:
        if self._step is None:
            return 0
        for name, value in state.items():
            value.load_state_dict(checkpoint.to_device(self._step["state"][name], self.device))
        return int(self._step["done"])

    def _note(self) -> str:
        return f"epsilon {self.ledger.epsilon():.3g}" if self.ledger else ""

    def save(self) -> None:
        """Write the checkpoint, if there is a folder for it and the run is still ours."""
        if self.folder is None:
            return
        self.owned()
        checkpoint.save(self.path, {"ledger": self.ledger.state_dict(), "kept": self.kept, "step": self._step})

    def tick(self, crossing: str, fraction: float | None) -> None:
        """Told by the barrier how far a crossing is; None where the pace is private. Shown outside of steps."""
        self.check()
        if self._stepping:
            return
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
