"""Level 0: checks that need no luck. Seconds, before every run."""

from __future__ import annotations

import inspect
import random as python_random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from sfumato.accounting.budget import Relation
from sfumato.audit.recording.subject import Array, Finding, Pair, Random, Rows, Subject

ROUNDING = 1 + 1e-9  # of the auditor's own arithmetic
REAL_NAMES = ("data", "record", "real", "label", "images", "batch", "private")


def worst(subject: Subject, random: Random) -> tuple[Pair | None, float, str]:
    """The pair of neighbours that is furthest beyond its declared sensitivity; its ratio, and why it is bad."""
    assert subject.pairs is not None and subject.exact is not None
    extreme: tuple[Pair | None, float, str] = (None, -1.0, "")
    for pair in subject.pairs(random):
        one = subject.exact(pair.one)
        two = subject.exact(pair.two)
        if one.shape != two.shape:
            return pair, np.inf, f"the shapes {one.shape} and {two.shape} differ"
        if not (np.isfinite(one).all() and np.isfinite(two).all()):
            return pair, np.inf, "the answer is not finite"
        moved = float(np.linalg.norm(furthest(two - one, subject.queries)))
        ratio = moved / subject.declared[pair.relation]
        if ratio > extreme[1]:
            extreme = (pair, ratio, f"moved the answer by {moved:.4g}")
    return extreme


def furthest(gap: Array, queries: int) -> Array:
    """A difference of answers with all zero but the query that moved most."""
    if queries == 1:
        return gap
    far = int(np.linalg.norm(gap.reshape(queries, -1), axis=1).argmax())
    kept = np.zeros_like(gap)
    kept.reshape(queries, -1)[far] = gap.reshape(queries, -1)[far]
    return kept


def sensitivity(subject: Subject, random: Random) -> Finding | None:
    """Search neighbours for an answer that moves by more than is declared, or is not finite."""
    if subject.pairs is None or subject.exact is None:
        return None
    pair, ratio, why = worst(subject, random)
    assert pair is not None
    declared = subject.declared[pair.relation]
    said = f"{why} for a {pair.kind} record under {pair.relation}; declared {declared:.4g}"
    if ROUNDING < ratio < np.inf:
        said += f", exceeded {ratio:.4g} times"
    return Finding("sensitivity", 0, ratio <= ROUNDING, said)


def influence(subject: Subject, random: Random) -> Finding | None:
    """A row may depend on its own record alone: change one record, and compare every other row bit by bit."""
    return None if subject.rows is None else _influence("influence", subject.rows, random, ("random", "zero", "huge"))


def outlier(subject: Subject, random: Random) -> Finding | None:
    """A record of extreme values must not change how the others are prepared."""
    if subject.prepared is None:
        return None
    return _influence("outlier canary", subject.prepared, random, ("huge", "tiny"))


def _influence(check: str, rows: Rows, random: Random, kinds: tuple[str, ...]) -> Finding:
    data = rows.batch(random)
    before = rows.of(data)
    for kind in kinds:
        for j in {0, len(before) - 1}:
            after = rows.of(rows.change(data, j, random, kind))
            moved = [i for i in range(len(before)) if i != j and not _same(before[i], after[i])]
            if moved:
                by = np.abs(before - after)[moved]
                said = f"a {kind} record {j} moved {len(moved)} of {len(before) - 1} other rows"
                return Finding(check, 0, False, f"{said} (by up to {np.nanmax(by, initial=0):.3g})")
    if rows.alone is not None:
        gap = max(float(np.abs(rows.of(rows.alone(data, i))[0] - before[i]).max()) for i in range(len(before)))
        if gap > 1e-4 * max(1.0, float(np.abs(before).max())):
            return Finding(check, 0, False, f"a row moves by {gap:.3g} when its record is alone in the batch")
    if rows.jacobian is not None:
        off = rows.jacobian(data)
        np.fill_diagonal(off, 0)
        if off.max() > 0:
            return Finding(check, 0, False, f"derivative of a row by another record is {off.max():.3g}, not 0")
    return Finding(check, 0, True, f"no row of {len(before)} moved with another record")


def _same(one: np.ndarray, two: np.ndarray) -> bool:
    return one.shape == two.shape and one.tobytes() == two.tobytes()


def private_state(subject: Subject, random: Random) -> Finding | None:
    """Under one tape of releases, a step without the record must answer the same with and without it."""
    if subject.history is None or subject.pairs is None:
        return None
    steps = 0
    for pair in subject.pairs(random):
        for t, ((taking, one), (_, two)) in enumerate(
            zip(subject.history(pair.one), subject.history(pair.two), strict=True)
        ):
            steps += 1
            if pair.changed not in taking and not _same(one, two):
                moved = float(np.linalg.norm(one - two))
                declared = subject.declared[pair.relation]
                return Finding(
                    "private state",
                    0,
                    False,
                    f"step {t + 1}, which does not contain the record, moved by "
                    f"{moved:.4g} ({moved / declared:.4g} times the declared sensitivity)",
                )
    return Finding("private state", 0, True, f"{steps} steps without the record did not move")


def tape(subject: Subject, random: Random) -> Finding | None:
    """All that is public must be the same on neighbours once the noisy answers are fixed: shapes, labels, weights."""
    pairs = subject.taped_pairs or subject.pairs
    if subject.taped is None or pairs is None:
        return None
    for pair in pairs(random):
        one = np.asarray(subject.taped(pair.one))
        two = np.asarray(subject.taped(pair.two))
        if not _same(one, two):
            return Finding("fixed tape", 0, False, f"a {pair.kind} record changed what is public ({_gap(one, two)})")
    return Finding("fixed tape", 0, True, "neighbours look the same under one tape of releases")


def _gap(one: np.ndarray, two: np.ndarray) -> str:
    if one.shape != two.shape:
        return f"shape {one.shape} against {two.shape}"
    return f"{int((one != two).sum())} of {one.size} values"


def signature(subject: Subject, random: Random) -> Finding | None:
    """What works on the public side takes no real records or labels."""
    if subject.entry is None:
        return None
    taken = [p for p in inspect.signature(subject.entry).parameters if any(n in p.lower() for n in REAL_NAMES)]
    said = f"takes {', '.join(taken)}" if taken else "takes nothing real"
    return Finding("signature", 0, not taken, f"{subject.entry.__name__} {said}")


def touched(subject: Subject, random: Random) -> Finding | None:
    """Every unit lies in one part."""
    if subject.parts is None:
        return None
    sizes = [len(p) for p in subject.parts(identities(random))]
    bad = sum(size != 1 for size in sizes)
    return Finding(
        "teachers touched",
        0,
        not bad,
        f"{bad} of {len(sizes)} records lie in {max(sizes)} parts or none"
        if bad
        else f"each of {len(sizes)} records lies in one part",
    )


def paired_partition(subject: Subject, random: Random) -> Finding | None:
    """Adding or removing a unit leaves every other one where it was; replacing one leaves all of them."""
    if subject.parts is None:
        return None
    names = identities(random)
    if subject.relation is Relation.REPLACE_ONE:
        how = "replacing"
        others = [[*names[:j], random.bytes(16), *names[j + 1 :]] for j in (0, 50, len(names) - 1)]
        same = [list(zip(range(len(names)), range(len(names)), strict=True))] * 3
    else:
        how = "removing"
        gone = (0, 50, len(names) - 1)
        others = [names[:j] + names[j + 1 :] for j in gone]
        same = [[(i, i - (i > j)) for i in range(len(names)) if i != j] for j in gone]
    before = subject.parts(names)
    for other, places in zip(others, same, strict=True):
        after = subject.parts(other)
        moved = [before[i] | after[j] for i, j in places if before[i] != after[j]]
        if moved:
            said = f"{how} one of {len(names)} records changed {len(frozenset().union(*moved))} parts"
            return Finding("paired partition", 0, False, said)
    return Finding("paired partition", 0, True, f"{how} one of {len(names)} records moved no other")


def identities(random: Random, count: int = 500) -> list[bytes]:
    """Names of made-up records."""
    return [random.bytes(16) for _ in range(count)]


def other_teachers(subject: Subject, random: Random) -> Finding | None:
    """A record of one part changes the teacher of that part and no other, bit by bit."""
    if subject.teachers is None or subject.pairs is None:
        return None
    most = 0
    for pair in subject.pairs(random):
        one = subject.teachers(pair.one)
        two = subject.teachers(pair.two)
        most = max(most, sum(not _same(a, b) for a, b in zip(one, two, strict=True)))
    return Finding("teachers moved", 0, most <= 1, f"one record moved up to {most} teachers; 1 is allowed")


def draws(subject: Subject, random: Random) -> Finding | None:
    """As many noise vectors drawn as events charged."""
    if subject.counted is None:
        return None
    drawn, charged = subject.counted()
    return Finding("draws = events", 0, drawn == charged, f"{drawn} noise vectors drawn, {charged} charged")


def replay(subject: Subject, random: Random) -> Finding | None:
    """The same user seed, twice: the noise must differ."""
    if subject.release is None or not subject.nothing:
        return None
    release = subject.release
    seed = int(random.integers(2**31))
    seen = []
    ask = subject.anew or (lambda: release(subject.nothing[0]))
    for _ in range(2):
        with seeded(seed):
            first = ask()
            # Whole-number noise of few values meets itself by chance: look at enough of it.
            more = range(-(-_enough(subject) // max(1, first.size)) - 1)
            seen.append(np.stack([first, *(ask() for _ in more)]))
    left = float(np.abs(seen[0] - seen[1]).max())
    said = f"releases with one user seed differ by up to {left:.3g}"
    return Finding("replay", 0, left > 0, said if left > 0 else "the same user seed repeats the noise: subtract it")


def _enough(subject: Subject) -> int:
    """Values of noise that agree by chance with a probability below 1e-9."""
    if not subject.discrete or subject.sigma is None:
        return 4
    _, mass = subject.masses()
    return int(min(20_000, np.ceil(-21 / np.log((mass**2).sum()))))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """All global generators at a seed, and back as they were afterwards."""
    kept = np.random.get_state(), python_random.getstate()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        python_random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(kept[0])  # noqa: NPY002
            python_random.setstate(kept[1])


def golden(subject: Subject, random: Random) -> Finding | None:
    """Accounting gives known numbers."""
    if subject.golden is None:
        return None
    rows = subject.golden()
    what, epsilon, known = max(rows, key=lambda row: abs(row[1] / row[2] - 1))
    ok = abs(epsilon / known - 1) < 2e-3
    return Finding("golden numbers", 0, ok, f"{what}: epsilon {epsilon:.4g}, known {known:.4g}")


def looks(subject: Subject, random: Random) -> Finding | None:
    """The sensitive test set is looked at once, when nothing is left to choose."""
    if subject.looks is None:
        return None
    count, chosen_after = subject.looks()
    said = f"{count} looks at the test set" + (", and a choice after one" if chosen_after else "")
    return Finding("test-set looks", 0, count <= 1 and not chosen_after, said)


CHECKS = (
    sensitivity,
    influence,
    outlier,
    private_state,
    tape,
    signature,
    touched,
    paired_partition,
    other_teachers,
    draws,
    replay,
    golden,
    looks,
)
