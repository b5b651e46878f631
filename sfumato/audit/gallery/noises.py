"""Bugs in the noise: too little, in the wrong places, from a public seed, or used twice; most of them on votes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sfumato.audit.gallery import engine
from sfumato.audit.gallery.common import Bug, add_noise, clipped, declared, vector_pairs
from sfumato.audit.gallery.topagg import CROSSING, SIGMA, add_votes_noise, tally, voting
from sfumato.audit.gallery.topagg import D as WIDTH
from sfumato.audit.recording.subject import Array, Subject
from sfumato.engine.gradients.per_example import ClippedGradient
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.bounds import Bound
from sfumato.privacy.mechanisms import DiscreteGaussian, Gaussian

D = 16
RANKS = 4
QUERIES = 4
BOUND = Bound(1.0)
NOISE = Gaussian(1.0)
ZEROS = np.zeros((8, D))


def _sum(name: str, release: object, **parts: object) -> Subject:
    """A sum of clipped records, released by `release(data)`; all claims are those of the real parts."""
    claims = dict(declared=declared(BOUND), sigma=NOISE.std(BOUND), grid=BOUND.grid)
    given = dict(pairs=vector_pairs(D), exact=lambda data: clipped(data, BOUND), nothing=(ZEROS,))
    return Subject(name=name, release=release, **(claims | given | parts))  # type: ignore[arg-type]


def halved(bug: bool) -> Subject:
    """Noise of half the declared scale."""
    quiet = replace(CROSSING, mechanism=DiscreteGaussian(CROSSING.mechanism.multiplier / (2 if bug else 1)))
    return voting("halved noise", release=lambda data: add_votes_noise(tally(data), quiet), projected=None)


def selected(bug: bool) -> Subject:
    """Noise on the coordinates that carry a signal, and on no others."""

    def release(data: Array) -> Array:
        value = tally(data)
        noisy = add_votes_noise(value)
        return np.where(value != 0, noisy, 0.0) if bug else noisy

    return voting("selected coordinates", release=release, projected=None)


class _Dealt:
    """The first of several ranks, in one process: it has its share, and the others have added up theirs."""

    barrier: Barrier | None = None
    size = RANKS

    def __init__(self, query: ClippedGradient) -> None:
        self._query = query
        self._rest = np.zeros((0, 1), np.int64)

    def owns(self, block: int) -> bool:
        return block % RANKS == 0

    def same(self, value: Tensor) -> Tensor:
        return value

    def share(self, pages: NDArray[np.int64]) -> NDArray[np.int64]:
        self._rest = np.delete(pages, np.s_[::RANKS], 0)
        return pages[::RANKS]

    def sum(self, value: Tensor) -> Tensor:
        assert self.barrier is not None
        rest: Tensor = behind(self.barrier).sums.total("gradient", self._query, self._rest, 0, ())
        return value + rest


def _added(shares: list[Array]) -> Array:
    return np.asarray(np.sum(shares, axis=0), dtype=np.float64)


def by_rank(bug: bool) -> Subject:
    """Each of four ranks adds noise for its share of the average; only one draw after the reduction is right."""
    query = engine.linear()
    crossing = engine.free(query, engine.MULTIPLIER / (RANKS if bug else 1))
    if bug:
        barriers = [engine.barrier(crossing) for _ in range(RANKS)]
    else:
        first = _Dealt(query)
        first.barrier = engine.barrier(crossing, ranks=first)
        barriers = [first.barrier]

    def release(nothing: None) -> Array:
        return _added([b.release("gradient", query).numpy() for b in barriers])

    def projected(exact: Array, u: Array, n: int) -> Array:
        shares = [exact, *np.zeros((len(barriers) - 1, len(exact)))]
        return _added([add_noise(np.tile(s, (n, 1)), crossing.mechanism, query.bound) @ u for s in shares])

    def exact(data: Array) -> Array:
        return _added([engine.total(query, data[rank::RANKS]) for rank in range(RANKS)])

    return engine.gradient_step("noise by rank", query, exact=exact, release=release, projected=projected)


def public_seed(bug: bool) -> Subject:
    """Noise from the experiment's seed."""

    def release(data: Array) -> Array:
        value = tally(data)
        if bug:  # rounded like the real one: only its source is wrong
            return value + np.rint(np.random.normal(0, SIGMA, len(value)))  # noqa: NPY002
        return add_votes_noise(value)

    return voting("public seed", release=release, projected=None)


def reused(bug: bool) -> Subject:
    """One draw of noise for all four queries of a release."""

    def exact(data: Array) -> Array:
        return np.stack([tally(data), *np.zeros((QUERIES - 1, WIDTH))])

    def release(data: Array) -> Array:
        return exact(data) + add_votes_noise(np.zeros(WIDTH)) if bug else add_votes_noise(exact(data))

    return voting("noise reused", exact=exact, release=release, projected=None, queries=QUERIES)


def correct(bug: bool) -> Subject:
    """No bug at all: the control that guards against false alarms."""
    return _sum(
        "correct",
        lambda data: add_noise(clipped(data, BOUND), NOISE, BOUND),
        projected=lambda exact, u, n: add_noise(np.tile(exact, (n, 1)), NOISE, BOUND) @ u,
    )


BUGS = (
    Bug("B01", "noise standard deviation halved", halved, ("noise scale", "step audit")),
    Bug("B08", "noise only on selected coordinates", selected, ("noise coverage",)),
    Bug("B11", "noise added wrongly on each rank", by_rank, ("noise scale", "step audit")),
    Bug("B15", "public noise seed", public_seed, ("replay",)),
    Bug("B16", "noise reused across classes", reused, ("noise correlation",)),
    Bug("B27", "correct mechanism, 50 000 draws", correct, draws=50_000),
)
