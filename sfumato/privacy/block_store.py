"""Where the states of held parts lie: on the device, and beyond its memory on the host or on disk, block by block."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor


class TeacherBlock(Protocol):
    """The state of some parts: updated with records of their own and public values, and never seen outside."""

    def update(self, images: Tensor, labels: Tensor, *public: Any, **named: Any) -> None:
        """Learn from (parts, teacher_batch, ...) records, and from whatever public values this kind takes."""

    def state_dict(self) -> dict[str, Tensor]:
        """All of it."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """As it was."""


@runtime_checkable
class DivisibleBlock(TeacherBlock, Protocol):
    """A block of which some parts can be asked alone."""

    def some(self, which: Tensor) -> TeacherBlock:
        """These parts, to be asked and not to be taught."""


class BlockStore:
    """Teams by block number. All of them stay on the device if they fit; otherwise one visits it at a time."""

    def __init__(self, make: Callable[[int], TeacherBlock], counts: Mapping[int, int], device: str) -> None:
        self._make = make
        self._counts = dict(counts)
        self._device = device
        self._teams: dict[int, TeacherBlock] = {}
        self._states: dict[int, dict[str, Tensor]] = {}
        self._folder: Path | None = None
        for block in self._counts:
            self._place(block, make(block))

    def __iter__(self) -> Iterator[int]:
        return iter(self._counts)

    def _place(self, block: int, teachers: TeacherBlock) -> None:
        left = len(self._counts) - len(self._teams) - 1
        size = sum(t.nbytes for t in teachers.state_dict().values())
        # Half as much again as the states is left to work with.
        if not self._states and 1.5 * size * (left + 1) <= _free(self._device):
            self._teams[block] = teachers
        else:
            self._put(block, teachers)

    def _put(self, block: int, teachers: TeacherBlock) -> None:
        """Keep a state apart from the device: in memory, or where that is short in a private file."""
        state = teachers.state_dict()
        kept = self._states.get(block)
        if kept is None:
            size = sum(t.nbytes for t in state.values())
            on_disk = 2 * size * (len(self._counts) - len(self._states)) > _free("cpu")
            kept = self._states[block] = {
                n: self._room(block, n, t) if on_disk else torch.empty_like(t, device="cpu") for n, t in state.items()
            }
        for name, value in state.items():
            kept[name].copy_(value)

    def _room(self, block: int, name: str, like: Tensor) -> Tensor:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="sfumato-"))  # of mode 0700
            weakref.finalize(self, shutil.rmtree, self._folder, True)
        path = self._folder / f"{block}-{name}"
        flat = torch.from_file(str(path), shared=True, size=max(1, like.numel()), dtype=like.dtype)
        return flat[: like.numel()].view(like.shape)

    @contextmanager
    def teachers(self, block: int, *, keep: bool) -> Iterator[TeacherBlock]:
        """The teachers of a block, on the device; with `keep` its new state is put back."""
        if block in self._teams:
            yield self._teams[block]
            return
        visitor = self._make(block)
        visitor.load_state_dict({n: t.to(self._device) for n, t in self._states[block].items()})
        yield visitor
        if keep:
            self._put(block, visitor)

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """The states of all blocks by number."""
        return {str(b): self._teams[b].state_dict() if b in self._teams else self._states[b] for b in self}

    def load_state_dict(self, states: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Blocks that are not in this store are left aside."""
        for block in self:
            state = states[str(block)]
            if block in self._teams:
                self._teams[block].load_state_dict(state)
            else:
                for name, value in state.items():
                    self._states[block][name].copy_(value)


def _free(device: str) -> float:
    """Bytes that may be taken."""
    if device.startswith("cuda"):
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return 1024.0 * int(lines["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return 8e9
