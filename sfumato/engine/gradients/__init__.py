"""Sums of clipped per-example gradients."""
