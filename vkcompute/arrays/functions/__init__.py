"""The functions of `vkcompute.numpy`, with NumPy's rules."""
