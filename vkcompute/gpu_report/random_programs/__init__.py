"""Random programs, and what Python computes for them: kernels, kernels with barriers, and functions of elements."""
