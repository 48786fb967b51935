"""Kernels written in Python: a function's syntax tree becomes operations of `ir/`, and those SPIR-V."""
