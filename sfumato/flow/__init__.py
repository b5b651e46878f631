"""Whole commands: plan, audit, reserve, learn, state, commit, written once."""
