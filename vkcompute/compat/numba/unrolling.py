"""`literal_unroll`: loops over tuples that are unrolled, whatever their items."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.frontend.unsupported import UnsupportedError


class Unrolled(tuple[Any, ...]):
    """A tuple over which a for loop is unrolled."""


def literal_unroll(container: Any) -> Any:
    """Returns the tuple; in a kernel, a loop over it takes items of different types."""
    return container


def unrolled(c: Any, value: Any) -> Unrolled:
    """Returns a tuple as one that is unrolled; arrays from outside of the kernel are constant tables.

    Raises:
        UnsupportedError: it is no tuple.
    """
    if not isinstance(value, tuple):
        raise UnsupportedError("literal_unroll takes a tuple, known at compile time; write a for loop over an array")
    line, take = c.evaluator.node.lineno, c.evaluator.captured_value
    return Unrolled(
        [
            take(value, k, f"item{k}_of_{line}", item=True) if isinstance(item, np.ndarray) else item
            for k, item in enumerate(value)
        ]
    )
