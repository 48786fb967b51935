"""Assertions on arrays, as `cupy.testing`: those of NumPy, on copies of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vkcompute.compat.cupy.conversion import asnumpy


def _of_host(name: str) -> Callable[..., None]:
    """Returns an assertion of NumPy on two arrays of any device."""
    function = getattr(np.testing, name)

    def check(x: Any, y: Any, *args: Any, **named: Any) -> None:
        function(asnumpy(x), asnumpy(y), *args, **named)

    check.__name__, check.__doc__ = name, f"Raises AssertionError as `numpy.testing.{name}`."
    return check


(
    assert_allclose,
    assert_array_almost_equal,
    assert_array_almost_equal_nulp,
    assert_array_equal,
    assert_array_less,
    assert_array_max_ulp,
) = map(
    _of_host,
    (
        "assert_allclose",
        "assert_array_almost_equal",
        "assert_array_almost_equal_nulp",
        "assert_array_equal",
        "assert_array_less",
        "assert_array_max_ulp",
    ),
)


def assert_array_list_equal(xlist: Any, ylist: Any, *args: Any, **named: Any) -> None:
    """Raises AssertionError unless two lists have equal arrays."""
    for x, y in zip(xlist, ylist, strict=True):
        assert_array_equal(x, y, *args, **named)
