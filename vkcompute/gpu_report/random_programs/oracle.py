"""The oracle of kernels in Python: the same function run by Python itself, on numpy's scalars."""

from __future__ import annotations

import builtins
import contextlib
import functools
import linecache
import re
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import vkcompute as vc

Sizes = tuple[int, int, int]


class Host:
    """`vc` as an invocation on the host sees it."""

    def __init__(self, at: Sequence[int], local_size: Sizes, groups: Sizes) -> None:
        self._at, self._local, self._groups = at, local_size, groups

    def global_id(self, axis: int = 0) -> Any:
        return np.int32(self._at[axis])

    def local_id(self, axis: int = 0) -> Any:
        return np.int32(self._at[axis] % self._local[axis])

    def group_id(self, axis: int = 0) -> Any:
        return np.int32(self._at[axis] // self._local[axis])

    def local_size(self, axis: int = 0) -> int:
        return self._local[axis]

    def num_groups(self, axis: int = 0) -> Any:
        return np.int32(self._groups[axis])

    def local(self, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype)

    def __getattr__(self, name: str) -> Any:
        match = re.fullmatch(r"(\w+\d)x([234])", name)
        return functools.partial(vector, match[1], int(match[2])) if match else getattr(np, name)


class HostVector(np.ndarray[Any, Any]):
    """A vector: a value, whose elements have names."""

    def __getattr__(self, name: str) -> Any:
        if set(name) <= {*"xyzw"}:
            elements = [self["xyzw".index(letter)] for letter in name]
            return elements[0] if len(elements) == 1 else np.array(elements).view(HostVector)
        raise AttributeError(name)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(function, types, args, kwargs)
        return (
            result[()] if isinstance(result, np.ndarray) and not result.ndim else result
        )  # a number, no array of one that `+=` changes

    def __matmul__(self, other: Any) -> Any:
        return np.dot(self, other)

    def __iadd__(self, other: Any) -> Any:  # type: ignore[misc]
        return self + other

    def __isub__(self, other: Any) -> Any:  # type: ignore[misc]
        return self - other

    def __ixor__(self, other: Any) -> Any:  # type: ignore[misc]
        return self ^ other


def vector(dtype: str, n: int, *parts: Any) -> HostVector:
    """A vector of these numbers and vectors; a single number is repeated."""
    numbers = [np.dtype(dtype).type(number) for part in parts for number in (part if np.ndim(part) else (part,))]
    assert len(numbers) in (1, n)
    return np.array(numbers * (n if len(numbers) == 1 else 1)).view(HostVector)


def typed_range(*args: Any) -> list[Any]:
    """range, whose numbers are int32 in a kernel."""
    return [*map(np.int32, range(*map(int, args)))]


def typed_extreme(name: str) -> Callable[..., Any]:
    """min or max, whose result has the type that its arguments promote to."""

    def extreme(*args: Any) -> Any:
        values = args[0] if len(args) == 1 else args
        plain = all(type(value) in (int, float) for value in values)
        return getattr(builtins, name)(values) if plain else functools.reduce(getattr(np, f"{name}imum"), values)

    return extreme


def module(text: str) -> Any:
    """A module of this text; Python finds the source of its functions."""
    name = f"{hash(text)}/mine.py"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    namespace = types.ModuleType(name)
    exec(compile(text, name, "exec"), vars(namespace))
    return namespace


def on_host(function: Callable[..., Any], host: Host, *args: Any) -> Any:
    """One invocation, of the function and what it calls; its generator, if it is one."""
    scope: dict[str, Any] = {}
    for name, value in function.__globals__.items():
        scope[name] = value
        if isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
            scope[name] = types.FunctionType(value.__code__, scope, name, value.__defaults__, value.__closure__)
            scope[name].__kwdefaults__ = value.__kwdefaults__
    scope |= {"vc": host, "range": typed_range, "min": typed_extreme("min"), "max": typed_extreme("max")}
    return types.FunctionType(function.__code__, scope, function.__name__, None, function.__closure__)(*args)


def computed_on_host(run: Callable[..., None], args: tuple[Any, ...]) -> list[Any]:
    """The arguments after `run`, on copies of the arrays among them.

    Kernels promote by types alone. So does numpy before 2 when told ("weak"), but then it compares no type with numbers
    beyond its ends; only when it promotes by values ("legacy") does it compare those.
    """
    states: tuple[str, ...] = ("weak", "legacy") if int(np.__version__.partition(".")[0]) < 2 else ("",)
    for state in states:
        copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        with promoting(state), contextlib.suppress(*[OverflowError] * (state == "weak")):
            run(*copies)
            break
    return copies


@contextlib.contextmanager
def promoting(state: str) -> Iterator[None]:
    """Sets how numpy before 2 promotes."""
    numpy: Any = np  # of a version that has these functions
    before = numpy._get_promotion_state() if state else ""
    try:
        if state:
            numpy._set_promotion_state(state)
        yield
    finally:
        if state:
            numpy._set_promotion_state(before)


def check(
    gpu: vc.Runtime,
    kernel: Any,
    *args: Any,
    grid: Sizes = (1, 1, 1),
    local_size: Sizes = (16, 1, 1),
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> None:
    """Runs a kernel on the device and on the host, on copies of the arrays among `args`, and compares all of them.

    Raises:
        AssertionError: integers differ, or floats by more than the tolerance.
        MissingFeature: the device lacks a type.
    """
    arrays = [gpu.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    kernel[grid, local_size](*arrays)
    size = [n * m for n, m in zip(grid, local_size, strict=True)]

    def run(*copies: Any) -> None:
        for at in np.ndindex(*size[::-1]):
            on_host(kernel.__wrapped__, Host(at[::-1], local_size, grid), *copies)

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        copies = computed_on_host(run, args)
    for parameter, array, expected in zip(kernel.__wrapped__.__code__.co_varnames, arrays, copies, strict=False):
        if isinstance(expected, np.ndarray):
            same(array.numpy(), expected, rtol, atol, parameter)


def same(actual: Any, expected: Any, rtol: float, atol: float, what: str) -> None:
    """Asserts that two arrays are equal, floats up to a tolerance."""
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected, what)
    else:
        np.testing.assert_allclose(actual, expected, rtol, atol, err_msg=what)
