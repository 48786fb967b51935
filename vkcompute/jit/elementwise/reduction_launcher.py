"""Launches of reductions made by `vc.reduce`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import groupby
from math import prod
from operator import index
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkcompute.compiled.arguments import MOST_ELEMENTS, group_of, refuse_complex
from vkcompute.compiled.block_access import SINGLE, ElementBlock
from vkcompute.compiled.launches import Compiled
from vkcompute.compiled.plan import Plan, argument_keys
from vkcompute.dtypes import can_cast, lookup
from vkcompute.errors import hides_calls
from vkcompute.jit.compilation import fingerprint
from vkcompute.jit.compilation.build import Signature, real_of
from vkcompute.jit.elementwise.blocks import blocks_of
from vkcompute.jit.elementwise.broadcasting import Mask
from vkcompute.jit.elementwise.dispatch import (
    axis_to_halve,
    dispatch,
    halves,
    is_larger_than_binding,
    most_bytes,
    options_on,
    part_along,
    window,
    windows,
)
from vkcompute.jit.elementwise.element_launcher import Arguments, ElementLauncher, check_out, layouts, values
from vkcompute.jit.elementwise.program import Formula, ProgramSource
from vkcompute.jit.elementwise.reduction_methods import IDENTITY
from vkcompute.jit.elementwise.sharded import by_device, joined
from vkcompute.jit.elementwise.stages import Stage, stage_program, stages
from vkcompute.jit.launcher import is_exact
from vkcompute.runtime.graphs.aliasing import may_overlap
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.groups.group import GroupArray
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime, runtime_of
from vkcompute.runtime.tuning import tuning_of

__tracebackhide__ = hides_calls


class LaunchedStage(NamedTuple):
    """A stage that was launched.

    Attributes:
        size, dtype: of its result; no size if that is the result of the reduction.
        result_key: the launch key of its result.
        plan: its plan, if one is kept.
    """

    size: int | None
    dtype: str
    result_key: tuple[Any, ...]
    plan: Plan | None


class ReduceLauncher:
    """Reduces arrays, and keeps the programs of the stages.

    Args:
        combine, initial, map_formula: as of `vc.reduce`; the last is its `map`.
        commutes: True if elements may be combined in any order, and the initial value is neutral.
        finish: a function of a result, and of numbers, that the last stage applies.
    """

    def __init__(
        self,
        combine: Formula,
        initial: Any,
        map_formula: Formula | None,
        *,
        commutes: bool = False,
        finish: Formula | None = None,
    ) -> None:
        self._combine, self._initial, self._commutes, self._finish = combine, initial, commutes, finish
        self._arguments = Arguments(map_formula or IDENTITY, combine.name)
        mapped = f", map={map_formula.name}" if map_formula and map_formula.name not in map_formula.parameters else ""
        whole = f"reduce: {combine.name}{mapped}"
        self._later = self._programs(f"reduce: {combine.name}, of parts" if map_formula else whole, IDENTITY)
        self._first = self._programs(whole, map_formula) if map_formula else self._later
        self._copying = ElementLauncher(IDENTITY)
        self._repetitions = object()

    def _programs(self, name: str, map_formula: Formula) -> Compiled:
        """Returns the programs of the stages that apply this formula to the elements first."""
        build = partial(stage_program, self._combine, self._initial, map_formula, finish=self._finish)
        functions = [*self._combine.functions, *map_formula.functions]
        texts = [self._combine.text, map_formula.text, fingerprint.value(self._initial)]
        if self._finish is not None:
            name = f"{name}, then {self._finish.name}"
            functions += self._finish.functions
            texts.append(self._finish.text)
        return Compiled(ProgramSource(name, build, functions), "reduction", *texts)

    def __call__(
        self,
        args: tuple[Any, ...],
        named: Mapping[str, Any],
        axis: Any,
        out: Any,
        keepdims: bool = False,
        dtype: npt.DTypeLike | None = None,
        final: tuple[Any, ...] | None = (),
    ) -> Any:
        """Launches the stages, and returns the result.

        Args:
            final: the numbers of `finish`; None to leave out that and the initial value.
        """
        args, name = self._arguments.bound(args, named), self._arguments.name
        repetition = made = None
        if out is None and _is_plain(axis) and {*map(type, args)} == {Array}:
            made = self._repetitions, axis, keepdims, dtype, final is None, *[arg.launch_key[1:] for arg in args]
            if (known := args[0].runtime.plans.get(made)) is not None:
                out = runtime_of(args[0]).empty(*known)
        if type(out) is Array and _is_plain(axis):
            repetition = (
                self._repetitions,
                axis,
                keepdims,
                dtype,
                final is None,
                *argument_keys((*args, *(final or ()), out)),
            )
            if self._repeated(repetition, args, final or (), out):
                return out
        if group_of(args) is not None:
            return self._sharded(args, axis, out, keepdims, dtype)
        given, args = args, self._arguments.on_device(args, (out,))
        if args is not given:
            repetition = made = None  # the copies of another call have other addresses
        arrays = self._arguments.arrays(args)
        for array in arrays:
            refuse_complex(array)
        runtime = runtime_of(arrays[0])
        signature, (shape, lengths, masks, strides), _ = self._arguments.call(runtime, args)
        reduced = _axes(name, len(shape), axis)
        left, planned = self._layout(runtime, shape, reduced, keepdims)
        key = real_of(signature), None if dtype is None else lookup(dtype, in_kernels=True).numpy.name, signature, masks
        block = _block(signature, masks, lengths, arrays)
        result_dtype: Any = key[1]
        if self._finish is None:
            form = planned[0].form(block, lengths[1:], last=final is not None and len(planned) == 1)
            result_dtype = self._first.specialized(*key, form, None, options_on(runtime)).dtypes[0]
        if out is None:
            out = runtime.empty(left, result_dtype)
            if made is not None:
                runtime.plans[made] = left, out.dtype
        else:
            if self._finish is None:
                check_out(name, out, left, result_dtype)
            if dtype is None and _is_wider(out, result_dtype):  # as in numpy
                return self(args, {}, axis, out, keepdims, out.dtype, final)
            out.refuse_shared()
            if needs_strides(out) or any(out.overlaps(array) or may_overlap(array, out) for array in arrays):
                return self._apart(args, axis, out, keepdims, dtype, final)
        if any(is_larger_than_binding(array) and not array.contiguous for array in arrays):
            args = tuple([self._contiguous(arg) for arg in args])
            return self(args, {}, tuple(reduced), out, keepdims, dtype, final)
        in_windows = len(windows(planned[0].n, arrays, 1)) > 1
        halved = None if in_windows else _axis_to_halve(shape, arrays, reduced, planned, out, result_dtype)
        if halved is not None:
            self._in_halves(args, shape, halved, reduced, out, keepdims, result_dtype, final)
        elif not prod(shape):
            out.fill(self._initial)
        else:
            extents = [*lengths[1:], *(layouts(arrays, strides) if strides else ())]
            launched = self._run(key, planned, args, extents, result_dtype, out, final)
            if repetition is not None and all(launch.plan is not None for launch in launched):
                runtime.plans[repetition] = launched
        return out

    def _repeated(self, key: tuple[Any, ...], args: tuple[Any, ...], final: tuple[Any, ...], out: Array) -> bool:
        """Repeats the launches of a call; returns False if its intermediate results do not get the same addresses."""
        runtime = runtime_of(out)
        known: Sequence[LaunchedStage] | None = runtime.plans.get(key)
        if known is None or runtime.scheduler.recordings:
            return False
        for size, dtype, launch_key, plan in known:
            part = out if size is None else temporary(runtime, size, dtype)
            given = (*args, *final, part) if size is None else (*args, part)
            if plan is None or part.launch_key != launch_key or plan.enqueue(given, None) is None:
                return False
            args = (part,)
        return True

    def _contiguous(self, arg: Any) -> Any:
        """Returns a contiguous copy of a large view: halves in the order of its elements may all be as large."""
        if type(arg) is not Array or arg.contiguous or not is_larger_than_binding(arg):
            return arg
        copy = temporary(arg.runtime, arg.shape, arg.dtype)
        self._copying((arg,), {}, copy)
        return copy

    def _in_halves(
        self,
        args: tuple[Any, ...],
        shape: Sequence[int],
        axis: int,
        reduced: frozenset[int],
        out: Array,
        keepdims: bool,
        dtype: str,
        final: tuple[Any, ...] | None,
    ) -> None:
        """Reduces both halves along an axis, which exceed the limits of a kernel together, and combines the results."""
        both = [tuple([part_along(arg, axis, half, shape) for arg in args]) for half in halves(shape[axis])]
        axes = tuple(reduced)
        if axis not in reduced:
            at = axis if keepdims else sum(other not in reduced for other in range(axis))
            for here, half in zip(both, halves(shape[axis]), strict=True):
                self(here, {}, axes, out[(slice(None),) * at + (half,)], keepdims, dtype, final)
            return
        parts = temporary(out.runtime, (2, *out.shape), dtype)
        for n, here in enumerate(both):
            self(here, {}, axes, parts[n], keepdims, dtype, None)
        self._joining((parts,), {}, 0, out, False, dtype, final)

    def _apart(self, args: tuple[Any, ...], axis: Any, out: Array, keepdims: bool, dtype: Any, final: Any) -> Array:
        """Reduces to another array, and copies the result to one that is a view, or overlaps an argument."""
        part = temporary(out.runtime, out.shape, out.dtype)
        self(args, {}, axis, part, keepdims, dtype, final)
        out.copy_from(part)
        return out

    def stages(self, array: Array, reduced: frozenset[int]) -> list[Stage]:
        """Returns the stages that reduce these axes of an array that fits a binding."""
        return self._layout(runtime_of(array), array.shape, reduced, False)[1]

    def _layout(
        self, runtime: Runtime, shape: Sequence[int], reduced: frozenset[int], keepdims: bool
    ) -> tuple[tuple[int, ...], list[Stage]]:
        """Returns the shape of the result and the stages."""
        cooperative = prefers_workgroups(runtime)
        key = self._arguments.plan_key, shape, reduced, keepdims, cooperative
        layout: tuple[tuple[int, ...], list[Stage]] | None = runtime.plans.get(key)
        if layout is None:
            left = tuple([1 if at in reduced else n for at, n in enumerate(shape) if keepdims or at not in reduced])
            runs = _runs([n or 1 for n in shape], reduced)
            planned = [
                stage for run in runs for stage in stages(*run, cooperative=cooperative, commutes=self._commutes)
            ]
            layout = runtime.plans[key] = left, planned
        return layout

    def _sharded(self, args: tuple[Any, ...], axis: Any, out: Any, keepdims: bool, dtype: npt.DTypeLike | None) -> Any:
        """Reduces shards on each device of a group; if axis 0 is reduced, the first device combines their results."""
        reduced = _axes(self._arguments.name, max(len(arg.shape) for arg in args if isinstance(arg, GroupArray)), axis)
        if 0 not in reduced:
            outs = () if out is None else (out,)
            shards, like = by_device(
                lambda given, results: self(given, {}, axis, (*results, None)[0], keepdims, dtype), args, outs
            )
            return joined(shards, like) if out is None else out
        shards, like = by_device(lambda given, _: self(given, {}, axis, None, keepdims, dtype, None), args)
        if dtype is None and type(out) is Array and _is_wider(out, shards[0].dtype.name):
            return self._sharded(args, axis, out, keepdims, out.dtype)
        empty = any(0 in arg.shape for arg in args if isinstance(arg, GroupArray))
        filled = [shard.numpy() for shard, rows in zip(shards, like.rows or (), strict=True) if rows and not empty]
        shape = len(filled), *shards[0].shape
        gathered = like.group.runtimes[0].array(np.reshape(filled, shape), shards[0].dtype)
        return self._joining((gathered,), {}, 0, out, False, gathered.dtype)

    @cached_property
    def _joining(self) -> ReduceLauncher:
        """Combines the results of parts."""
        return ReduceLauncher(self._combine, self._initial, None, commutes=self._commutes, finish=self._finish)

    def _run(
        self,
        key: tuple[Any, ...],
        planned: list[Stage],
        args: tuple[Any, ...],
        lengths: Sequence[int],
        dtype: str,
        out: Array,
        final: tuple[Any, ...] | None,
    ) -> list[LaunchedStage]:
        """Launches the stages; a recording graph owns the intermediate results."""
        launched: list[LaunchedStage] = []
        programs, exact = self._first, is_exact(args, key[2])
        for stage in planned:
            last = stage is planned[-1]
            part = out if last else temporary(out.runtime, stage.pushes[0], dtype)
            wanted = out.dtype.name if last and out.dtype.name != dtype else None
            plan = self._stage(stage, programs, key, final if last else None, wanted, args, lengths, part, exact)
            launched.append(LaunchedStage(None if last else part.size, dtype, part.launch_key, plan))
            programs, key = self._later, (*key[:2], ((part.dtype.char, 1),), ((True,),))
            args, lengths, exact = (part,), (), True
        return launched

    def _stage(
        self,
        stage: Stage,
        programs: Compiled,
        key: tuple[Any, ...],
        final: tuple[Any, ...] | None,
        wanted: str | None,
        args: tuple[Any, ...],
        lengths: Sequence[int],
        part: Array,
        exact: bool,
    ) -> Plan | None:
        """Launches a stage; a single row in windows. Returns the plan, unless there are several, or none is kept."""
        plans, n_results = part.runtime.plans, stage.pushes[0]
        arrays, numbers = [arg for arg in args if type(arg) is Array], final or ()
        block, more = _block(key[2], key[3], lengths, arrays), (tuple(map(type, numbers)),) if numbers else ()
        plan_key: tuple[Any, ...] | None = None
        keyed = self._arguments.plan_key, programs is self._first  # later stages may have its form and addresses
        several = windows(stage.n, arrays, 1)
        for start, stop in several:
            seen, at = stage._replace(n=stop - start), start // stage.chunk
            of_window = *key, seen.form(block, lengths, last=final is not None), wanted, *more
            bound = [window(arg, start, stop, stage.n) if type(arg) is Array else arg for arg in args]
            bound += [*numbers, window(part, at, at + seen.pushes[0], n_results)]
            plan_key = (*keyed, of_window, seen, *argument_keys(bound)) if exact else None
            plan = plans.get(plan_key)
            if plan is None or plan.enqueue(bound, None) is None:
                n_groups, sizes = seen.in_blocks(programs.specialized(*of_window, options_on(runtime_of(part))).block)
                pushes = [*values(args), *values(numbers), *lengths, *sizes]
                dispatch(programs, of_window, bound, pushes, n_groups, plan_key)
        return None if len(several) > 1 else plans.get(plan_key)


def _is_plain(axis: Any) -> bool:
    """True for None, an int or a tuple of ints; others may have no hash, or be no axes."""
    return axis is None or type(axis) is int or (type(axis) is tuple and set(map(type, axis)) <= {int})


def _block(
    signature: Signature, masks: Sequence[Mask], lengths: Sequence[int], arrays: Sequence[Array]
) -> ElementBlock:
    """Returns the blocks in which the elements of arrays can be loaded."""
    if any(type(kind) is tuple and len(kind) > 2 for kind in signature):
        return SINGLE
    return blocks_of(runtime_of(arrays[0]), masks, lengths, arrays)


def prefers_workgroups(runtime: Runtime) -> bool:
    """True if workgroups cooperate."""
    return tuning_of(runtime.device.physical).reduces_by_workgroups


def _axis_to_halve(
    shape: Sequence[int], arrays: Sequence[Array], reduced: frozenset[int], planned: list[Stage], out: Array, dtype: str
) -> int | None:
    """Returns the axis to halve, as an array or a stage's results exceed a binding; None if none does.

    It is one that remains, or the first to reduce, which keeps the order and makes two results that fit one binding.
    """
    remaining = [axis for axis in range(len(shape)) if axis not in reduced and shape[axis] > 1]
    first = [axis for axis in sorted(reduced) if shape[axis] > 1][:1]
    itemsize = max(out.dtype.itemsize, lookup(dtype, in_kernels=True).numpy.itemsize)
    most = most_bytes(out)
    both_fit = 2 * out.size * itemsize <= most and 2 * out.size <= MOST_ELEMENTS
    allowed = [*first, *remaining] if both_fit or not remaining else remaining
    halved = axis_to_halve(shape, arrays, allowed, n_more=1)
    n_results = max([stage.pushes[0] for stage in planned])
    if halved is None and remaining and n_results * itemsize > most:
        return max(remaining, key=lambda axis: shape[axis])
    return halved


def _is_wider(out: Array, dtype: str) -> bool:
    """True if an array holds all numbers of a dtype, and more."""
    return out.dtype.name != dtype and can_cast(dtype, out.dtype)


def _axes(name: str, n_axes: int, axis: Any) -> frozenset[int]:
    """Returns the axes to reduce, counted from 0.

    Raises:
        TypeError: they are not an int, a tuple of ints, or None.
        ValueError: an axis is out of range, or repeated.
    """
    given = range(n_axes) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    try:
        listed = [index(number) for number in given]
    except TypeError:
        raise TypeError(f"{name}: an axis is an int, a tuple of ints, or None for all; got {axis!r}") from None
    for number in listed:
        if not -n_axes <= number < n_axes:
            raise ValueError(f"{name}: axis {number} of {n_axes}; axes count from 0, or from the end with -1")
    axes = frozenset([number % n_axes for number in listed])
    if len(axes) < len(listed):
        raise ValueError(f"{name}: each axis is reduced once; got {axis!r}")
    return axes


def _runs(shape: Sequence[int], reduced: frozenset[int]) -> list[tuple[int, int, int]]:
    """Returns (n_rows, n, n_columns) for each run of adjacent axes to reduce, the last first, which keeps the order."""
    reductions, columns = list[tuple[int, int, int]](), 1
    axes = [(n, at in reduced) for at, n in enumerate(shape) if n != 1]
    runs = [(goes, prod([n for n, _ in run])) for goes, run in groupby(axes, lambda axis: axis[1])]
    for at in reversed(range(len(runs))):
        goes, n = runs[at]
        if goes:
            reductions.append((prod([length for _, length in runs[:at]]), n, columns))
        else:
            columns *= n
    return reductions or [(prod(shape), 1, 1)]
