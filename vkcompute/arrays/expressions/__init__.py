"""Lazy arrays: expressions, their dtypes by NumPy's rules, and what fuses them."""
