"""What is asked of the data, still behind the barrier: contributions of single records."""
