"""Levels 1 and 2: games that an attacker plays against a claim."""
