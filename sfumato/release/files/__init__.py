"""What a release folder may hold, and how it is written, read, signed and verified."""
