"""Checks of results: NumPy, or Python itself, computes what is expected."""
