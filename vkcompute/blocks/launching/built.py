"""Block programs that are built by Python functions, and their launches on the device of their arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import combinations
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from vkcompute import ir, tile
from vkcompute.code_version import code_version
from vkcompute.compiled.block_access import Block as Words
from vkcompute.compiled.blocks import fits
from vkcompute.compiled.launches import Compiled
from vkcompute.compiled.plan import Plan
from vkcompute.compiled.specialization import VALUE, CompileOptions, Specialization, iterations_of
from vkcompute.compiled.target import target_of
from vkcompute.errors import MissingFeature
from vkcompute.jit.compilation.build import optimized
from vkcompute.jit.compilation.fingerprint import PythonOrigin
from vkcompute.runtime.graphs.aliasing import may_overlap
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of
from vkcompute.runtime.scheduling.future import Future
from vkcompute.tile.device import block_target
from vkcompute.tile.lowering import Lowered, lower
from vkcompute.tile.overlaps import Overlaps, relevant
from vkcompute.tile.registers import ADJACENT
from vkcompute.tile.target import Target

_WORDS = Words(ADJACENT)


class Built(NamedTuple):
    """A function of blocks.

    Attributes:
        wide: the buffers that `is_wide` holds for, in each launch.
        divisors: powers of two that divide push constants, in each launch.
        iterations: the most iterations of all loops of an invocation; None to find them.
    """

    function: ir.Function
    wide: Sequence[ir.Memory] = ()
    divisors: dict[Any, int] | None = None
    iterations: int | None = None


class BuiltSource:
    """Block programs that a function builds; a `Source`.

    Its keys are the constants, the target of blocks, the overlaps of arrays, and `CompileOptions`.

    Attributes:
        name: of the function.
        origin: the function, for the cache.
    """

    def __init__(self, build: FunctionType) -> None:
        self.name, self.origin = build.__name__.strip("_"), PythonOrigin([build])
        self._build: Callable[..., Built] = build

    def lowered(self, constants: tuple[Hashable, ...], target: Target, overlaps: Overlaps = ()) -> Lowered:
        """Returns the kernel for constants and a target."""
        return _lowered(self._build(*constants), target, overlaps)

    def function(
        self, constants: tuple[Hashable, ...], target: Target, overlaps: Overlaps, options: CompileOptions
    ) -> ir.Function:
        """Returns the optimized function that a program is lowered from."""
        return optimized(self.lowered(constants, target, overlaps).function, options)

    def specialize(
        self, constants: tuple[Hashable, ...], target: Target, overlaps: Overlaps, options: CompileOptions
    ) -> Specialization:
        """Compiles a program."""
        built = self._build(*constants)
        kernel = _lowered(built, target, overlaps)
        function = optimized(kernel.function, options)
        n = len(built.function.buffers)
        most, in_words = built.iterations, ir.in_words(function, options.target)
        return Specialization(
            ir.lower(function, options.target),
            (),
            iterations_of(function) if most is None else (most, most),
            tuple([(n + at, VALUE) for at in range(len(built.function.pushes))]),
            local_size=function.local_size,
            aliases=kernel.aliases,
            in_words=in_words,
        )

    def explained(self, missing: MissingFeature, *key: Any) -> MissingFeature:
        """Returns the error: the types of these programs are those of their arrays."""
        return missing


class Program:
    """A block program for each set of constants.

        def build(dtype, block) -> Built: ...

        Program(build).launch(("float32", 64), [x, out], [x.size], (16, 1, 1))

    Args:
        build: builds the function for constants; it refers to no objects but modules, functions and constants.
    """

    def __init__(self, build: Callable[..., Built]) -> None:
        if not isinstance(build, FunctionType):
            raise TypeError(f"a block program is built by a function; got {type(build).__name__}")
        self._source = BuiltSource(build)
        of_calls = Path(build.__code__.co_filename).parent  # of the functions that it calls
        folders = Path(tile.__file__).parent, Path(__file__).parent, of_calls
        self._compiled = Compiled(self._source, "tile", code_version(*folders))

    def launch(
        self,
        constants: tuple[Hashable, ...],
        arrays: Sequence[Array],
        numbers: Sequence[int],
        grid: tuple[int, int, int],
    ) -> Future:
        """Launches the program for constants, with the arrays and push constants in their order."""
        runtime, args = runtime_of(arrays[0]), (*arrays, *numbers)
        key = self, constants, grid, *[array.launch_key for array in arrays]
        plan: Plan | None = runtime.plans.get(key)
        if plan is not None and (future := plan.launch(args, None)) is not None:
            return future
        options = CompileOptions(target=target_of(runtime))
        loaded = self._compiled.on(runtime, constants, block_target(runtime), overlaps_of(arrays), options)
        return loaded.launch(args, numbers, grid, key=key)

    def lowered(self, constants: tuple[Hashable, ...], target: Target) -> Lowered:
        """Returns the kernel for constants and a target, of arrays that have no bytes in common."""
        return self._source.lowered(constants, target)


def _lowered(built: Built, target: Target, overlaps: Overlaps = ()) -> Lowered:
    overlapping, aliased = relevant(built.function, overlaps)
    return lower(
        built.function,
        target,
        divisors=built.divisors,
        wide=built.wide,
        overlapping=overlapping,
        aliased=aliased,
    )


def overlaps_of(arrays: Sequence[Array]) -> Overlaps:
    """Returns the pairs of arrays that have bytes in common, or may have some in a run of a graph."""
    found = []
    for (at, one), (other_at, other) in combinations(enumerate(arrays), 2):
        maybe = may_overlap(one, other)
        if maybe or one.overlaps(other):
            found.append((at, other_at, one.launch_key == other.launch_key and not maybe))
    return tuple(found)


def is_wide(array: Array) -> bool:
    """True if a program may load and store four adjacent elements together, up to the end of the array."""
    return not needs_strides(array) and array.contiguous and fits(array, _WORDS)
