"""Functions that kernels may call, and their expansions."""
