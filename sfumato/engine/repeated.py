"""Steps over released values inside a run: nothing of them is kept, since they can be made again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from sfumato.run.run import Run


class RepeatedRun:
    """A run whose steps are not kept: they are made again, the same ones, when the run is resumed.

    `stream` names the public randomness of these steps: another name draws other numbers. `shown` is what progress
    calls them.
    """

    def __init__(self, run: Run, stream: str, shown: str) -> None:
        self.run = run
        self.device = run.device
        self.seed = run.seed
        self.once = run.once
        self._stream = stream
        self._shown = shown

    def generator(self, name: str, step: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
        """Public randomness of its own."""
        return self.run.generator(f"{self._stream} {name}", step, device)

    def steps(self, total: int, **state: Any) -> Iterator[int]:
        """Step numbers, with progress and a look at Ctrl-C."""
        self.run.progress.start(self._shown, total)
        for step in self.run.rounds(total):
            yield step
            self.run.progress.advance(step + 1)
            self.run.check()
