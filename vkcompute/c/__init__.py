"""C's expressions and statements of numbers, translated to kernels in Python."""
