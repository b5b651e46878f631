"""The data set's account: what was reserved and spent, kept in a file that a crash cannot overdraw."""
