"""Sites that cannot pool their records learn one generator: only masked, noised sums leave a house."""
