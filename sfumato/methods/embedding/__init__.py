"""One noisy release of a mean embedding; the rest is post-processing."""
