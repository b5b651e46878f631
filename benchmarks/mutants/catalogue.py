"""All mutants."""

from __future__ import annotations

from benchmarks.mutants import engine, leaves, noise, parts, sums, verbs

MUTANTS = (*noise.MUTANTS, *sums.MUTANTS, *parts.MUTANTS, *leaves.MUTANTS, *verbs.MUTANTS, *engine.MUTANTS)
