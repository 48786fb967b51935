"""Algorithms on memory, below NumPy's functions: sorts, scans, gathers, products and others."""
