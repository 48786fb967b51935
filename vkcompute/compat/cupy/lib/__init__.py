"""The modules of `cupy.lib`."""
