"""Functions of elements as CuPy's `ufunc`."""

from __future__ import annotations

from typing import Any

from vkcompute.compat.cupy.conversion import asarray
from vkcompute.compat.cupy.lifting import lifted


class ufunc:  # noqa: N801
    """A function of elements, of CuPy's arrays.

    Attributes:
        name, nin, nout, nargs: as of NumPy's functions.
        of_numbers: the function of numbers that kernels call in its place.
    """

    _METHODS = ("accumulate", "at", "outer", "reduce", "reduceat")

    def __init__(self, inner: Any, name: str) -> None:
        self._inner, self._call = inner, lifted(inner)
        self.__name__ = self.__qualname__ = name
        self.name, self.__doc__ = f"cupy_{name}", inner.__doc__
        self.nin, self.nout, self.nargs = inner.nin, inner.nout, inner.nargs
        self.of_numbers = inner.of_numbers

    def __call__(self, *operands: Any, **options: Any) -> Any:
        """Applies the function; options are those of NumPy's functions of elements."""
        return self._call(*operands, **options)

    def __getattr__(self, name: str) -> Any:
        if name not in ufunc._METHODS or not hasattr(self._inner, name):
            raise AttributeError(f"{self.__name__} has no {name!r}", name=name, obj=self)
        return self._at if name == "at" else lifted(getattr(self._inner, name))

    def _at(self, a: Any, indices: Any, *operands: Any) -> None:
        """Changes elements of an array at indices, by values that are converted to its dtype."""
        lifted(self._inner.at, host=True)(a, indices, *[asarray(operand, a.dtype) for operand in operands])

    def __repr__(self) -> str:
        return f"<ufunc '{self.name}'>"
