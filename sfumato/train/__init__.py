"""Training loops of whole families, as functions that take functions. They see released values only."""
