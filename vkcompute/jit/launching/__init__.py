"""Launches of kernels on a device, and what they report to the host."""
