"""Public feature networks, read from local weight files."""
