"""Calls of what `vc.reduce` makes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from operator import index
from typing import Any

from vkcompute.jit.compile import real_of
from vkcompute.jit.dispatch import Programs, apart, dispatch, window, windows
from vkcompute.jit.element_launch import Arguments, check_out, check_size, values
from vkcompute.jit.elements import Built
from vkcompute.jit.reductions import ITSELF, Stage, reduction, stages
from vkcompute.jit.source import Written
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tensor import Tensor


class ReduceLauncher:
    """Reduces tensors, and keeps what has been compiled for it."""

    def __init__(self, combine: Written, initial: Any, each: Written | None) -> None:
        self._initial = initial
        self._arguments = Arguments((each or ITSELF).function, combine.function.__name__)
        self._later = Programs(partial(reduction, combine, initial, ITSELF))
        self._first = Programs(partial(reduction, combine, initial, each)) if each else self._later

    def __call__(self, args: tuple[Any, ...], named: Mapping[str, Any], axis: Any, out: Any) -> Tensor:
        """The result, which is being computed."""
        args, name = self._arguments.bound(args, named), self._arguments.name
        tensors, numbers = [arg for arg in args if type(arg) is Tensor], values(args)
        signature, (shape, lengths, masks) = self._arguments.call(args)
        n_rows, n, n_columns, left = _divided(name, shape, axis)
        if n_rows * n_columns > 1:
            check_size(name, prod(shape))
        runtime = tensors[0].runtime
        passes = stages(n_rows, max(n, 1), n_columns, groups=takes_groups(runtime))
        program = partial(self._first, real_of(signature), signature, masks)
        dtype = program((passes[0].together, len(passes) == 1), None, False).dtypes[0]
        if out is None:
            out = runtime.empty(left, dtype)
        else:
            check_out(name, out, left, dtype)
            tensors = apart(tensors, [(False,)] * len(tensors), [out])
        if not n:
            out.fill(self._initial)
        elif out.size:
            self._run(program, passes, tensors, [*numbers, *lengths[1:]], dtype, out)
        return out  # type: ignore[no-any-return]

    def _run(
        self,
        program: partial[Built],
        passes: list[Stage],
        tensors: list[Tensor],
        pushes: list[Any],
        dtype: Any,
        out: Tensor,
    ) -> None:
        """Launches the passes; what is between them lasts as long as a graph that records them runs."""
        runtime, real = out.runtime, program.args[0]
        for stage in passes:
            last = stage is passes[-1]
            part = out if last else (runtime.scheduler.recording() or runtime).empty(stage.pushes[0], dtype)
            wanted = out.dtype if last and out.dtype != dtype else None
            self._pass(stage, partial(program, (stage.together, last), wanted), tensors, pushes, part)
            program = partial(self._later, real, ((dtype.char, 1),), ((True,),))
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


def _divided(name: str, shape: tuple[int, ...], axis: Any) -> tuple[int, int, int, tuple[int, ...]]:
    """How many rows, elements to reduce, and columns there are, and the shape that is left.

    Raises:
        TypeError: the axis is neither an int nor None.
        ValueError: there is no such axis.
    """
    if axis is None:
        return 1, prod(shape), 1, ()
    try:
        at = index(axis)
    except TypeError:
        raise TypeError(f"{name}: an axis is an int, or None for all of them; got {axis!r}") from None
    if not -len(shape) <= at < len(shape):
        raise ValueError(f"{name}: axis {at} of {len(shape)}; they count from 0, or from the end with -1")
    at %= len(shape)
    return prod(shape[:at]), shape[at], prod(shape[at + 1 :]), shape[:at] + shape[at + 1 :]
