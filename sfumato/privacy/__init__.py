"""The barrier: the only folder that opens private data and the only one that draws privacy noise."""
