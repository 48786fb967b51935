"""NumPy's `lib`: views by strides."""

from __future__ import annotations

from vkcompute.numpy.lib import stride_tricks as stride_tricks
