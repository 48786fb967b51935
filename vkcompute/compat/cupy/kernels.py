"""CuPy's kernels of the user, over texts in C: `ElementwiseKernel` and `ReductionKernel`; `fuse`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from vkcompute.c import types as types_of_c
from vkcompute.compat.cupy.arrays import ndarray
from vkcompute.compat.cupy.kernel_texts import Parameter, compiled, constant_of, parameters_of, reduction
from vkcompute.compat.cupy.lifting import lifted, unwrapped
from vkcompute.dtypes import as_dtype
from vkcompute.errors import KernelError
from vkcompute.ir import FLOAT64
from vkcompute.jit.elementwise.element_launcher import ElementLauncher
from vkcompute.jit.elementwise.formula import function_of
from vkcompute.runtime.memory.array import Array, empty
from vkcompute.runtime.runtime import current_runtime

_LOCAL = 64
_MAX_AXES = 4
"""Views of more axes are copied, as the strides of each are arguments."""


class _Types(dict[str, "np.dtype[Any]"]):
    """The dtypes of letters, bound by the arguments of a call."""

    def of(self, parameter: Parameter) -> np.dtype[Any] | None:
        """Returns the dtype of a parameter; None for a letter that is not bound."""
        return parameter.dtype or self.get(parameter.type)

    def bind(self, parameter: Parameter, dtype: np.dtype[Any]) -> None:
        """Binds a letter by an argument.

        Raises:
            TypeError: the parameter, or another argument, demands another dtype.
        """
        known = parameter.dtype or self.setdefault(parameter.type, dtype)
        if known != dtype:
            raise TypeError(f"Type is mismatched. {parameter.name} {dtype.type} {known.type}; convert it by astype")

    def bind_all(self, parameters: Sequence[Parameter], given: Sequence[Any]) -> None:
        """Binds letters by arguments, by arrays first, then by numbers.

        Raises:
            TypeError: dtypes differ, or an argument is neither an array of CuPy nor a number.
        """
        pairs = list(zip(parameters, given, strict=False))
        for parameter, value in pairs:
            if isinstance(value, Array):
                self.bind(parameter, value.dtype)
            elif isinstance(value, np.ndarray):
                raise TypeError(f"Unsupported type {type(value)}")
        for parameter, value in pairs:
            if not isinstance(value, Array) and self.of(parameter) is None:
                self.bind(parameter, np.asarray(value).dtype)

    def required(self, parameter: Parameter) -> np.dtype[Any]:
        """Returns the dtype of a parameter.

        Raises:
            TypeError: no argument binds its letter.
        """
        dtype = self.of(parameter)
        if dtype is None:
            raise TypeError(f"the type {parameter.type} of {parameter.name} is bound by no argument")
        return dtype

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """The letters, with the names of their dtypes."""
        return tuple([(letter, dtype.name) for letter, dtype in self.items()])


class ElementwiseKernel:
    """A function of arrays whose text is statements of C.

    Args:
        in_params, out_params: parameters, as `T x, raw float32 y`. Letters are types that the arguments bind.
        operation: the text, as `z = x * x + y[i]`.
        name, reduce_dims, no_return, return_tuple: as in CuPy.
        preamble: macros, types, constants and functions in C that the text uses.
        options: as in CuPy. `loop_prep` declares variables that the text reads; `after_loop` is refused.

    Attributes:
        in_params, out_params: the parameters.
    """

    def __init__(
        self, in_params: str, out_params: str, operation: str, name: str = "kernel", reduce_dims: bool = True,
        preamble: str = "", no_return: bool = False, return_tuple: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        _require_plain(name, options.get("after_loop", ""))
        self._before, self._preamble = options.get("loop_prep", ""), preamble
        self.in_params, self.out_params = parameters_of(in_params), parameters_of(out_params)
        self.params, self.operation, self.name, self.__name__ = self.in_params + self.out_params, operation, name, name
        self.nin, self.nout = len(self.in_params), len(self.out_params)
        self.nargs = self.nin + self.nout
        self.no_return, self.return_tuple = no_return, return_tuple

    def __call__(self, *args: Any, size: int | None = None, block_size: int = 128, stream: Any = None) -> Any:
        """Computes the function.

        Args:
            args: arrays and numbers, and optionally the results.
            size: the number of elements, where all arrays are indexed by the text.
            block_size: has no effect, but that it is positive.
            stream: has no effect.

        Raises:
            TypeError: the number of arguments is wrong, or dtypes differ.
            ValueError: `size` is missing or superfluous, or shapes do not broadcast.
        """
        if block_size <= 0:
            raise ValueError("block_size must be greater than zero")
        if len(args) not in (self.nin, self.nargs):
            raise TypeError(f"Wrong number of arguments for {self.name!r}; got {len(args)}")
        given = [unwrapped(arg) for arg in args]
        types = _Types()
        types.bind_all(self.params, given)
        shape = self._shape(given, size)
        return self._launched(args, given, types, shape)

    def _shape(self, given: Sequence[Any], size: int | None) -> tuple[int, ...]:
        """Returns the shape of the elements."""
        pairs = list(zip(self.params, given, strict=False))
        shapes = [value.shape for parameter, value in pairs if isinstance(value, Array) and not parameter.raw]
        if not shapes:
            if size is None:
                raise ValueError("Loop size is undecided.")
            return (size,)
        if size is not None:
            raise ValueError("Specified 'size' can be used only if all of the ndarray are 'raw'.")
        shape = np.broadcast_shapes(*shapes)
        for parameter, value in pairs[self.nin :]:
            if not parameter.raw and value.shape != shape:
                raise ValueError("Out shape is mismatched")
        return shape

    def _launched(self, args: Sequence[Any], given: list[Any], types: _Types, shape: tuple[int, ...]) -> Any:
        runtime = next((value.runtime for value in given if isinstance(value, Array)), None) or current_runtime()
        results = list(args[self.nin :])
        dtypes = [types.required(parameter) for parameter in self.out_params[len(results) :]]
        results += [ndarray._holding(empty(runtime, shape, dtype)) for dtype in dtypes]
        n = int(np.prod(shape))
        if n:
            arrays = [result._array for result in results]
            values = [_apart(value, arrays) for value in given[: self.nin]]
            inputs = [_input(p, value, types, shape) for p, value in zip(self.in_params, values, strict=True)]
            outs = [_Output(array) for array in arrays]
            kernel = self._kernel(types, inputs, [out.flat.dtype for out in outs])
            lengths = shape if any(isinstance(value, Array) and value.ndim > 1 for value in inputs) else ()
            grid = (-(-n // _LOCAL), _LOCAL)
            kernel[grid](*[out.flat for out in outs], *inputs, n if n < 2**31 else np.int64(n), *lengths)
            for out in outs:
                out.finish()
        if self.no_return:
            return None
        return tuple(results) if self.return_tuple or len(results) > 1 else results[0]

    def _kernel(self, types: _Types, inputs: Sequence[Any], outs: Sequence[Any]) -> Any:
        """Returns the kernel for dtypes and kinds of arguments."""
        ranks = tuple([value.ndim if isinstance(value, Array) else 0 for value in inputs])
        dtypes = tuple([value.dtype.name for value in inputs] + [dtype.name for dtype in outs])
        ins, outs_of = tuple(self.in_params), tuple(self.out_params)
        return compiled(self.operation, ins, outs_of, ranks, dtypes, types.names, self._before, self._preamble)


def _require_plain(name: str, after: str = "") -> None:
    """Raises ValueError for a name that is no identifier, and NotImplementedError for a text after the loop."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError(f'Invalid kernel name: "{name}"')
    if after.strip():
        raise NotImplementedError(
            "the text of a kernel has no after_loop, which is not translated; write it at the end of the text, or as "
            "jit.rawkernel"
        )


def _input(parameter: Parameter, value: Any, types: _Types, shape: tuple[int, ...]) -> Any:
    """Returns an argument as an array of one axis, as a view with gaps, or as a number, in the parameter's dtype."""
    if not isinstance(value, Array):
        return np.asarray(value).astype(types.required(parameter))[()]
    array = value
    if not parameter.raw and array.shape != shape:
        array = array.broadcast_to(shape)
    if array.contiguous or parameter.raw or not 1 < array.ndim <= _MAX_AXES:
        return (array if array.contiguous else array.copy()).reshape(-1)
    return array


def _apart(value: Any, results: Sequence[Array]) -> Any:
    """Returns an argument, or a copy of one that shares memory with a result and is another array, as in CuPy."""
    if isinstance(value, Array) and any(value is not result and value.overlaps(result) for result in results):
        return value.copy()
    return value


class _Output:
    """A result as an array of one axis: a view, or a copy that is written back."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.flat = (array if array.contiguous else array.copy()).reshape(-1)

    def finish(self) -> None:
        """Writes a copy back."""
        if not self._array.contiguous:
            self._array[...] = self.flat.reshape(self._array.shape)


class ReductionKernel:
    """A reduction of arrays whose texts are expressions of C.

    Args:
        in_params, out_params: parameters, as `T x`; one result.
        map_expr: of each element.
        reduce_expr: of two values, `a` and `b`.
        post_map_expr: assigns the result from `a`.
        identity: the first value; None for a minimum or a maximum.
        reduce_type: the type of values; by default that of the result.
        preamble: macros, types, constants and functions in C that the texts use.
    """

    def __init__(
        self, in_params: str, out_params: str, map_expr: str, reduce_expr: str, post_map_expr: str, identity: Any,
        name: str = "reduce_kernel", reduce_type: str | None = None, reduce_dims: bool = True, preamble: str = "",
        options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        _require_plain(name)
        self._preamble = preamble
        self.in_params, self.out_params = parameters_of(in_params), parameters_of(out_params)
        if len(self.out_params) != 1 or any(p.raw for p in (*self.in_params, *self.out_params)):
            raise NotImplementedError(
                "a ReductionKernel has one result, and no raw arrays; write vc.reduce, or vc.kernel"
            )
        self.map_expr, self.reduce_expr, self.post_map_expr = map_expr, reduce_expr, post_map_expr
        self.identity, self.name, self.__name__, self.reduce_type = identity, name, name, reduce_type
        self.nin, self.nout, self.nargs = len(self.in_params), 1, len(self.in_params) + 1
        text = post_map_expr.replace("_in_ind.size()", "_in_size")
        self._post = ElementwiseKernel("_ a, int64 _in_size", out_params, text, f"{name}_post", preamble=preamble)

    def __call__(
        self, *args: Any, out: Any = None, axis: Any = None, keepdims: bool = False, stream: Any = None,
        dtype: Any = None,
    ) -> ndarray:  # fmt: skip
        """Reduces along one, several or all axes; options are as of `numpy.sum`."""
        *args, out = (*args, out) if len(args) == self.nin else args  # type: ignore[assignment]
        if len(args) != self.nin:
            raise TypeError("Wrong number of arguments")
        given, out_array = [unwrapped(arg) for arg in args], None if out is None else unwrapped(out)
        types = _Types()
        types.bind_all(self.in_params if out is None else [*self.in_params, *self.out_params], [*given, out_array])
        wanted = types.required(self.out_params[0]) if dtype is None else as_dtype(dtype)
        values = wanted if self.reduce_type is None else types.get(self.reduce_type) or _c_type(self.reduce_type)
        kinds = [types.required(parameter) for parameter in self.in_params]
        inputs = [
            value if isinstance(value, Array) else np.asarray(value).astype(kind)[()]
            for value, kind in zip(given, kinds, strict=True)
        ]
        names = tuple([(p.name, kind.name) for p, kind in zip(self.in_params, kinds, strict=True)])
        initial = self._initial(types, values)
        combined = reduction(self.map_expr, self.reduce_expr, names, types.names, values.name, initial, self._preamble)
        reduced = combined(*inputs, axis=axis, keepdims=keepdims, dtype=values)
        return self._finished(reduced, inputs, types, wanted, out)

    def _initial(self, types: _Types, dtype: np.dtype[Any]) -> Any:
        """Returns the first value."""
        if self.identity is not None and self.identity != "":
            value = constant_of(str(self.identity), dict(types.names), dtype, self._preamble)
            if value is None:
                raise NotImplementedError(f"an identity is a constant expression; got {self.identity!r}")
            return value.item()
        text = re.sub(r"\s", "", self.reduce_expr)
        if text not in ("min(a,b)", "max(a,b)"):
            raise NotImplementedError(f"a reduction by {self.reduce_expr!r} needs an identity; give it")
        limits: Any = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
        if dtype.kind == "f":
            return np.inf if text.startswith("min") else -np.inf
        return int(limits.max if text.startswith("min") else limits.min)

    def _finished(self, reduced: Array, inputs: Sequence[Any], types: _Types, wanted: Any, out: Any) -> ndarray:
        """Computes the result of the reduced values."""
        result: ndarray = out if out is not None else ndarray._holding(empty(reduced.runtime, reduced.shape, wanted))
        size = np.prod(np.broadcast_shapes(*[value.shape for value in inputs if isinstance(value, Array)]), dtype=int)
        n = int(size) // max(reduced.size, 1)
        types["_"] = reduced.dtype
        operands = [reduced, n, result]
        self._post._launched(operands, [unwrapped(operand) for operand in operands], types, result.shape)
        return result


def _c_type(name: str) -> np.dtype[Any]:
    """Returns the dtype of a type of C, as `unsigned int`.

    Raises:
        TypeError: there is no such type.
    """
    dtype = types_of_c.named(name.split())
    if dtype is None:
        raise TypeError(f"reduce_type is a letter of the parameters or a type of C, as float; got {name!r}")
    return dtype


def RawKernel(code: str, name: str, *args: Any, **options: Any) -> NoReturn:  # noqa: N802
    """Raises NotImplementedError: there is no compiler of C."""
    raise NotImplementedError(
        f"RawKernel {name} is a kernel in C, which vkcompute does not compile; write it in Python, as vc.kernel or "
        "cupyx.jit.rawkernel"
    )


def RawModule(*args: Any, **options: Any) -> NoReturn:  # noqa: N802
    """Raises NotImplementedError: there is no compiler of C."""
    raise NotImplementedError(
        "RawModule is code in C, which vkcompute does not compile; write kernels in Python, as vc.kernel or "
        "cupyx.jit.rawkernel"
    )


class vectorize:  # noqa: N801
    """A Python function of numbers, applied to each element, as `cupy.vectorize`."""

    def __init__(
        self, pyfunc: Callable[..., Any], otypes: Any = None, doc: str | None = None, excluded: Any = None,
        cache: bool = False, signature: Any = None,
    ) -> None:  # fmt: skip
        if excluded is not None:
            raise NotImplementedError("cupy.vectorize does not support `excluded` option currently.")
        if signature is not None:
            raise NotImplementedError("cupy.vectorize does not support `signature` option currently.")
        self.pyfunc, self.otypes, self.__doc__ = pyfunc, otypes, doc or pyfunc.__doc__
        launcher = ElementLauncher(function_of(pyfunc, "cupy.vectorize"), FLOAT64)
        self._call = lifted(lambda *args: launcher(args, {}, None))

    def __call__(self, *args: Any) -> Any:
        """Applies the function; Python's numbers have 64 bits."""
        try:
            result = self._call(
                *[np.asarray(arg)[()] if type(arg) in (bool, int, float, complex) else arg for arg in args]
            )
        except KernelError as error:
            raise TypeError(str(error)) from error
        return result if self.otypes is None else result.astype(self.otypes)


def fuse(*args: Any, **options: Any) -> Any:
    """Returns a function as it is, or a decorator that does: all functions of elements fuse.

    Args:
        args: the function, if it is decorated without arguments.
        options: `kernel_name`, which names nothing.
    """
    if args and callable(args[0]):
        return args[0]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    return decorate
