"""Views by shape and strides, as `numpy.lib.stride_tricks`."""

from __future__ import annotations

from vkcompute.arrays.functions.manipulation import as_strided as as_strided
from vkcompute.arrays.functions.manipulation import broadcast_arrays as broadcast_arrays
from vkcompute.arrays.functions.manipulation import broadcast_shapes as broadcast_shapes
from vkcompute.arrays.functions.manipulation import broadcast_to as broadcast_to
from vkcompute.arrays.functions.manipulation import sliding_window_view as sliding_window_view
from vkcompute.arrays.functions.operands import accept_host_data as _accept_host_data

_accept_host_data(globals())
