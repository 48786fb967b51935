"""Measurements of tasks on the device and of the host's part in them."""
