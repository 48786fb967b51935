"""Algorithms on memory: sorts, scans, gathers, products and others, without NumPy's rules."""
