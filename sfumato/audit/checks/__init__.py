"""Level 0: checks that need no luck."""
