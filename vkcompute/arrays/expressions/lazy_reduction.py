"""Lazy reductions: expressions whose elements are combined along axes by the kernel that computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vkcompute.arrays.expressions import lazy
from vkcompute.arrays.expressions.compute_plan import LazyOrigin, computed
from vkcompute.arrays.expressions.promotion import wide_float
from vkcompute.jit.elementwise.expression import Expression, Step
from vkcompute.jit.elementwise.reduction_launcher import ReduceLauncher
from vkcompute.jit.elementwise.stages import Stage
from vkcompute.operations import FUNCTIONS
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.graphs.results import new_result
from vkcompute.runtime.memory.array import Array

_launchers: BoundedCache[tuple[Any, ...], ReduceLauncher] = BoundedCache(1024)


def neutral(row: str, dtype: np.dtype[Any]) -> Any:
    """Returns the neutral element of a reduction, in a dtype."""
    return FUNCTIONS[row].neutral(dtype)


class LazyReduction:
    """A reduction whose result is computed later.

    Attributes:
        row: the name of its function in the registry.
        array: the array that is reduced.
        axes: the axes that are reduced; a tuple.
        dtype: the dtype in which elements are combined.
        reader, readers, depth, signature, origin: as of `Lazy`.
    """

    __slots__ = ("array", "axes", "depth", "dtype", "origin", "reader", "readers", "row", "signature")

    def __init__(self, row: str, array: Array, axes: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.row, self.array, self.axes, self.dtype = row, array, axes, dtype
        self.readers: list[Any] = []
        self.reader: Any = None
        self.origin: LazyOrigin | None = None
        self.signature = row, axes, dtype.char
        expression: Any = array._expression
        self.depth: int = 1 if expression is None else 1 + expression.depth

    @property
    def operands(self) -> tuple[Array]:
        """The array that is reduced."""
        return (self.array,)

    def on(self, operands: Sequence[Any] | None, origin: LazyOrigin | None = None) -> LazyReduction:
        """Returns the same reduction of another array of the same kind; None for the one that `origin` makes."""
        other = LazyReduction.__new__(LazyReduction)
        other.origin = origin
        other.row, other.axes, other.dtype, other.signature = self.row, self.axes, self.dtype, self.signature
        other.depth, other.reader, other.readers = self.depth, None, []
        if operands:
            (other.array,) = operands
        return other

    def __getattr__(self, name: str) -> Any:
        """Makes the array that the origin has left out."""
        if name != "array" or self.origin is None:
            raise AttributeError(f"an expression has no {name}", name=name, obj=self)
        (self.array,) = self.origin.operands()
        return self.array

    def compute(self, array: Array) -> Array:
        """Computes the elements of `array`. Requires the device's lock: others might compute what is reduced."""
        return computed(array, self._computed)

    @property
    def takes_more(self) -> bool:
        """True if the last kernel may apply a function to results: it combines them in the dtype of the array."""
        return _combined_in(self.row, self.dtype) == self.dtype and 0 not in self.array.shape

    def _computed(self, array: Array) -> Array:
        out = new_result(array.runtime, array.shape, array.dtype)
        self.launch(array, out)
        return out

    def launch(self, array: Array, out: Array, finish: tuple[Step, ...] = (), numbers: tuple[Any, ...] = ()) -> None:
        """Launches the kernels, which write the results, or a function of them, to `out`.

        Args:
            array: the lazy array that they compute.
            finish: the steps of the function, whose parameters are a result and the numbers.
        """
        if (flat := lazy.flattened_to_fit(self.array, out)) is not None:
            steps, args = tuple(flat.steps), flat.parameters
        else:
            steps, args = (), [self.array]
            if (graph := recording_graph(out.runtime.scheduler)) is not None:
                graph.require_unchanged(array, args)
        kept = out.ndim == self.array.ndim and bool(self.axes)
        launcher = _launcher(self.row, self.dtype, steps, len(args), finish, 1 + len(numbers))
        launcher(tuple(args), {}, self.axes, out, kept, _combined_in(self.row, self.dtype), numbers)

    def stages(self) -> list[Stage]:
        """Returns the stages in which the elements are computed."""
        launcher = _launcher(self.row, self.dtype, (), 1)
        return launcher.stages(self.array, frozenset(self.axes))


def _combined_in(row: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype in which elements are combined: sums and products of floats below 32 bits have float32."""
    return wide_float(dtype) if row in ("add", "multiply") else dtype


def _launcher(
    row: str, dtype: np.dtype[Any], steps: tuple[Step, ...], n: int, finish: tuple[Step, ...] = (), n_finish: int = 1
) -> ReduceLauncher:
    key = row, dtype, steps, finish
    launcher = _launchers.get(key)
    if launcher is None:
        dtype = _combined_in(row, dtype)
        combine = Expression(2, ((row, dtype.name, (0, 1)),))
        transform = Expression(n, steps or (("astype", "", (0,)),))
        ending = Expression(n_finish, finish) if finish else None
        launcher = ReduceLauncher(combine, neutral(row, dtype), transform, commutes=True, finish=ending)
        _launchers[key] = launcher
    return launcher
