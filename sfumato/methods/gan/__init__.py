"""A generator against a critic that learns privately."""
