"""Functions of elements, one row each: names, types, how they are computed, cost and documentation.

Every language and every compiler of the library reads the registry. To add a function, add a row; docs/changing.md has
an example. Rows are in the file of their topic, beside the definitions that need several operations of `ir/`.
"""

from __future__ import annotations

from vkcompute.operations import (  # noqa: F401
    activations,
    arithmetic,
    bits,
    comparisons,
    division,
    floats,
    loops,
    special_functions,
)
from vkcompute.operations.emitter import Element, Emitter, Pair
from vkcompute.operations.function import ELEMENTARY, FUNCTIONS, ElementFunction, public, row_of

__all__ = ["ELEMENTARY", "FUNCTIONS", "Element", "ElementFunction", "Emitter", "Pair", "public", "row_of"]
