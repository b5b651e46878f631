"""Gradients or votes on synthetic images themselves."""
