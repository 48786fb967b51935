"""Kernels in Python run by Python: the user's own function, on numbers that behave as the device's do.

The compiler reads the function first (`recorder.py`), and notes what type each variable has where ways come together.
The function is compiled again by Python, at the same lines of the same file, with calls and joined variables handed to
the simulator (`rewriter.py`). A number of it is a constant of the compiler's (`numbers.py`), so that its own rules
promote, convert and compute; what each operation of `ir/` does stands in one table (`operations.py`). `memory.py` knows
who touched which element, and `invocations.py` whose turn it is.
"""
