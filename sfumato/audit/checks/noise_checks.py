"""Level 0, by chance: noise on zero input, who takes part, and the support of the output.

Each test has a false-alarm rate of at most 1e-6, so that they can run before every run for years.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr

from sfumato.accounting.tradeoff import rate_at_least, rate_at_most
from sfumato.audit.recording.subject import Array, Finding, Inclusion, Random, Subject

RARE = 1e-6
NUMBERS = 400_000  # noise values looked at
WIDE = 20_000  # coordinates from which on fewer releases will do
WINDOW = 200  # events in which appearances are counted, where an epoch is longer
LAGS = 3  # events apart that are compared
CORRELATED = 2**20  # values whose every distance is looked at


def zero_input(subject: Subject, count: int | None = None) -> list[Array]:
    """Releases of inputs without a signal: nothing but noise, one row a release, for each such input."""
    assert subject.release is not None
    releases = []
    for data in subject.nothing:
        first = subject.release(data)
        fewest = 24 if first.size <= WIDE else 6
        wanted = count or int(np.clip(NUMBERS // max(1, first.size) // len(subject.nothing), fewest, 600))
        releases.append(np.stack([first.ravel(), *(subject.release(data).ravel() for _ in range(wanted - 1))]))
    return releases


def calibration(subject: Subject, random: Random) -> list[Finding]:
    """Scale, distribution, coverage, independence and support of the noise."""
    if subject.release is None or subject.sigma is None or not subject.nothing:
        return []
    findings: list[Finding] = []
    for noise in zero_input(subject):
        findings += [_scale(noise, subject), _coverage(noise, subject), _law(noise, subject)]
        if not subject.discrete or subject.sigma > 0.7:  # sums of rarer noise are far from normal
            findings.append(_repeats(noise))
        if subject.grid:
            findings.append(_on_grid(noise, subject.grid))
    return sorted(findings, key=lambda f: f.ok)


def moments(subject: Subject) -> tuple[float, float]:
    """Second and fourth moment of the noise: those of the discrete Gaussian are not quite those of its parameter."""
    assert subject.sigma is not None
    if not subject.laplace and (not subject.discrete or subject.sigma > 10):
        return subject.sigma**2, 3 * subject.sigma**4
    y, mass = subject.masses()
    return float((mass * y**2).sum()), float((mass * y**4).sum())


def _tails(total: float, degrees: int) -> float:
    return float(2 * min(stats.chi2.sf(total, degrees), stats.chi2.cdf(total, degrees)))


def _scale(noise: Array, subject: Subject) -> Finding:
    second, fourth = moments(subject)
    total = float((noise**2).sum())
    z = (total - noise.size * second) / np.sqrt(noise.size * (fourth - second**2))
    p = float(2 * stats.norm.sf(abs(z))) if subject.discrete else _tails(total / second, noise.size)
    said = f"standard deviation {np.sqrt(total / noise.size):.4g} in {noise.size} values, declared {second**0.5:.4g}"
    return Finding("noise scale", 0, p > (RARE / 100 if subject.discrete else RARE), said)


def _coverage(noise: Array, subject: Subject) -> Finding:
    assert subject.sigma is not None
    steps, width = noise.shape
    bare = int((noise == 0).all(0).sum())
    if subject.discrete and bare:  # rare noise may be absent by chance
        nothing = float(subject.masses()[1].max())  # zero is the likeliest
        bare = bare if width * nothing**steps < RARE / 10 else 0
    least = stats.chi2.isf(1 - RARE / 10 / width, steps)
    low = 0 if subject.discrete else int(((noise**2).sum(0) / subject.sigma**2 < least).sum())
    said = f"{bare} of {width} coordinates carry no noise" if bare else f"{low} of {width} coordinates carry too little"
    return Finding("noise coverage", 0, not bare and not low, said)


def _law(noise: Array, subject: Subject) -> Finding:
    flat = noise.ravel()
    assert subject.sigma is not None
    if subject.discrete:
        return _whole_numbers(flat, subject)
    test = stats.kstest(flat, lambda x: ndtr(x / subject.sigma), method="asymp")
    said = f"distance {test.statistic:.4f} from a Gaussian, p = {test.pvalue:.2g}"
    return Finding("noise distribution", 0, bool(test.pvalue > RARE), said)


def _whole_numbers(flat: Array, subject: Subject) -> Finding:
    y, mass = subject.masses()
    expected = mass * len(flat)
    seen = (
        np.array([Counter(flat.tolist()).get(float(v), 0) for v in y])
        if len(y) < 50
        else np.histogram(flat, np.append(y, y[-1] + 1) - 0.5)[0]
    )
    if seen.sum() != len(flat):
        return Finding(
            "noise distribution", 0, False, f"{len(flat) - seen.sum()} values are no whole numbers near zero"
        )
    p = _cells(*_merged(seen, expected, 10.0))
    law = "Laplace distribution" if subject.laplace else "Gaussian"
    return Finding("noise distribution", 0, p > RARE, f"chi-square against the discrete {law}, p = {p:.2g}")


def _merged(seen: NDArray[np.int64], expected: Array, least: float) -> tuple[Array, Array]:
    """Neighbouring cells joined until each is expected to hold enough."""
    cells = np.minimum(np.cumsum(expected) // least, expected.sum() // least - 1).astype(int)
    return np.bincount(cells, seen).astype(np.float64), np.bincount(cells, expected).astype(np.float64)


def _cells(seen: Array, expected: Array) -> float:
    used = expected > 0
    total = float(((seen[used] - expected[used]) ** 2 / expected[used]).sum())
    return float(stats.chi2.sf(total, max(1, int(used.sum()) - 1)))


def _repeats(noise: Array) -> Finding:
    """Noise used twice, by any step, class or rank: the correlation at every distance, by one Fourier transform."""
    flat = noise.ravel()[:CORRELATED] - noise.mean()
    n = 1 << (2 * len(flat) - 1).bit_length()
    power = np.abs(np.fft.rfft(flat, n)) ** 2
    lags = np.arange(1, max(2, len(flat) - 1000) if len(flat) > 2000 else len(flat) // 2)
    products = np.fft.irfft(power, n)[lags] / max(float(flat.var()), 1e-300)
    z = np.abs(products) / np.sqrt(len(flat) - lags)
    worst = int(z.argmax())
    ok = bool(2 * stats.norm.sf(z[worst]) * len(lags) > RARE / 10)
    r = products[worst] / (len(flat) - lags[worst])
    step, place = divmod(int(lags[worst]), noise.shape[1])
    return Finding(
        "noise correlation", 0, ok, f"largest correlation {r:.3f}, {step} steps and {place} coordinates apart"
    )


def _on_grid(noise: Array, grid: float) -> Finding:
    off = int((np.rint(noise / grid) * grid != noise).sum())
    return Finding("noise support", 0, off == 0, f"{off} of {noise.size} values are off the public grid of {grid:g}")


def inclusion(subject: Subject, random: Random) -> list[Finding]:
    """The distribution of who takes part: how many, how often in an epoch, and whether one event tells of the next."""
    who = subject.inclusion
    if who is None:
        return []
    epoch = max(2, min(round(1 / who.rate), WINDOW))
    events = max(120 // who.cycle, 24, 6 * epoch) if who.law == "poisson" else max(4000, 40 * epoch)
    uses = list(who.draw(events * who.cycle))
    drawn = cycles(uses, who.cycle)
    findings = [_average(who, drawn), _together(who, drawn)]
    if who.cycle > 1:
        findings.append(_classes(who, uses))
    if who.law == "poisson":
        findings += [_sizes(who, drawn), _epochs(who, drawn, epoch)]
    return sorted(findings, key=lambda f: f.ok)


def cycles(uses: list[NDArray[np.int64]], cycle: int) -> list[NDArray[np.int64]]:
    """The members of each cycle of uses."""
    return [np.concatenate(uses[i : i + cycle]) for i in range(0, len(uses), cycle)] if cycle > 1 else uses


def _classes(who: Inclusion, uses: list[NDArray[np.int64]]) -> Finding:
    """Between two uses that a unit takes part in lie whole cycles: its class never changes."""
    turns = np.zeros((who.units, who.cycle), dtype=bool)
    for use, members in enumerate(uses):
        turns[members, use % who.cycle] = True
    moved = int((turns.sum(1) > 1).sum())
    said = f"{moved} of {who.units} units took part in uses less than a cycle of {who.cycle} apart, or out of turn"
    return Finding("inclusion classes", 0, moved == 0, said)


def _average(who: Inclusion, drawn: list[NDArray[np.int64]]) -> Finding:
    total = sum(map(len, drawn))
    trials = len(drawn) * who.units
    if who.law == "one":
        return Finding("inclusion rate", 0, all(len(d) == 1 for d in drawn), "one member an event")
    p = stats.binomtest(total, trials, who.rate).pvalue
    return Finding("inclusion rate", 0, bool(p > RARE), f"rate {total / trials:.5f}, claimed {who.rate:.5f}")


def _sizes(who: Inclusion, drawn: list[NDArray[np.int64]]) -> Finding:
    variance = who.units * who.rate * (1 - who.rate)
    total = sum((len(d) - who.units * who.rate) ** 2 for d in drawn) / variance
    said = f"sizes vary {total / len(drawn):.3f} times as much as binomial ones"
    # Sizes are nearly normal only where they are large; the kurtosis of a binomial widens the test where not.
    width = np.sqrt(len(drawn) * (2 + 1 / variance))
    ok = _tails(total, len(drawn)) > RARE or bool(2 * stats.norm.sf(abs(total - len(drawn)) / width) > RARE)
    return Finding("inclusion sizes", 0, ok, said)


def _epochs(who: Inclusion, drawn: list[NDArray[np.int64]], epoch: int) -> Finding:
    seen = np.zeros(3)
    for start in range(0, len(drawn) - epoch + 1, epoch):
        times = np.bincount(np.concatenate(drawn[start : start + epoch]).astype(int), minlength=who.units)
        seen += np.bincount(np.minimum(times, 2), minlength=3)
    law = stats.binom.pmf([0, 1], epoch, who.rate)
    expected = seen.sum() * np.array([*law, 1 - law.sum()])
    p = _cells(seen, expected)
    shares = ", ".join(f"{s / seen.sum():.3f}" for s in seen)
    said = f"0, 1 and 2+ appearances an epoch in shares {shares}; Poisson sampling has {law[0]:.3f}, {law[1]:.3f}, ..."
    return Finding("inclusion epochs", 0, p > RARE, said)


def _together(who: Inclusion, drawn: list[NDArray[np.int64]]) -> Finding:
    """Of two events near each other, members of both: independence has rate squared."""
    pairs = [
        pair for lag in range(1, LAGS + 1) for pair in zip(drawn[:: LAGS + 1], drawn[lag :: LAGS + 1], strict=False)
    ]
    both = sum(len(np.intersect1d(a, b)) for a, b in pairs)
    trials, rate = (len(pairs) * who.units, who.rate**2) if who.law == "poisson" else (len(pairs), who.rate)
    p = stats.binomtest(both, trials, rate).pvalue
    said = f"events near each other share {both} members, {trials * rate:.1f} expected if drawn apart"
    return Finding("inclusion independence", 0, bool(p > RARE), said)


def support(subject: Subject, random: Random, draws: int = 4000) -> Finding | None:
    """An outcome that is common on one input and unheard of on its neighbour, chosen on a held-out half."""
    if subject.outcomes is None or subject.pairs is None or subject.epsilon is None:
        return None
    worst = -np.inf
    said = ""
    pairs = list(subject.pairs(random))
    for pair in pairs:
        for one, two in ((pair.one, pair.two), (pair.two, pair.one)):
            a, b = (Counter(subject.outcomes(data, draws // 2)) for data in (one, two))
            event = max(a, key=lambda o: a[o] / (b[o] + 1))
            hits, rare = (Counter(subject.outcomes(data, draws // 2))[event] for data in (one, two))
            alpha = RARE / 4 / len(pairs)
            above = rate_at_least(hits, draws // 2, alpha) - subject.delta
            least = np.log(max(above, 1e-300) / rate_at_most(rare, draws // 2, alpha))
            if least > worst:
                worst = least
                said = f"an outcome seen {hits} times in {draws // 2} on one input and {rare} on its neighbour"
    said += f": epsilon at least {max(worst, 0):.3g}, claimed {subject.epsilon:.3g}"
    return Finding("output support", 0, worst <= subject.epsilon, said)
