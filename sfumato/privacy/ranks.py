"""Several processes as one barrier: each sums over its share, the first adds the noise, all get the same answer."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
import time
from collections import deque
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import RankLost


class Ranks(Protocol):
    """What the barrier needs to know of its fellows."""

    def owns(self, block: int) -> bool:
        """Whether a block of held parts is this rank's."""

    @property
    def size(self) -> int:
        """How many there are."""

    def share(self, pages: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of the pages of units that take part (as the first rank drew them), those that this rank sums over."""

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all ranks, for every rank."""

    def same(self, value: Tensor) -> Tensor:
        """The first rank's value, for every rank."""


class Alone:
    """One process."""

    rank = 0
    size = 1
    first = True

    def owns(self, block: int) -> bool:
        """All of them."""
        return True

    def share(self, pages: NDArray[np.int64]) -> NDArray[np.int64]:
        """All of them."""
        return pages

    def sum(self, value: Tensor) -> Tensor:
        """The value."""
        return value

    def same(self, value: Tensor) -> Tensor:
        """The value."""
        return value

    def told(self, words: str) -> str:
        """The words."""
        return words

    def wait(self) -> None:
        """For nobody."""


def join() -> Alone | Together:
    """The group that torchrun has started this process in, or this process alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return Alone()
    from torch import distributed

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _lost)  # sent by torchrun when another rank has ended
    if not distributed.is_initialized():
        both = torch.cuda.is_available() and distributed.is_nccl_available()
        distributed.init_process_group("cpu:gloo,cuda:nccl" if both else "gloo")
        atexit.register(_leave)
    return Together()


LOST = (
    "A rank of this run was lost, so it stops; nothing more is spent. "
    "Resume it from its last checkpoint, on any number of ranks."
)


# A thread of the group may let go of a tensor a moment after all have it. If it is the last to do so it needs the
# interpreter, and the process is aborted if that is just ending. So the last tensors are kept, and it ends a moment
# later.
_SENT: deque[Tensor] = deque(maxlen=4)
_MOMENT = 0.1


def _leave() -> None:
    """Close the group; a process that just ends may be ended by its own threads."""
    from torch import distributed

    with contextlib.suppress(Exception):
        distributed.destroy_process_group()
    time.sleep(_MOMENT)


def _lost(*_: object) -> None:
    raise RankLost(LOST)


class Together:
    """The processes of a torch.distributed group (under torchrun). Only sums and noisy answers cross the wire."""

    def __init__(self, group: Any = None) -> None:
        from torch import distributed

        self._comm = distributed
        self._group = group
        self.rank = distributed.get_rank(group)
        self.size = distributed.get_world_size(group)

    @property
    def first(self) -> bool:
        """Whether this rank keeps the books: ledger, checkpoints, release."""
        return self.rank == 0

    def owns(self, block: int) -> bool:
        """Blocks go round."""
        return block % self.size == self.rank

    def share(self, pages: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the first rank, dealt out."""
        count = int(self.same(torch.tensor([len(pages)]))[0])
        drawn = torch.from_numpy(pages) if self.first else torch.empty((count, pages.shape[1]), dtype=torch.int64)
        return self.same(drawn).numpy()[self.rank :: self.size]

    def sum(self, value: Tensor) -> Tensor:
        """Sums of whole steps of a grid: exact, so the order of ranks cannot show."""
        return self._sure(lambda v: self._comm.all_reduce(v, group=self._group), value)

    def same(self, value: Tensor) -> Tensor:
        """Sent by the first rank."""
        return self._sure(lambda v: self._comm.broadcast(v, src=0, group=self._group), value)

    def told(self, words: str) -> str:
        """The first rank's words, for every rank."""
        said = torch.frombuffer(bytearray(words.encode().ljust(4096)), dtype=torch.uint8)
        return bytes(self.same(said).tolist()).decode().rstrip()

    def wait(self) -> None:
        """Until all ranks are here: one that ends too soon takes its last words with it."""
        self.sum(torch.zeros(1))

    def _sure(self, send: Any, value: Tensor) -> Tensor:
        try:
            sent = (value.to(torch.uint8) if value.dtype == torch.bool else value).clone()
            _SENT.append(sent)
            send(sent)
            return sent.to(value.dtype)
        except RuntimeError as error:
            raise RankLost(LOST) from error
