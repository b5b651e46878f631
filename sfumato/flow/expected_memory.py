"""How much memory a run will need: measured in its rehearsal, and multiplied up from public facts.

A rehearsal computes a page of made-up records at two widths. What the wider one needs beyond the narrower is what its
rows need, and the page of the run has so many rows; the rest is there whatever the rows are. Features that are kept for
each record are added. States of held parts are told apart: those that do not fit lie on a disk, which takes longer.
What the process held before, records among it, is left out. So nothing of it is computed from data.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

BLOCK = 32  # a microbatch is advised in multiples of this
GIGA = 1e9
STATUS = Path("/proc/self/status")
GROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Page:
    """What the widest page of a crossing needs: so many bytes, and so many for each of its rows."""

    fixed: float
    row: float
    rows: int

    @classmethod
    def through(cls, peaks: dict[int, float], rows: int) -> Page:
        """By what was measured at one width or at two.

        >>> Page.through({32: 1e9, 64: 2e9}, rows=1024)
        Page(fixed=0.0, row=31250000.0, rows=1024)
        """
        narrow = min(peaks)
        wide = max(peaks)
        row = max(0.0, peaks[wide] - peaks[narrow]) / max(1, wide - narrow)
        return cls(peaks[narrow] - row * narrow, row, rows)

    @property
    def needs(self) -> float:
        """Bytes at all of its rows."""
        return self.fixed + self.row * self.rows

    def rows_in(self, room: float) -> float:
        """How many of its rows fit."""
        return max(0.0, room - self.fixed) / self.row if self.row else 0.0


@dataclass(frozen=True)
class Memory:
    """Bytes that a run needs, beside what is in use before, and those that are free on its device."""

    device: str
    have: float
    pages: tuple[Page, ...]
    other: float = 0.0  # the most that was in use outside of pages
    features: float = 0.0  # kept of all records
    held: float = 0.0  # states of parts

    @property
    def needs(self) -> float:
        """Of what must be in memory at once."""
        return max([self.other, *(page.needs for page in self.pages)]) + self.features

    @property
    def fits(self) -> bool:
        """Whether it does."""
        return self.needs <= self.have

    @property
    def microbatch(self) -> int:
        """The largest one with which it would fit; 0 where there is none."""
        room = self.have - self.features
        if self.other > room:
            return 0
        rows = [page.rows_in(room) for page in self.pages if page.needs > room]
        return int(min(rows or [page.rows for page in self.pages], default=0) // BLOCK) * BLOCK

    def refusal(self, method: str, microbatch: int) -> str:
        """Why a run is not begun, and what to do."""
        take = f"take --microbatch {self.microbatch}" if self.microbatch else "lower the method's own sizes"
        cpu = "" if self.device == "cpu" else ", or choose --device cpu"
        return (
            f"{method} needs about {giga(self.needs)} of memory on {self.device} with --microbatch {microbatch}, and "
            f"{giga(self.have)} are free: {take}{cpu}. Nothing was spent."
        )

    def to_json(self) -> dict[str, float | int | str | bool]:
        """For programs."""
        told = {"needs": round(self.needs), "held": round(self.held), "have": round(self.have)}
        return {"device": self.device, **told, "fits": self.fits, "microbatch": self.microbatch}

    def __str__(self) -> str:
        text = (
            f"about {giga(self.needs)} on this device, by a rehearsal on made-up records; there are {giga(self.have)}"
        )
        if not self.held:
            return text
        beyond = self.needs + self.held > self.have
        where = "; what does not fit is kept apart from it, which takes longer" if beyond else ""
        return f"{text}. Besides, {giga(self.held)} for what teachers learn{where}"


def giga(value: float) -> str:
    """Bytes in words.

    >>> giga(23.4e9), giga(1.26e9), giga(3e7)
    ('23 GB', '1.3 GB', '0.1 GB')
    """
    value = max(value / GIGA, 0.1)
    return f"{value:.0f} GB" if value >= 10 else f"{value:.1f} GB"


class Gauge:
    """The peak of memory in use on a device since it was last set back; for a CPU, that of this process."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._cuda = device.startswith("cuda")
        self.works = self._cuda  # whether this system tells
        self.set_back()

    def set_back(self) -> None:
        """From here on."""
        if self._cuda:
            torch.cuda.reset_peak_memory_stats(self._device)
            return
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # what an allocator keeps would hide what comes next
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
            self.works = "VmHWM" in _status()

    def peak(self) -> float:
        """Bytes."""
        return float(torch.cuda.max_memory_allocated(self._device)) if self._cuda else _status().get("VmHWM", 0.0)

    def now(self) -> float:
        """Bytes in use."""
        return float(torch.cuda.memory_allocated(self._device)) if self._cuda else _status().get("VmRSS", 0.0)

    def have(self) -> float:
        """Bytes that are free."""
        if self._cuda:
            kept = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
            return float(torch.cuda.mem_get_info(self._device)[0] + kept)
        return min(_kilobytes(Path("/proc/meminfo")).get("MemAvailable", float("inf")), _left_of_group())


class Scales:
    """Peaks of a rehearsal, by crossing and width of its pages."""

    def __init__(self, device: str, have: float | None = None) -> None:
        self._device = device
        self._gauge = Gauge(device)
        self._have = self._gauge.have() if have is None else have
        self._peaks: dict[str, dict[int, float]] = {}
        self._rows: dict[str, int] = {}
        self._other = 0.0
        self.features = 0.0
        self.held = 0.0
        self._gauge.set_back()
        self._base = self._gauge.now()

    @contextmanager
    def page(self, name: str, rows: int, of: int) -> Iterator[None]:
        """A page of a crossing with so many rows, which is of `of` rows in the run."""
        self._other = max(self._other, self._more())
        self._gauge.set_back()
        yield
        self._peaks.setdefault(name, {})[rows] = self._more()
        self._rows[name] = of
        self._gauge.set_back()

    def _more(self) -> float:
        """The peak, beyond what was in use at first."""
        return max(0.0, self._gauge.peak() - self._base)

    def found(self) -> Memory | None:
        """What they come to; nothing on a system that does not tell."""
        if not self._gauge.works:
            return None
        pages = tuple(Page.through(peaks, self._rows[name]) for name, peaks in self._peaks.items())
        other = max(self._other, self._more())
        return Memory(self._device, self._have, pages, other, self.features, self.held)


def _status() -> dict[str, float]:
    return _kilobytes(STATUS)


def _kilobytes(file: Path) -> dict[str, float]:
    """Lines of `name: number kB`, in bytes; nothing where there is no such file."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0].rstrip(":"): 1024.0 * int(words[1]) for words in lines if words[-1:] == ["kB"]}


def _left_of_group() -> float:
    """What the group of processes that this one is in may still take, where it has a limit (a container)."""
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):  # "max" is no limit
            return float(int((GROUP / most).read_text()) - int((GROUP / used).read_text()))
    return float("inf")
