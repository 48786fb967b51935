"""Interpreted launches: a block program run by numpy. They need no driver."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute import dtypes
from vkcompute.blocks.launching.arguments import Parameters
from vkcompute.blocks.launching.build import ArrayType, TableType, build
from vkcompute.blocks.launching.composites import flattened
from vkcompute.blocks.launching.pointer_table import PointerTable
from vkcompute.blocks.launching.reinterpretation import unwrapped
from vkcompute.blocks.launching.tensors import on_host, span_of
from vkcompute.compiled.arguments import refuse_complex
from vkcompute.errors import hides_calls
from vkcompute.frontend.source import Definition
from vkcompute.jit.simulator.launch import Done
from vkcompute.tile import interpret

__tracebackhide__ = hides_calls

HostArray = npt.NDArray[Any]
_ALIGN = 64
_COMPLEX = np.complex64, np.complex128


def run(definition: Definition, parameters: Parameters, grid: Any, args: Any, named: dict[str, Any]) -> Done:
    """Runs a program on copies of its arrays, which are written back, and returns a future that has completed.

    Raises:
        KernelError: it does something that is not supported, or accesses an element outside of an array.
    """
    args, chosen = parameters.bound(args, named)
    sizes = parameters.grid(grid, args)
    chosen.check(sizes)
    forms, args = flattened(args, parameters.constexprs)
    parameters = parameters if forms is None else parameters.of_leaves(forms)
    parameters.check_constants(args)
    args, elements = unwrapped(on_host(args))
    arrays = {at: _arrays_of(arg) for at, arg in enumerate(args)}
    memory = HostMemory([array for given in arrays.values() for array in given])
    constants, types = parameters.typed(args, _type_of, elements)
    built = build(definition, constants, types, forms=forms, has_complex=parameters.has_complex)
    pushes: dict[Any, Any] = {push: args[at] for at, push in built.numbers.items()}
    pushes |= {push: len(args[at]) for (at, _), push in built.compiler.extents.items()}  # of tables
    tables = [at for at, arg in enumerate(args) if type(arg) is PointerTable]
    hosts = {at: memory.elements(*given) for at, given in arrays.items() if given and at not in tables}
    hosts |= {at: memory.rows(arrays[at]) for at in tables}
    hosts |= {len(args) + k: memory.whole(arrays[at][0]) for k, at in enumerate(tables)}
    interpret(built.compiler.function, {buffer: hosts[at] for at, buffer in built.memories.items()}, pushes, sizes)
    for at in built.compiler.written:
        for array in arrays[at]:
            memory.write_back(array)
    return Done()


def _arrays_of(arg: Any) -> tuple[Any, ...]:
    """Returns the array of an argument, or those of a table, as contiguous arrays; none for other arguments."""
    if type(arg) is PointerTable:
        given = unwrapped(on_host(arg.arrays))[0]
        wrong = [array for array in given if not _is_array(array)]
        if wrong:
            raise TypeError(f"a table of pointers has arrays with axes; got {wrong[0]!r}; pass it as x.reshape(1)")
        for array in given:
            refuse_complex(array)
        return tuple([_contiguous(array) for array in given])
    return (_contiguous(arg),) if _is_array(arg) else ()


def _contiguous(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) or array.contiguous else span_of(array)


def _is_array(arg: Any) -> bool:
    """True for a NumPy array with axes, and for an array."""
    return hasattr(arg, "launch_key") or (isinstance(arg, np.ndarray) and arg.ndim > 0 and _character(arg.dtype) != "")


def _character(dtype: Any) -> str:
    """Returns the name of a dtype in a signature; "" for one that no program takes."""
    small = dtypes.small_float(dtype)
    if small is not None:
        return small.name
    return dtype.char if dtype in dtypes.BY_NUMPY or dtype in _COMPLEX else ""


def _type_of(arg: Any) -> ArrayType | TableType | None:
    if type(arg) is PointerTable:
        element = None if arg.element is None else arg.element.long_name
        return TableType(_character(_arrays_of(arg)[0].dtype), element, 1, is_wide=False)
    return ArrayType(_character(arg.dtype), False, False) if _is_array(arg) else None


class HostMemory:
    """The memory of the arrays of an interpreted launch; an array that is passed twice is in it once.

    Args:
        arrays: NumPy arrays and contiguous device arrays.

    Raises:
        ValueError: two arrays overlap without being the same.
    """

    def __init__(self, arrays: Sequence[Any]) -> None:
        distinct = {_key(array): array for array in arrays}
        for one, other in combinations(distinct.values(), 2):
            if _overlap(one, other):
                raise ValueError("two arguments of an interpreted program overlap; pass the same array, or copies")
        sizes = [-(-array.nbytes // _ALIGN) * _ALIGN for array in distinct.values()]
        starts = np.cumsum([0, *sizes]).tolist()
        self._bytes = np.zeros(starts[-1], np.uint8)
        self._starts = dict(zip(distinct, starts, strict=False))
        for array in distinct.values():
            host = array if isinstance(array, np.ndarray) else array._on_host()
            self.elements(array)[:] = host.reshape(-1).view(_stored(array.dtype))

    def whole(self, array: Any) -> HostArray:
        """Returns the whole memory, as elements of the dtype of an array."""
        return self._bytes.view(_stored(array.dtype))

    def elements(self, array: Any) -> HostArray:
        """Returns the elements of an array that a program sees, of bools as bytes."""
        start = self._starts[_key(array)]
        return self._bytes[start : start + array.nbytes].view(_stored(array.dtype))

    def rows(self, arrays: Sequence[Any]) -> HostArray:
        """Returns the rows of a table of pointers to arrays."""
        starts = [self._starts[_key(array)] // array.dtype.itemsize for array in arrays]
        rows = [(start, array.size, 0) for start, array in zip(starts, arrays, strict=True)]
        return np.array(rows, np.int32).reshape(-1)

    def write_back(self, array: Any) -> None:
        """Copies the elements of an array to it."""
        elements = self.elements(array).view(dtypes.on_host(array.dtype)).reshape(array.shape)
        if isinstance(array, np.ndarray):
            array[...] = elements
        else:
            array.write(elements)


def _key(array: Any) -> Any:
    address = array.__array_interface__["data"] if isinstance(array, np.ndarray) else array.launch_key
    return address, array.shape, array.dtype


def _stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind == "c":  # the parts
        return np.dtype(f"f{dtype.itemsize // 2}")
    return np.dtype(f"u{dtype.itemsize}") if dtype == np.bool_ or dtypes.small_float(dtype) else dtype


def _overlap(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.may_share_memory(one, other)
    return bool(one.overlaps(other))
