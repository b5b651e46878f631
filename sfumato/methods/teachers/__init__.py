"""Critics on disjoint parts of the data vote on fake images."""
