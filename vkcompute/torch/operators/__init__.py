"""Kernels of PyTorch's operators, a file per kind."""
