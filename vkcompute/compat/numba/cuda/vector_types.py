"""CUDA's vectors of one to four numbers: `cuda.float32x4` and others, also by CUDA's names, as `cuda.float4`."""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

from vkcompute.compat.numba import types
from vkcompute.compat.numba.kernel_names import NAMES
from vkcompute.compat.numba.language import NumbaKernels
from vkcompute.frontend.unsupported import UnsupportedError

_ALIASES = {
    "int8": ("char",), "int16": ("short",), "int32": ("int",), "int64": ("long", "longlong"), "uint8": ("uchar",),
    "uint16": ("ushort",), "uint32": ("uint",), "uint64": ("ulong", "ulonglong"), "float32": ("float",),
    "float64": ("double",),
}  # fmt: skip
"""Type of the numbers -> CUDA's names of it."""


class VectorType(types.Type):
    """The type of vectors of one to four numbers.

    Attributes:
        base_type: of the numbers.
        num_elements: of a vector.
        attr_names: of the numbers: x, y, z and w.
        user_facing_object: makes a vector, of numbers and of vectors with as many numbers; a class of named tuples.
    """

    def __init__(self, base_type: types.Number, num_elements: int) -> None:
        super().__init__(f"{base_type.name}x{num_elements}")
        self.base_type, self.num_elements = base_type, num_elements
        self.attr_names = ("x", "y", "z", "w")[:num_elements]
        make: Any = namedtuple  # with names that type checkers do not know
        self.user_facing_object = make(self.name, self.attr_names)
        self.user_facing_object.aliases = [f"{alias}{num_elements}" for alias in _ALIASES[base_type.name]]
        NAMES[self.user_facing_object] = partial(_made, self)


def _made(kind: VectorType, c: NumbaKernels, *args: Any) -> Any:
    """Builds a vector of numbers and of vectors.

    Raises:
        UnsupportedError: these have more or fewer numbers.
    """
    parts = [part for arg in args for part in (arg if isinstance(arg, tuple) else (arg,))]
    if len(parts) != kind.num_elements:
        raise UnsupportedError(f"{kind.name} has {kind.num_elements} numbers; got {len(parts)}")
    return kind.user_facing_object(*[c.as_type(part, kind.base_type) for part in parts])


vector_types = {
    kind.name: kind
    for base in _ALIASES
    for kind in [VectorType(getattr(types, base), n_numbers) for n_numbers in (1, 2, 3, 4)]
}
"""Name -> type."""
VECTORS = {
    name: kind.user_facing_object
    for kind in vector_types.values()
    for name in (kind.name, *kind.user_facing_object.aliases)
}
"""Name in `cuda` -> what makes a vector."""
globals().update(VECTORS)
__all__ = [*VECTORS]
