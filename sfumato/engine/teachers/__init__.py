"""Thousands of small networks as one."""
