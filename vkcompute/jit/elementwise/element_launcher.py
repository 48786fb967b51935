"""Launches of functions made by `vc.elementwise` and `vc.vectorize`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from vkcompute.ir import SCALARS, UINT32
from vkcompute.jit.compilation.arguments import MOST_ELEMENTS, bound
from vkcompute.jit.compilation.build import Signature, real_of
from vkcompute.jit.compilation.specialization import TRUTH, VALUE
from vkcompute.jit.elementwise.broadcasting import Broadcast, Mask, broadcast
from vkcompute.jit.elementwise.dispatch import dispatch, unaliased, window, windows
from vkcompute.jit.elementwise.program import Body, Program, Programs, finished, result
from vkcompute.jit.elementwise.sharded import by_device, is_sharded, joined
from vkcompute.jit.frontend.intrinsics import INTRINSICS
from vkcompute.jit.frontend.source import Definition, parameters_of
from vkcompute.jit.launching.launcher import kind_of, pushed
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import runtime_of

LOCAL_SIZE = 64
_MOST_CALLS = 256


class Call(NamedTuple):
    """Signature and broadcast shape of calls with arguments of the same types and shapes."""

    signature: Signature
    broadcast: Broadcast


class Arguments:
    """Arguments of calls of a function.

    Attributes:
        name: name of the function, for errors.
    """

    def __init__(self, function: FunctionType, name: str) -> None:
        self.name = name
        self._parameters, self._calls = parameters_of(function), dict[Any, Call]()

    def bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the arguments in order.

        Raises:
            TypeError: they do not fit the parameters, or none is a tensor.
        """
        n = len(self._parameters.parameters)
        if len(args) > n:
            raise TypeError(f"{self.name} takes {n} by position; got {len(args)}; pass the others by name, as out=y")
        if named or len(args) != n:
            args = bound(self.name, self._parameters, args, named)
        if not any(type(arg) is Tensor for arg in args) and not is_sharded(args):
            for arg in args:
                kind_of(arg)  # its error has a remedy for arrays
            raise TypeError(f"{self.name} takes a tensor, on whose device it runs; got none")
        return args

    def call(self, args: tuple[Any, ...], outs: tuple[Tensor, ...] = ()) -> Call:
        """Returns the signature and the broadcast shape, results included.

        Raises:
            TypeError: an argument is neither a tensor nor a number, or a result is not a tensor.
            ValueError: the shapes do not broadcast, or there are too many elements.
        """
        kinds = tuple([(arg.dtype.char, arg.shape) if type(arg) is Tensor else kind_of(arg) for arg in args])
        for out in outs:
            _check_tensor(self.name, out)
        key = kinds, *[out.shape for out in outs]
        found = self._calls.get(key)
        if found is None:
            shape = broadcast([kind[1] for kind in kinds if type(kind) is tuple] + [out.shape for out in outs])
            if len(shape.lengths) > 1:
                check_size(self.name, shape.size)
            signature = tuple([(kind[0], 1) if type(kind) is tuple else kind for kind in kinds])
            if len(self._calls) >= _MOST_CALLS:
                self._calls.clear()
            found = self._calls[key] = Call(signature, shape)
        return found


def values(args: tuple[Any, ...]) -> list[Any]:
    """Returns the push constants for the numbers among the arguments."""
    numbers = [arg for arg in args if type(arg) is not Tensor]
    return [pushed(arg, TRUTH if isinstance(arg, (bool, np.bool_)) else VALUE) for arg in numbers]


def check_size(name: str, n: int) -> None:
    """Raises ValueError if a launch that cannot be split into windows has too many elements."""
    if n > MOST_ELEMENTS:
        raise ValueError(
            f"{name} takes at most {MOST_ELEMENTS} elements here, the limit of int32; got {n}; pass parts of them"
        )


def check_out(name: str, out: Tensor, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raises ValueError or TypeError if `out` cannot hold a result of this shape and dtype."""
    _check_tensor(name, out)
    if out.shape != shape:
        raise ValueError(f"{name} returns a result of shape {shape}; out has {out.shape}")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(f"{name} returns {dtype}, and out holds {out.dtype}; convert in {name}, as {out.dtype}(…)")


def _check_tensor(name: str, out: Any) -> None:
    if type(out) is not Tensor:
        raise TypeError(f"{name}: out is a tensor; got {type(out).__name__}")


def element_program(
    definition: Definition,
    signature: Signature,
    masks: tuple[Mask, ...],
    wanted: tuple[np.dtype[Any], ...],
    grid_wrapped: bool,
) -> Program:
    """Compiles the kernel that applies a function to each element.

    Its arguments are the tensors, the results, the numbers, the lengths of the axes except the first, and the number of
    elements.

    Args:
        wanted: dtypes of the results; empty for those of the function.
    """
    body = Body(definition, signature, masks)
    c = body.compiler(LOCAL_SIZE, real_of(signature), grid_wrapped=grid_wrapped)
    arguments = body.arguments(c)
    n = c.function.push("n", UINT32)
    place = c.cast(INTRINSICS[global_id].emit(c), UINT32)
    with c.builder.if_(c.builder.binary("lt", place, n)).then:
        found = body.at(c, arguments, place)
        results = found if isinstance(found, tuple) else (found,)
        dtypes = wanted or tuple([body.number(c, each).numpy for each in results])
        for dtype, each in zip(dtypes, results, strict=True):
            c.store(result(c, dtype), place, body.typed(c, each, SCALARS[dtype.name]))
    return finished(c, dtypes, single=not isinstance(found, tuple))


class ElementLauncher:
    """Applies a function to elements of tensors, and keeps its programs."""

    def __init__(self, definition: Definition) -> None:
        self._arguments = Arguments(definition.function, definition.function.__name__)
        self._programs = Programs(partial(element_program, definition))

    def __call__(self, args: tuple[Any, ...], named: Mapping[str, Any], out: Any) -> Any:
        """Launches the function, and returns its result."""
        args, name = self._arguments.bound(args, named), self._arguments.name
        if is_sharded(args):
            return self._sharded(args, out)
        tensors = [arg for arg in args if type(arg) is Tensor]
        given = out if isinstance(out, tuple) else () if out is None else (out,)
        signature, (shape, lengths, masks) = self._arguments.call(args, given)
        masks, wanted = masks[: len(tensors)], tuple[np.dtype[Any], ...]()
        program = self._programs(signature, masks, wanted, False)
        if out is None:
            outs = tuple([runtime_of(tensors[0]).empty(shape, dtype) for dtype in program.dtypes])
        else:
            if len(given) != len(program.dtypes):
                raise TypeError(f"{name} returns {len(program.dtypes)} results; out has {len(given)}")
            for each, dtype in zip(given, program.dtypes, strict=True):
                check_out(name, each, shape, dtype)
            tensors, outs, wanted = unaliased(tensors, masks, given), given, tuple([each.dtype for each in given])
        n, pushes, bound = prod(shape), [*values(args), *lengths[1:]], [*tensors, *outs]
        find = partial(self._programs, signature, masks, wanted if wanted != program.dtypes else ())
        for start, stop in windows(n, bound):
            seen = [window(each, start, stop, n) for each in bound]
            dispatch(name, find, seen, [*pushes, stop - start], -(-(stop - start) // LOCAL_SIZE))
        return outs[0] if program.single else outs

    def _sharded(self, args: tuple[Any, ...], out: Any) -> Any:
        """Launches the function on each device of a group."""
        outs = out if isinstance(out, tuple) else () if out is None else (out,)

        def here(given: tuple[Any, ...], results: tuple[Any, ...]) -> Any:
            return self(given, {}, results if isinstance(out, tuple) else (*results, None)[0])

        shards, like = by_device(here, args, outs)
        return joined(shards, like) if out is None else out
