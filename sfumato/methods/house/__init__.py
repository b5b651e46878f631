"""The method of the house."""
