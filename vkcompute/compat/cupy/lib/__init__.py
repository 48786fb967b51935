"""The modules of `cupy.lib`."""

from vkcompute.compat.cupy.lib import stride_tricks as stride_tricks
