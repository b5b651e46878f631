"""DPAF: a discriminator that sees private images as noisy sums of features."""
