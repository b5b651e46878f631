"""A private side in another process: queries as bytes, one that answers them and one that asks."""
