"""Interpreted launches: a block program run by numpy. They need no driver."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute import dtypes
from vkcompute.compat.triton.arguments import Parameters
from vkcompute.compat.triton.build import ArrayType, build
from vkcompute.compat.triton.reinterpretation import unwrapped
from vkcompute.compat.triton.tensors import on_host, span_of
from vkcompute.errors import hides_calls
from vkcompute.jit.frontend.source import Definition
from vkcompute.tile import interpret

__tracebackhide__ = hides_calls


def run(definition: Definition, parameters: Parameters, grid: Any, args: Any, named: dict[str, Any]) -> None:
    """Runs a program on copies of its arrays, which are written back.

    Raises:
        KernelError: it does something that is not supported, or accesses an element outside of an array.
    """
    args, _ = parameters.bound(args, named)
    sizes = parameters.grid(grid, args)
    args, elements = unwrapped(on_host(args))
    args = tuple([span_of(arg) if hasattr(arg, "launch_key") and not arg.contiguous else arg for arg in args])
    hosts = _hosts(args)
    constants, types = parameters.typed(args, _array_type, elements)
    built = build(definition, constants, types)
    memories = {memory: hosts[at] for at, memory in built.memories.items()}
    pushes = {push: args[at] for at, push in built.numbers.items()}
    interpret(built.compiler.function, memories, pushes, sizes)
    for at in built.compiler.written:
        _write_back(args[at], hosts[at])


def _is_array(arg: Any) -> bool:
    """True for a NumPy array with axes, and for an array."""
    return hasattr(arg, "launch_key") or (isinstance(arg, np.ndarray) and arg.ndim > 0 and arg.dtype in dtypes.BY_NUMPY)


def _hosts(args: tuple[Any, ...]) -> dict[int, np.ndarray[Any, Any]]:
    """Returns the elements of the arrays among the arguments, once for an array that is given twice.

    Raises:
        ValueError: two arrays overlap without being the same.
    """
    found: dict[int, np.ndarray[Any, Any]] = {}
    known: dict[Any, int] = {}
    for at, arg in enumerate(args):
        if not _is_array(arg):
            continue
        key = arg.__array_interface__["data"] if isinstance(arg, np.ndarray) else arg.launch_key
        first = known.setdefault((key, arg.shape, arg.dtype), at)
        found[at] = found[first] if first in found else _elements(arg)
        if any(_overlap(arg, args[other]) for other in known.values() if other != first):
            raise ValueError("two arguments of an interpreted program overlap; pass the same array, or copies")
    return found


def _overlap(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.may_share_memory(one, other)
    return bool(one.overlaps(other))


def _array_type(arg: Any) -> ArrayType | None:
    return ArrayType(arg.dtype.char, False, False) if _is_array(arg) else None


def _elements(array: Any) -> np.ndarray[Any, Any]:
    """Returns a copy of the elements that a program sees, of bools as bytes."""
    host = array if isinstance(array, np.ndarray) else array.numpy()
    stored = np.uint8 if host.dtype == np.bool_ else host.dtype
    found: np.ndarray[Any, Any] = host.reshape(-1).view(stored).copy()
    return found


def _write_back(array: Any, elements: np.ndarray[Any, Any]) -> None:
    found = elements.view(array.dtype).reshape(array.shape)
    if isinstance(array, np.ndarray):
        array[...] = found
    else:
        array.write(found)
