"""Kernels: a program on a device, its arguments and its grid."""
