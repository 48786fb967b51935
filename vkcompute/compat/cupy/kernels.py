"""CuPy's kernels of the user, over expressions of C: `ElementwiseKernel` and `ReductionKernel`; `fuse`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from vkcompute.compat.cupy.arrays import ndarray
from vkcompute.compat.cupy.c_expressions import TYPES, Parser, Term, statements
from vkcompute.compat.cupy.lifting import lifted, opened
from vkcompute.dtypes import as_dtype
from vkcompute.errors import KernelError
from vkcompute.jit.elementwise.elementwise import elementwise
from vkcompute.jit.elementwise.elementwise import vectorize as vectorized
from vkcompute.jit.elementwise.reduction import reduce
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.memory.array import Array, empty
from vkcompute.runtime.runtime import current_runtime

_LOCAL = 64


class Parameter(NamedTuple):
    """A parameter: its type, or the letter of one; its name; True if the text indexes it."""

    type: str
    name: str
    raw: bool


def _parameters(text: str) -> list[Parameter]:
    """Returns the parameters of a list as `T x, raw float32 y`."""
    parameters = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        words = [word for word in part.split() if word not in ("const", "_non_const")]
        raw = "raw" in words
        words = [word for word in words if word != "raw"]
        if len(words) != 2:
            raise ValueError(f"a parameter is a type and a name, as T x or raw T x; got {part!r}")
        parameters.append(Parameter(words[0], words[1], raw))
    return parameters


class _Types(dict[str, "np.dtype[Any]"]):
    """The dtypes of letters, bound by the arguments of a call."""

    def of(self, name: str) -> np.dtype[Any] | None:
        """Returns the dtype of a type or a letter; None for a letter that is not bound."""
        return self.get(name) or (np.dtype(TYPES[name]) if name in TYPES else None)

    def bind(self, parameter: Parameter, dtype: np.dtype[Any]) -> None:
        """Binds a letter by an argument.

        Raises:
            TypeError: another argument has bound it to another dtype.
        """
        if parameter.type in TYPES:
            return
        known = self.setdefault(parameter.type, dtype)
        if known != dtype:
            raise TypeError(f"Type is mismatched. {parameter.name} {dtype.type} {known.type}")


class ElementwiseKernel:
    """A function of arrays whose text is assignments of expressions of C.

    Args:
        in_params, out_params: parameters, as `T x, raw float32 y`. Letters are types that the arguments bind.
        operation: the text, as `z = x * x + y[i]`.
        name, reduce_dims, preamble, no_return, return_tuple: as in CuPy; a preamble in C is refused.

    Attributes:
        in_params, out_params: the parameters.
    """

    def __init__(
        self, in_params: str, out_params: str, operation: str, name: str = "kernel", reduce_dims: bool = True,
        preamble: str = "", no_return: bool = False, return_tuple: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        _require_no_preamble(preamble)
        self.in_params, self.out_params = _parameters(in_params), _parameters(out_params)
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
        given = [opened(arg) for arg in args]
        types = self._bound(given)
        shape = self._shape(given, size)
        return self._launched(args, given, types, shape)

    def _bound(self, given: Sequence[Any]) -> _Types:
        """Returns the dtypes of letters, by arrays first, then by numbers."""
        types = _Types()
        pairs = list(zip(self.params, given, strict=False))
        for parameter, value in pairs:
            if isinstance(value, Array):
                if parameter.type in TYPES and parameter in self.in_params and parameter.raw:
                    continue
                types.bind(parameter, value.dtype)
            elif isinstance(value, np.ndarray):
                raise TypeError(f"Unsupported type {type(value)}")
        for parameter, value in pairs:
            if not isinstance(value, Array) and types.of(parameter.type) is None:
                types.bind(parameter, np.asarray(value).dtype)
        return types

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
        for parameter in self.out_params[len(results) :]:
            dtype = types.of(parameter.type)
            if dtype is None:
                raise TypeError(f"the type {parameter.type} of {parameter.name} is bound by no argument")
            results.append(ndarray._holding(empty(runtime, shape, dtype)))
        n = int(np.prod(shape))
        if n:
            inputs = [
                _input(p, value, types, shape) for p, value in zip(self.in_params, given[: self.nin], strict=True)
            ]
            outs = [_Output(result._array) for result in results]
            kernel = self._kernel(types, inputs, [out.flat.dtype for out in outs])
            grid = (-(-n // _LOCAL), _LOCAL)
            kernel[grid](*[out.flat for out in outs], *inputs, n if n < 2**31 else np.int64(n))
            for out in outs:
                out.finish()
        if self.no_return:
            return None
        return tuple(results) if self.return_tuple or len(results) > 1 else results[0]

    def _kernel(self, types: _Types, inputs: Sequence[Any], outs: Sequence[Any]) -> Any:
        """Returns the kernel for dtypes and kinds of arguments."""
        is_array = tuple([isinstance(value, Array) for value in inputs])
        dtypes = tuple([value.dtype.name for value in inputs] + [dtype.name for dtype in outs])
        return _compiled(
            self.operation, tuple(self.in_params), tuple(self.out_params), is_array, dtypes,
            tuple([(name, dtype.name) for name, dtype in types.items()]),
        )  # fmt: skip


def _require_no_preamble(preamble: str) -> None:
    if preamble.strip():
        raise NotImplementedError(
            "the text of a kernel is expressions, without a preamble in C; write the function as vc.function, and a "
            "jit.rawkernel that calls it"
        )


def _input(parameter: Parameter, value: Any, types: _Types, shape: tuple[int, ...]) -> Any:
    """Returns an argument as an array of one axis, or as a number, in the parameter's dtype."""
    dtype = types.of(parameter.type)
    if not isinstance(value, Array):
        return value if dtype is None else np.asarray(value).astype(dtype)[()]
    array = value if dtype is None or value.dtype == dtype else value.astype(dtype)
    if not parameter.raw and array.shape != shape:
        array = array.broadcast_to(shape)
    return (array if array.contiguous else array.copy()).reshape(-1)


class _Output:
    """A result as an array of one axis: a view, or a copy that is written back."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.flat = (array if array.contiguous else array.copy()).reshape(-1)

    def finish(self) -> None:
        """Writes a copy back."""
        if not self._array.contiguous:
            self._array[...] = self.flat.reshape(self._array.shape)


@functools.lru_cache(maxsize=512)
def _compiled(
    operation: str, ins: tuple[Parameter, ...], outs: tuple[Parameter, ...], is_array: tuple[bool, ...],
    dtypes: tuple[str, ...], types: tuple[tuple[str, str], ...],
) -> Any:  # fmt: skip
    """Returns the kernel of a text."""
    text = kernel_text(operation, ins, outs, is_array, dtypes, dict(types))
    made: dict[str, Any] = {"_global_id": global_id, "np": np, "math": __import__("math")}
    exec(compile(text, "<kernel>", "exec"), made)  # the text is translated by c_expressions.py, token by token
    return kernel(made["kernel_of_text"], source=text)


def kernel_text(
    operation: str, ins: Sequence[Parameter], outs: Sequence[Parameter], is_array: Sequence[bool],
    dtypes: Sequence[str], types: dict[str, str],
) -> str:  # fmt: skip
    """Returns a kernel in Python for a text in C.

    Args:
        is_array: for each input, True for an array.
        dtypes: those of inputs and results.
        types: the dtypes of letters.
    """
    names, arrays, lines = {"i": Term("i", "i"), "n": Term("n", "i")}, {}, []
    kinds = [np.dtype(dtype).kind for dtype in dtypes]
    for parameter, array, kind in zip(ins, is_array, kinds, strict=False):
        if parameter.raw and array:
            arrays[parameter.name] = kind
        else:
            names[parameter.name] = Term(f"{parameter.name}[i]" if array else parameter.name, kind)
    of_output: dict[str, str] = {}
    for parameter, dtype in zip(outs, dtypes[len(ins) :], strict=True):
        if parameter.raw:
            arrays[parameter.name] = np.dtype(dtype).kind
        else:
            names[parameter.name] = Term(f"{parameter.name}[i]", np.dtype(dtype).kind)
        of_output[parameter.name] = dtype
    for declared, target, sign, expression in statements(operation):
        name = target.partition("[")[0]
        value = f"{target} {sign} ({expression})" if sign else expression
        term = Parser(value, names, arrays, types).parsed()
        wanted = {**TYPES, **types}.get(declared) if declared else of_output.get(name)
        cast = _conversion(wanted, term.text)
        if name in of_output:
            index = Parser(target[len(name) :], names, arrays, types).index() if "[" in target else "i"
            lines.append(f"{name}[{index}] = {cast}")
        else:
            lines.append(f"_{name} = {cast}")
            names[name] = Term(f"_{name}", np.dtype(wanted).kind if wanted else term.kind)
    arguments = ", ".join([p.name for p in (*outs, *ins)] + ["_n"])
    body = "\n".join(f"        {line}" for line in lines or ["pass"])
    return f"def kernel_of_text({arguments}):\n    i = _global_id(0)\n    if i < _n:\n{body}\n"


def _conversion(dtype: str | None, text: str) -> str:
    if dtype is None:
        return text
    return f"bool({text})" if dtype == "bool" else f"np.{dtype}({text})"


class ReductionKernel:
    """A reduction of arrays whose texts are expressions of C.

    Args:
        in_params, out_params: parameters, as `T x`; one result.
        map_expr: of each element.
        reduce_expr: of two values, `a` and `b`.
        post_map_expr: assigns the result from `a`.
        identity: the first value; None for a minimum or a maximum.
        reduce_type: the type of values; by default that of the result.
    """

    def __init__(
        self, in_params: str, out_params: str, map_expr: str, reduce_expr: str, post_map_expr: str, identity: Any,
        name: str = "reduce_kernel", reduce_type: str | None = None, reduce_dims: bool = True, preamble: str = "",
        options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        _require_no_preamble(preamble)
        self.in_params, self.out_params = _parameters(in_params), _parameters(out_params)
        if len(self.out_params) != 1 or any(p.raw for p in (*self.in_params, *self.out_params)):
            raise NotImplementedError(
                "a ReductionKernel has one result, and no raw arrays; write vc.reduce, or vc.kernel"
            )
        self.map_expr, self.reduce_expr, self.post_map_expr = map_expr, reduce_expr, post_map_expr
        self.identity, self.name, self.__name__, self.reduce_type = identity, name, name, reduce_type
        self.nin, self.nout, self.nargs = len(self.in_params), 1, len(self.in_params) + 1
        out = self.out_params[0]
        self._post = ElementwiseKernel(f"_A a, int64 _in_size, _T {out.name}_like", f"{out.type} {out.name}",
                                       post_map_expr.replace("_in_ind.size()", "_in_size"), f"{name}_post")  # fmt: skip

    def __call__(
        self, *args: Any, out: Any = None, axis: Any = None, keepdims: bool = False, stream: Any = None,
        dtype: Any = None,
    ) -> ndarray:  # fmt: skip
        """Reduces along one, several or all axes; options are as of `numpy.sum`."""
        *args, out = (*args, out) if len(args) == self.nin else args  # type: ignore[assignment]
        if len(args) != self.nin:
            raise TypeError("Wrong number of arguments")
        given = [arg._array if isinstance(arg, ndarray) else arg for arg in args]
        types = _Types()
        for parameter, value in zip(self.in_params, given, strict=True):
            if isinstance(value, Array):
                types.bind(parameter, value.dtype)
        for parameter, value in zip(self.in_params, given, strict=True):
            if types.of(parameter.type) is None:
                types.bind(parameter, np.asarray(value).dtype)
        result_type = types.of(self.out_params[0].type) if out is None else out.dtype
        wanted = result_type if dtype is None else as_dtype(dtype)
        values = types.of(self.reduce_type) if self.reduce_type else wanted
        inputs = [
            value.astype(kind) if isinstance(value, Array) and value.dtype != kind else value
            for value, kind in ((v, types.of(p.type)) for p, v in zip(self.in_params, given, strict=True))
        ]
        reduced = self._reduction(types, values)(*inputs, axis=axis, keepdims=keepdims, dtype=values)
        return self._finished(reduced, inputs, wanted, out)

    def _reduction(self, types: _Types, values: Any) -> Any:
        """Returns the reduction of mapped elements."""
        names = {p.name: Term(p.name, (types.of(p.type) or np.dtype(float)).kind) for p in self.in_params}
        letters = {name: dtype.name for name, dtype in types.items()}
        kind = np.dtype(values).kind
        mapped = Parser(self.map_expr, names, {}, letters).parsed().text
        combined = Parser(self.reduce_expr, {"a": Term("a", kind), "b": Term("b", kind)}, {}, letters).parsed().text
        return _reduction(combined, self._initial(np.dtype(values)), mapped, ", ".join(names))

    def _initial(self, dtype: np.dtype[Any]) -> Any:
        if self.identity is not None and self.identity != "":
            number = str(self.identity).rstrip("fFuUlL")
            return dtype.type({"true": True, "false": False}.get(number) or float(number)).item()
        text = re.sub(r"\s", "", self.reduce_expr)
        if text not in ("min(a,b)", "max(a,b)"):
            raise NotImplementedError(f"a reduction by {self.reduce_expr!r} needs an identity; give it")
        limits: Any = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
        if dtype.kind == "f":
            return np.inf if text.startswith("min") else -np.inf
        return int(limits.max if text.startswith("min") else limits.min)

    def _finished(self, reduced: Array, inputs: Sequence[Any], wanted: Any, out: Any) -> ndarray:
        result: ndarray = out if out is not None else ndarray._holding(empty(reduced.runtime, reduced.shape, wanted))
        size = np.prod(np.broadcast_shapes(*[value.shape for value in inputs if isinstance(value, Array)]), dtype=int)
        n = int(size) // max(reduced.size, 1)
        self._post(ndarray._holding(reduced), n, wanted.type(0), result)
        return result


@functools.lru_cache(maxsize=512)
def _reduction(combined: str, initial: Any, mapped: str, arguments: str) -> Any:
    """Returns the reduction of these texts."""
    return reduce(combined, initial, map=elementwise(mapped, arguments))


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
        self._call = lifted(vectorized(pyfunc))

    def __call__(self, *args: Any) -> Any:
        """Applies the function."""
        try:
            result = self._call(*args)
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
