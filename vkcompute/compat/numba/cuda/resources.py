"""The parts of a kernel: its memory, as `kernel.get_shared_mem_per_block()`, and its operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vkcompute.compiled.captured import Table
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.ir.function import Function, walk
from vkcompute.ir.memory import Memory
from vkcompute.ir.printer import text
from vkcompute.jit.compilation.build import divided
from vkcompute.jit.frontend.compiler import Compiler

_HEAD = "; operations of vkcompute, from which SPIR-V is made: neither LLVM's code nor PTX\n"
_SHARES = "default", "maxl1", "maxshared"


def _nbytes(memories: Iterable[Memory]) -> int:
    return sum((memory.length or 0) * memory.lanes * memory.element.bits // 8 for memory in memories)


def shared_bytes(function: Function) -> int:
    """Returns the bytes of shared arrays of a block."""
    return _nbytes(function.shared_memory)


def local_bytes(function: Function) -> int:
    """Returns the bytes of local arrays of a thread; numbers are in registers."""
    memories = [op.memory for op in walk(function.body)]
    return _nbytes({memory: None for memory in memories if memory is not None and memory.private})


def constant_bytes(tables: Iterable[Table]) -> int:
    """Returns the bytes of the constant arrays of a kernel."""
    return sum(table.array.nbytes for table in tables)


def operations(kernel: Compiler) -> str:
    """Returns the operations of a kernel as text."""
    return _HEAD + text(kernel.function)


def optimized_operations(kernel: Compiler) -> str:
    """Returns the operations from which SPIR-V is made."""
    return _HEAD + text(divided(kernel, CompileOptions(kernel.function.local_size)))


def check_options(options: Mapping[str, Any]) -> None:
    """Checks the options of a kernel about resources, which have no effect.

    Raises:
        ValueError: Numba refuses a value.
    """
    bounds, share = options.get("launch_bounds"), options.get("shared_memory_carveout", -1)
    if isinstance(bounds, (tuple, list)) and len(bounds) > 3:
        raise ValueError(f"launch_bounds takes at most 3 numbers. Got {len(bounds)} launch bounds: {bounds}")
    if isinstance(share, str) and share.lower() not in _SHARES:
        raise ValueError(f"Invalid carveout value: {share!r}; it is an int, or one of {', '.join(_SHARES)}")
    if isinstance(share, int) and not -1 <= share <= 100:
        raise ValueError(f"carveout must be between -1 and 100; got {share}")
