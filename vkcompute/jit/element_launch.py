"""Calls of what `vc.elementwise` and `vc.vectorize` make."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from vkcompute.jit.annotations import parameters_of
from vkcompute.jit.arguments import MOST_ELEMENTS, bound
from vkcompute.jit.broadcasting import Broadcast, broadcast
from vkcompute.jit.compile import TRUTH, VALUE, Signature
from vkcompute.jit.dispatch import Programs, apart, dispatch, window, windows
from vkcompute.jit.divided import by_device, is_divided, whole
from vkcompute.jit.elements import LOCAL_SIZE, elementwise
from vkcompute.jit.launch import kind_of, pushed
from vkcompute.jit.source import Written
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import runtime_of

_MOST_CALLS = 256


class Call(NamedTuple):
    """What calls with arguments of the same types and shapes have in common."""

    signature: Signature
    together: Broadcast


class Arguments:
    """The arguments of calls of a function.

    Attributes:
        name: of the function, for messages.
    """

    def __init__(self, function: FunctionType, name: str) -> None:
        self.name = name
        self._parameters, self._calls = parameters_of(function), dict[Any, Call]()

    def bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments in order, one of them a tensor.

        Raises:
            TypeError: there are others, or no tensor.
        """
        n = len(self._parameters.parameters)
        if len(args) > n:
            raise TypeError(f"{self.name} takes {n} by position; got {len(args)}; name the others, as out=y")
        if named or len(args) != n:
            args = bound(self.name, self._parameters, args, named)
        if not any(type(arg) is Tensor for arg in args) and not is_divided(args):
            for arg in args:
                kind_of(arg)  # which has more to say of arrays
            raise TypeError(f"{self.name} takes a tensor, on whose device it runs; got none")
        return args

    def call(self, args: tuple[Any, ...], outs: tuple[Tensor, ...] = ()) -> Call:
        """The types and shapes, those of results included.

        Raises:
            TypeError: an argument is neither a tensor nor a number, or a result no tensor.
            ValueError: shapes do not fit, or there are too many elements.
        """
        kinds = tuple([(arg.dtype.char, arg.shape) if type(arg) is Tensor else kind_of(arg) for arg in args])
        for out in outs:
            _check_tensor(self.name, out)
        key = kinds, *[out.shape for out in outs]
        found = self._calls.get(key)
        if found is None:
            together = broadcast([kind[1] for kind in kinds if type(kind) is tuple] + [out.shape for out in outs])
            if len(together.lengths) > 1:
                check_size(self.name, together.size)
            signature = tuple([(kind[0], 1) if type(kind) is tuple else kind for kind in kinds])
            if len(self._calls) >= _MOST_CALLS:
                self._calls.clear()
            found = self._calls[key] = Call(signature, together)
        return found


def values(args: tuple[Any, ...]) -> list[Any]:
    """The push constants for the numbers among arguments."""
    numbers = [arg for arg in args if type(arg) is not Tensor]
    return [pushed(arg, TRUTH if isinstance(arg, (bool, np.bool_)) else VALUE) for arg in numbers]


def check_size(name: str, n: int) -> None:
    """Raises ValueError where so many elements cannot be seen in windows, and are too many for one."""
    if n > MOST_ELEMENTS:
        raise ValueError(f"{name} is given {n} elements; Python kernels count in int32: pass parts of them")


def check_out(name: str, out: Tensor, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raises ValueError or TypeError if `out` does not take a result of this shape and type."""
    _check_tensor(name, out)
    if out.shape != shape:
        raise ValueError(f"{name} gives a result of shape {shape}; out has {out.shape}")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(f"{name} gives {dtype}, and out holds {out.dtype}; convert in {name}, as {out.dtype}(…)")


def _check_tensor(name: str, out: Any) -> None:
    if type(out) is not Tensor:
        raise TypeError(f"{name}: out is a tensor; got {type(out).__name__}")


class ElementLauncher:
    """Applies a function, and keeps what has been compiled of it."""

    def __init__(self, written: Written) -> None:
        self._arguments = Arguments(written.function, written.function.__name__)
        self._programs = Programs(partial(elementwise, written))

    def __call__(self, args: tuple[Any, ...], named: Mapping[str, Any], out: Any) -> Any:
        """The result, which is being computed."""
        args, name = self._arguments.bound(args, named), self._arguments.name
        if is_divided(args):
            return self._divided(args, out)
        tensors = [arg for arg in args if type(arg) is Tensor]
        given = out if isinstance(out, tuple) else () if out is None else (out,)
        signature, together = self._arguments.call(args, given)
        masks, shape, wanted = together.masks[: len(tensors)], together.shape, tuple[np.dtype[Any], ...]()
        built = self._programs(signature, masks, wanted, False)
        if out is None:
            outs = tuple([runtime_of(tensors[0]).empty(shape, dtype) for dtype in built.dtypes])
        else:
            if len(given) != len(built.dtypes):
                raise TypeError(f"{name} gives {len(built.dtypes)} results; out has {len(given)}")
            for each, dtype in zip(given, built.dtypes, strict=True):
                check_out(name, each, shape, dtype)
            tensors, outs, wanted = apart(tensors, masks, given), given, tuple([each.dtype for each in given])
        n, pushes, bound = together.size, [*values(args), *together.lengths[1:]], [*tensors, *outs]
        program = partial(self._programs, signature, masks, wanted if wanted != built.dtypes else ())
        for start, stop in windows(n, bound):
            seen = [window(each, start, stop, n) for each in bound]
            dispatch(name, program, seen, [*pushes, stop - start], -(-(stop - start) // LOCAL_SIZE))
        return outs[0] if built.single else outs

    def _divided(self, args: tuple[Any, ...], out: Any) -> Any:
        """The same on a group of devices."""
        outs = out if isinstance(out, tuple) else () if out is None else (out,)

        def here(given: tuple[Any, ...], results: tuple[Any, ...]) -> Any:
            return self(given, {}, results if isinstance(out, tuple) else (*results, None)[0])

        parts, like = by_device(here, args, outs)
        return whole(parts, like) if out is None else out
