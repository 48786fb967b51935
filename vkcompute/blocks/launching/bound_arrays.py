"""The arrays of a launch: what is bound, their types, the memory that they share, and those of several bindings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from vkcompute.blocks.launching.arguments import number_type
from vkcompute.blocks.launching.build import ArrayType, IntType
from vkcompute.blocks.launching.pointer_table import PointerTable
from vkcompute.blocks.launching.reinterpretation import unwrapped
from vkcompute.blocks.launching.table_memory import TableMemory, memories_of
from vkcompute.blocks.launching.tensors import on_host
from vkcompute.compiled.arguments import kind_of_array
from vkcompute.compiled.specialization import Specialization
from vkcompute.compiled.spilling_kernel import splits_of
from vkcompute.compiled.target import computes_by_words
from vkcompute.dtypes import as_dtype
from vkcompute.ir import Split
from vkcompute.runtime.graphs.aliasing import may_overlap
from vkcompute.runtime.launching.arguments import needs_strides, require_aligned
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.window import ranges_overlap, spans_of
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.placeholders import Parameter
from vkcompute.tile.device import block_target
from vkcompute.tile.launch_arrays import is_wide, overlaps_of
from vkcompute.tile.overlaps import Overlaps
from vkcompute.tile.target import Target

_SUMS_BY_WORDS = 4  # of a product of float64 that an invocation computes by words


def given_arrays(args: Sequence[Any]) -> tuple[tuple[Any, ...], dict[int, str]]:
    """Returns the arguments with arrays for tensors and wrappers, and the dtypes of wrappers by position."""
    return unwrapped(on_host(args))


def with_memory(args: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the arguments with the arrays of wrappers, and the memory of tables in their place."""
    args, _ = unwrapped(args)
    tables = [arg for arg in args if type(arg) is PointerTable]
    if not tables:
        return args
    memories = iter(memories_of(tables, sum(isinstance(arg, (Array, np.ndarray)) for arg in args)))
    return tuple([next(memories) if type(arg) is PointerTable else arg for arg in args])


def bindings(args: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the arguments, with the arrays of wrappers and the rows of tables, then the windows of the tables."""
    args = with_memory(args)
    tables = [arg for arg in args if type(arg) is TableMemory]
    if not tables:
        return args
    given = [arg.rows if type(arg) is TableMemory else arg for arg in args]
    return (*given, *[window for table in tables for window in table.windows])


def with_bound(args: Sequence[Any], bound: Sequence[Any]) -> tuple[Any, ...]:
    """Returns arguments in the form of `with_memory`, with what is bound for the others."""
    return tuple([arg if type(arg) is TableMemory else bound[at] for at, arg in enumerate(args)])


def type_of(arg: Any) -> Any:
    """Returns the part of a signature for an array, a table or an input of a graph; None for all else."""
    if type(arg) is TableMemory:
        return arg.type
    if type(arg) is Parameter:
        kind = number_type(arg.value, arg.name)
        return kind._replace(divisor=1) if isinstance(kind, IntType) else kind  # a run may have any value
    if type(arg) is not Array:
        return None
    require_aligned(arg)
    is_view = needs_strides(arg)
    return ArrayType(kind_of_array(arg)[0], is_view, is_wide(arg))


def target_for(runtime: Runtime, types: Iterable[Any]) -> Target:
    """Returns the target for a program with arguments of these types."""
    target = block_target(runtime)
    dtypes = [as_dtype(kind.character) for kind in types if hasattr(kind, "character")]
    dtypes += [np.dtype(np.float64)] if np.complex128 in dtypes else []
    if computes_by_words(runtime, dtypes):
        return target._replace(spreads=True, sums=_SUMS_BY_WORDS, stages=False)
    return target


def splits_among(runtime: Runtime, specialization: Specialization, args: tuple[Any, ...]) -> tuple[Split, ...]:
    """Returns the arrays that take several bindings, after which a kernel loads no texels.

    There are none if all larger than a storage buffer are texel buffers, which have a limit of their own.
    """
    splits = splits_of(runtime, args)
    if not splits:
        return ()
    n_arrays = sum(type(arg) is Array for arg in args)
    bindings = zip((*range(n_arrays), *specialization.aliases), specialization.module.interface.bindings, strict=False)
    stored = {at for at, binding in bindings if binding.kind == "storage_buffer"}
    return splits if any(at in stored for at, *_ in splits) else ()


def overlaps_among(args: tuple[Any, ...]) -> Overlaps:
    """Returns the pairs of arrays that have bytes in common; None if there are tables, and any arrays may have some."""
    arrays = [arg for arg in args if type(arg) is Array]
    pairs = overlaps_of(arrays)
    windows = [window for arg in args if type(arg) is TableMemory for window in arg.windows]
    if not windows:
        return pairs
    may = pairs or any(may_overlap(array, window) for array in arrays for window in windows)
    return None if may or ranges_overlap([spans_of(arrays), *[spans_of([window]) for window in windows]]) else ()
