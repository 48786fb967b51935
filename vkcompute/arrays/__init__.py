"""Mathematics of arrays: lazy expressions, fusion, and the functions of `vkcompute.numpy`."""
