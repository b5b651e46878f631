"""Mutation tests of the auditors: bugs are planted in the package, one at a time, and the auditors alone must see them.

    python -m benchmarks.mutants [--only ID|KIND ...] [--level 0|1|2] [--jobs N] [--json FILE] [--twins SEEDS] [--list]

A mutant is data (`mutant.Mutant`): what it breaks, the text to replace, and which method to audit. It runs in a process
of its own on a copy of the package (`shadow`), by one thread and with a time limit. It is caught if a check fails. An
auditor that crashes or takes too long has caught nothing. No unit test is run.
"""
