"""NumPy's views on the elements and on the layout of an array: `x.flat` and `x.flags`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vkcompute.array_namespace import namespace

_NAMES = {"C": "c_contiguous", "F": "f_contiguous", "O": "owndata", "W": "writeable", "A": "aligned"}


class Flat:
    """The elements of an array in row-major order, of any strides. Assignments change the array."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __len__(self) -> int:
        return int(self._array.size)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._array.reshape(-1))

    def __getitem__(self, index: Any) -> Any:
        return self._array.reshape(-1)[index].copy()

    def __setitem__(self, index: Any, value: Any) -> None:
        array = self._array
        array.refuse_shared()
        elements = array.reshape(-1)
        elements[index] = value
        if elements.buffer is not array.buffer:  # no view has these elements along one axis
            array[...] = elements.reshape(array.shape)

    def assign(self, values: Any) -> None:
        """Writes values in row-major order, repeated if there are fewer than elements; writes nothing for no values."""
        host = not isinstance(values, type(self._array))
        given = np.ravel(values) if host else values.flatten()
        if len(given):
            self[:] = np.resize(given, len(self)) if host else namespace().resize(given, len(self))

    def copy(self) -> Any:
        """Returns the elements as a new array of one axis."""
        return self._array.flatten()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self._array.numpy().reshape(-1), dtype)


class Flags:
    """The memory layout of an array; it cannot be changed, except by a copy."""

    __slots__ = ("_found",)
    _found: dict[str, bool]

    def __init__(self, array: Any) -> None:
        writeable = not array.shares_elements
        like = np.lib.stride_tricks.as_strided(
            np.zeros(1, array.dtype), array.shape, array.strides, writeable=writeable
        )
        names = ("c_contiguous", "f_contiguous", "contiguous", "forc", "fnc", "writeable", "aligned")
        flags = {name: getattr(like.flags, name) for name in names}
        flags["owndata"] = array._base is None and array.contiguous and array.nbytes == array.buffer.used_bytes
        object.__setattr__(self, "_found", flags)

    def __getattr__(self, name: str) -> bool:
        try:
            return self._found[name]
        except KeyError:
            raise AttributeError(f"a flag is one of {', '.join(self._found)}; got {name!r}") from None

    def __getitem__(self, name: str) -> bool:
        """Returns a flag by NumPy's name or letter."""
        return self._found[_NAMES.get(name, name.lower())]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"flags cannot be set; only views by broadcast_to are not writeable; got {name}={value}")

    def __repr__(self) -> str:
        return "\n".join(f"{name.upper()} : {value}" for name, value in self._found.items())
