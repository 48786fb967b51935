"""Calls of what `vc.reduce` makes."""

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
from vkcompute.jit.compile import real_of
from vkcompute.jit.dispatch import Programs, apart, dispatch, window, windows
from vkcompute.jit.divided import by_device, is_divided, whole
from vkcompute.jit.element_launch import Arguments, check_out, check_size, values
from vkcompute.jit.elements import Built
from vkcompute.jit.reductions import ITSELF, Stage, reduction, stages
from vkcompute.jit.source import Written
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.groups.group import GroupTensor
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import Runtime, runtime_of


class ReduceLauncher:
    """Reduces tensors, and keeps what has been compiled for it."""

    def __init__(self, combine: Written, initial: Any, each: Written | None) -> None:
        self._combine, self._initial = combine, initial
        self._arguments = Arguments((each or ITSELF).function, combine.function.__name__)
        self._later = Programs(partial(reduction, combine, initial, ITSELF))
        self._first = Programs(partial(reduction, combine, initial, each)) if each else self._later

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
        """The result, which is being computed; if it is not `final`, without the initial value."""
        args, name = self._arguments.bound(args, named), self._arguments.name
        if is_divided(args):
            return self._divided(args, axis, out, keepdims, dtype)
        tensors, numbers = [arg for arg in args if type(arg) is Tensor], values(args)
        signature, (shape, lengths, masks) = self._arguments.call(args)
        gone = _axes(name, len(shape), axis)
        left = tuple([1 if at in gone else n for at, n in enumerate(shape) if keepdims or at not in gone])
        if prod(left) > 1:
            check_size(name, prod(shape))
        groups = takes_groups(runtime_of(tensors[0]))
        passes = [each for run in _runs([n or 1 for n in shape], gone) for each in stages(*run, groups=groups)]
        program = partial(
            self._first, real_of(signature), None if dtype is None else lookup(dtype).numpy, signature, masks
        )
        found = program((passes[0].together, final and len(passes) == 1), None, False).dtypes[0]
        if out is None:
            out = runtime_of(tensors[0]).empty(left, found)
        else:
            check_out(name, out, left, found)
            tensors = apart(tensors, [(False,)] * len(tensors), [out])
        if not prod(shape):
            out.fill(self._initial)
        else:
            self._run(program, passes, tensors, [*numbers, *lengths[1:]], found, out, final)
        return out

    def _divided(self, args: tuple[Any, ...], axis: Any, out: Any, keepdims: bool, dtype: npt.DTypeLike | None) -> Any:
        """The same on a group of devices; on the first one where their rows are reduced to one."""
        gone = _axes(self._arguments.name, max(len(arg.shape) for arg in args if isinstance(arg, GroupTensor)), axis)
        if 0 not in gone:
            outs = () if out is None else (out,)
            parts, like = by_device(
                lambda given, results: self(given, {}, axis, (*results, None)[0], keepdims, dtype), args, outs
            )
            return whole(parts, like) if out is None else out
        parts, like = by_device(lambda given, _: self(given, {}, axis, None, keepdims, dtype, False), args)
        empty = any(0 in arg.shape for arg in args if isinstance(arg, GroupTensor))
        filled = [part.numpy() for part, rows in zip(parts, like.rows or (), strict=True) if rows and not empty]
        shape = len(filled), *parts[0].shape
        found = like.group.runtimes[0].tensor(np.reshape(filled, shape), parts[0].dtype)
        return self._joining((found,), {}, 0, out, False, found.dtype)

    @cached_property
    def _joining(self) -> ReduceLauncher:
        """What reduces the results of several devices."""
        return ReduceLauncher(self._combine, self._initial, None)

    def _run(
        self,
        program: partial[Built],
        passes: list[Stage],
        tensors: list[Tensor],
        pushes: list[Any],
        dtype: Any,
        out: Tensor,
        final: bool,
    ) -> None:
        """Launches the passes; what is between them lasts as long as a graph that records them runs."""
        settled = program.args[:2]
        for stage in passes:
            last = stage is passes[-1]
            part = out if last else temporary(out.runtime, stage.pushes[0], dtype)
            wanted = out.dtype if last and out.dtype != dtype else None
            self._pass(stage, partial(program, (stage.together, last and final), wanted), tensors, pushes, part)
            program = partial(self._later, *settled, ((dtype.char, 1),), ((True,),))
            tensors, pushes = [part], []

    def _pass(
        self, stage: Stage, program: partial[Built], tensors: list[Tensor], pushes: list[Any], part: Tensor
    ) -> None:
        """Launches one; of a single row in windows."""
        for start, stop in windows(stage.n, tensors):
            seen, at = stage._replace(n=stop - start), start // stage.chunk
            n_results = seen.pushes[0]
            bound = [window(each, start, stop, stage.n) for each in tensors]
            result = window(part, at, at + n_results, stage.pushes[0])
            dispatch(self._arguments.name, program, [*bound, result], [*pushes, *seen.pushes], seen.n_groups)


def takes_groups(runtime: Runtime) -> bool:
    """Whether workgroups reduce: on a CPU, where barriers are dear, it takes twice to twenty times as long."""
    return runtime.device.physical.kind != "cpu"


def _axes(name: str, n_axes: int, axis: Any) -> set[int]:
    """The axes that go, counted from 0.

    Raises:
        TypeError: they are neither an int, a tuple of such, nor None.
        ValueError: there is no such axis, or one comes twice.
    """
    given = range(n_axes) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    try:
        listed = [index(each) for each in given]
    except TypeError:
        raise TypeError(f"{name}: an axis is an int, a tuple of such, or None for all; got {axis!r}") from None
    for each in listed:
        if not -n_axes <= each < n_axes:
            raise ValueError(f"{name}: axis {each} of {n_axes}; they count from 0, or from the end with -1")
    found = {each % n_axes for each in listed}
    if len(found) < len(listed):
        raise ValueError(f"{name}: each axis goes once; got {axis!r}")
    return found


def _runs(shape: Sequence[int], gone: set[int]) -> list[tuple[int, int, int]]:
    """Per run of neighbouring axes that go, from the last: how many rows, elements to reduce, and columns there are.

    As the last go first, elements stay in order.
    """
    found, columns = list[tuple[int, int, int]](), 1
    axes = [(n, at in gone) for at, n in enumerate(shape) if n != 1]
    runs = [(goes, prod([n for n, _ in run])) for goes, run in groupby(axes, lambda axis: axis[1])]
    for at in reversed(range(len(runs))):
        goes, n = runs[at]
        if goes:
            found.append((prod([each for _, each in runs[:at]]), n, columns))
        else:
            columns *= n
    return found or [(prod(shape), 1, 1)]
