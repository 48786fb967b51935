"""Launches of reductions made by `vc.reduce`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import groupby
from math import prod
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.dtypes import lookup
from vkcompute.jit.compilation.build import real_of
from vkcompute.jit.elementwise.dispatch import dispatch, unaliased, window, windows
from vkcompute.jit.elementwise.element_launcher import Arguments, check_out, check_size, values
from vkcompute.jit.elementwise.program import Program, Programs
from vkcompute.jit.elementwise.sharded import by_device, is_sharded, joined
from vkcompute.jit.elementwise.stages import IDENTITY, Stage, stage_program, stages
from vkcompute.jit.frontend.source import Definition
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.groups.group import GroupTensor
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import Runtime, runtime_of


class ReduceLauncher:
    """Reduces tensors, and keeps the programs of the stages."""

    def __init__(self, combine: Definition, initial: Any, each: Definition | None) -> None:
        self._combine, self._initial = combine, initial
        self._arguments = Arguments((each or IDENTITY).function, combine.function.__name__)
        self._later = Programs(partial(stage_program, combine, initial, IDENTITY))
        self._first = Programs(partial(stage_program, combine, initial, each)) if each else self._later

    def __call__(
        self,
        args: tuple[Any, ...],
        named: Mapping[str, Any],
        axis: Any,
        out: Any,
        keepdims: bool = False,
        dtype: npt.DTypeLike | None = None,
        final: bool = True,
    ) -> Any:
        """Launches the stages, and returns the result; the initial value is left out unless `final`."""
        args, name = self._arguments.bound(args, named), self._arguments.name
        if is_sharded(args):
            return self._sharded(args, axis, out, keepdims, dtype)
        tensors, numbers = [arg for arg in args if type(arg) is Tensor], values(args)
        signature, (shape, lengths, masks) = self._arguments.call(args)
        reduced = _axes(name, len(shape), axis)
        left = tuple([1 if at in reduced else n for at, n in enumerate(shape) if keepdims or at not in reduced])
        if prod(left) > 1:
            check_size(name, prod(shape))
        cooperative = prefers_workgroups(runtime_of(tensors[0]))
        planned = [
            each for run in _runs([n or 1 for n in shape], reduced) for each in stages(*run, cooperative=cooperative)
        ]
        find = partial(
            self._first, real_of(signature), None if dtype is None else lookup(dtype).numpy, signature, masks
        )
        found = find((planned[0].method, final and len(planned) == 1), None, False).dtypes[0]
        if out is None:
            out = runtime_of(tensors[0]).empty(left, found)
        else:
            check_out(name, out, left, found)
            tensors = unaliased(tensors, [(False,)] * len(tensors), [out])
        if not prod(shape):
            out.fill(self._initial)
        else:
            self._run(find, planned, tensors, [*numbers, *lengths[1:]], found, out, final)
        return out

    def _sharded(self, args: tuple[Any, ...], axis: Any, out: Any, keepdims: bool, dtype: npt.DTypeLike | None) -> Any:
        """Reduces shards on each device of a group; if axis 0 is reduced, the first device combines their results."""
        reduced = _axes(self._arguments.name, max(len(arg.shape) for arg in args if isinstance(arg, GroupTensor)), axis)
        if 0 not in reduced:
            outs = () if out is None else (out,)
            shards, like = by_device(
                lambda given, results: self(given, {}, axis, (*results, None)[0], keepdims, dtype), args, outs
            )
            return joined(shards, like) if out is None else out
        shards, like = by_device(lambda given, _: self(given, {}, axis, None, keepdims, dtype, False), args)
        empty = any(0 in arg.shape for arg in args if isinstance(arg, GroupTensor))
        filled = [shard.numpy() for shard, rows in zip(shards, like.rows or (), strict=True) if rows and not empty]
        shape = len(filled), *shards[0].shape
        found = like.group.runtimes[0].tensor(np.reshape(filled, shape), shards[0].dtype)
        return self._joining((found,), {}, 0, out, False, found.dtype)

    @cached_property
    def _joining(self) -> ReduceLauncher:
        """Combines the results of several devices."""
        return ReduceLauncher(self._combine, self._initial, None)

    def _run(
        self,
        find: partial[Program],
        planned: list[Stage],
        tensors: list[Tensor],
        pushes: list[Any],
        dtype: Any,
        out: Tensor,
        final: bool,
    ) -> None:
        """Launches the stages; a recording graph owns the intermediate results."""
        settled = find.args[:2]
        for stage in planned:
            last = stage is planned[-1]
            part = out if last else temporary(out.runtime, stage.pushes[0], dtype)
            wanted = out.dtype if last and out.dtype != dtype else None
            self._stage(stage, partial(find, (stage.method, last and final), wanted), tensors, pushes, part)
            find = partial(self._later, *settled, ((dtype.char, 1),), ((True,),))
            tensors, pushes = [part], []

    def _stage(
        self, stage: Stage, find: partial[Program], tensors: list[Tensor], pushes: list[Any], part: Tensor
    ) -> None:
        """Launches a stage; a single row in windows."""
        for start, stop in windows(stage.n, tensors):
            seen, at = stage._replace(n=stop - start), start // stage.chunk
            n_results = seen.pushes[0]
            bound = [window(each, start, stop, stage.n) for each in tensors]
            result = window(part, at, at + n_results, stage.pushes[0])
            dispatch(self._arguments.name, find, [*bound, result], [*pushes, *seen.pushes], seen.n_groups)


def prefers_workgroups(runtime: Runtime) -> bool:
    """True if workgroups cooperate. On CPUs they do not: barriers are slow, and it takes 2 to 20 times as long."""
    return runtime.device.physical.kind != "cpu"


def _axes(name: str, n_axes: int, axis: Any) -> set[int]:
    """Returns the axes to reduce, counted from 0.

    Raises:
        TypeError: they are not an int, a tuple of ints, or None.
        ValueError: an axis is out of range, or repeated.
    """
    given = range(n_axes) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    try:
        listed = [index(each) for each in given]
    except TypeError:
        raise TypeError(f"{name}: an axis is an int, a tuple of ints, or None for all; got {axis!r}") from None
    for each in listed:
        if not -n_axes <= each < n_axes:
            raise ValueError(f"{name}: axis {each} of {n_axes}; axes count from 0, or from the end with -1")
    found = {each % n_axes for each in listed}
    if len(found) < len(listed):
        raise ValueError(f"{name}: each axis is reduced once; got {axis!r}")
    return found


def _runs(shape: Sequence[int], reduced: set[int]) -> list[tuple[int, int, int]]:
    """Returns (n_rows, n, n_columns) for each run of adjacent axes to reduce, the last first, which keeps the order."""
    found, columns = list[tuple[int, int, int]](), 1
    axes = [(n, at in reduced) for at, n in enumerate(shape) if n != 1]
    runs = [(goes, prod([n for n, _ in run])) for goes, run in groupby(axes, lambda axis: axis[1])]
    for at in reversed(range(len(runs))):
        goes, n = runs[at]
        if goes:
            found.append((prod([each for _, each in runs[:at]]), n, columns))
        else:
            columns *= n
    return found or [(prod(shape), 1, 1)]
