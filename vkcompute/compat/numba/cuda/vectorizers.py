"""`vectorize` and `guvectorize`: functions of elements and of parts of arrays, applied to arrays that broadcast."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from vkcompute.compat.numba import types
from vkcompute.compat.numba.cuda.arrays import DeviceNDArray, as_device_array, is_cuda_array
from vkcompute.compat.numba.cuda.dispatcher import Dispatcher, jit
from vkcompute.compat.numba.cuda.factories import device_array, to_device
from vkcompute.compat.numba.cuda.ids import grid
from vkcompute.compat.numba.errors import TypingError
from vkcompute.compat.numba.kernel_names import in_kernels, refuse_outside_kernel
from vkcompute.compat.numba.language import NumbaKernels
from vkcompute.compat.numba.types import Signature
from vkcompute.frontend.code_objects import function_of_text
from vkcompute.ir import FLOAT32
from vkcompute.jit.frontend import complex_values
from vkcompute.jit.frontend.values import is_complex
from vkcompute.runtime.memory.array import Array

_BLOCK = 128
_CASTINGS: tuple[Literal["no", "safe", "same_kind"], ...] = "no", "safe", "same_kind"
_KERNEL = """
def kernel({names}, out):
    i = grid(1)
    if i < out.size:
        out[i] = core({elements})
"""
_PROBE = """
def kernel({names}):
    note_result(core({elements}))
"""


def _note_result(c: NumbaKernels, value: Any) -> None:
    if is_complex(value):
        c.result = np.dtype("complex64" if complex_values.part_kind(c, value).type is FLOAT32 else "complex128")
    else:
        c.result = c.rules.variable(c.kind(value)).type.numpy


@in_kernels(_note_result)
def note_result(value: Any) -> None:
    """Keeps the type of a number for the host."""
    refuse_outside_kernel("note_result")


def _broadcast(array: Array, shape: tuple[int, ...]) -> Array:
    """Returns an array of this shape; a copy where elements are repeated."""
    return array if array.shape == shape else array.broadcast_to(shape).copy()


def _is_on_device(args: Sequence[Any]) -> bool:
    return any(map(is_cuda_array, args))


class CUDAUFunc:
    """A function of elements, for each of its signatures; without any, for the types of the arguments of each call."""

    def __init__(self, function: Any, signatures: Sequence[Signature]) -> None:
        self.__name__ = function.__name__
        self.core = function if isinstance(function, Dispatcher) else jit(function, device=True)
        self.definition = self.core.definition
        self._signatures, self._is_lazy = list(signatures), not signatures
        self.nin, self.nout = len(self.core.definition.parameters), 1
        self.max_blocksize = 1 << 30
        names = [f"x{k}" for k in range(self.nin)]
        text = _KERNEL.format(names=", ".join(names), elements=", ".join(f"{name}[i]" for name in names))
        self._kernel = jit(function_of_text(text, "kernel", {"grid": grid, "core": self.core}))

    def __call__(self, *args: Any, out: Any = None, stream: Any = 0) -> Any:
        """Applies the function; the result is on the host unless an argument is on the device."""
        if len(args) == self.nin + 1:
            *given, out = args
            args = tuple(given)
        if len(args) != self.nin:
            raise TypeError(f"{self.__name__} takes {self.nin} arguments; got {len(args)}")
        on_device = _is_on_device(args)
        operands = [as_device_array(arg) if is_cuda_array(arg) else np.asarray(arg) for arg in args]
        signature = self._chosen([operand.dtype for operand in operands])
        shape = np.broadcast_shapes(*[tuple(operand.shape) for operand in operands])
        result = self._launched(operands, signature, shape, stream)
        if out is not None and is_cuda_array(out):
            target = as_device_array(out)
            target.copy_to_device(result)
            return out if isinstance(out, Array) else target
        if on_device:
            return result
        host = result.copy_to_host()
        if out is not None:
            out[...] = host
            return out
        return host if shape else host[()]

    def _launched(
        self, operands: Sequence[Any], signature: Signature, shape: tuple[int, ...], stream: Any
    ) -> DeviceNDArray:
        """Returns the result for operands of a signature."""
        flat = []
        for operand, kind in zip(operands, signature.args, strict=True):
            dtype = kind.dtype  # type: ignore[attr-defined]
            if is_cuda_array(operand):
                array = as_device_array(operand).array
                array = array if array.dtype == dtype else array.astype(dtype)
            else:
                array = to_device(np.ascontiguousarray(operand, dtype).reshape(operand.shape)).array
            whole = _broadcast(array, shape)
            flat.append(whole.reshape(-1))
        result = device_array(shape, signature.return_type.dtype, stream=stream)  # type: ignore[attr-defined]
        if result.size:
            self._kernel[-(-result.size // _BLOCK), _BLOCK](*flat, result.array.reshape(-1))
        return result

    def _chosen(self, dtypes: Sequence[np.dtype[Any]]) -> Signature:
        """Returns the first signature with these types, or else with types to which they are safely converted."""
        for casting in _CASTINGS[:1] if self._is_lazy else _CASTINGS:
            for signature in self._signatures:
                pairs = zip(dtypes, signature.args, strict=True)
                if all(np.can_cast(dtype, kind.dtype, casting) for dtype, kind in pairs):  # type: ignore[attr-defined]
                    return signature
        if not self._is_lazy:
            raise TypeError(f"{self.__name__} has no signature for {', '.join(map(str, dtypes))}")
        self._signatures.append(self._inferred([types.from_dtype(dtype) for dtype in dtypes]))
        return self._signatures[-1]

    def _inferred(self, kinds: Sequence[types.Type]) -> Signature:
        """Returns the signature for arguments of these types, with the type of the result."""
        names = [f"x{k}" for k in range(self.nin)]
        text = _PROBE.format(names=", ".join(names), elements=", ".join(f"{name}[0]" for name in names))
        probe = jit(function_of_text(text, "kernel", {"note_result": note_result, "core": self.core}))
        return Signature(types.from_dtype(probe.result_type([types.Array(kind, 1, "C") for kind in kinds])), kinds)

    def reduce(self, arg: Any, stream: Any = 0) -> Any:
        """Reduces an array with one axis."""
        if self.nin != 2:
            raise TypeError("reduce takes a function of two arguments")
        values = as_device_array(arg) if is_cuda_array(arg) else to_device(np.asarray(arg), stream)
        while values.size > 1:
            half = values.size // 2
            joined = self(values[:half], values[half : 2 * half])
            if values.size % 2:
                rest = self(joined[:1], values[2 * half :])
                joined[:1].copy_to_device(rest)
            values = joined
        return values[0]


def vectorize(ftylist_or_function: Any = (), target: str = "cuda", **options: Any) -> Any:
    """Makes a function of arrays of a function of numbers.

    Args:
        ftylist_or_function: signatures, as `["float32(float32, float32)"]`; or the function, whose result then has the
            type that it gives for the types of the arguments.
        target: "cuda"; every target is the device here.
    """
    unknown = [name for name in options if name not in ("nopython", "cache", "identity", "fastmath")]
    if unknown:
        raise KeyError(f"Unrecognized options. {{{', '.join(map(repr, unknown))}}}")
    if isinstance(ftylist_or_function, str):
        ftylist_or_function = [ftylist_or_function]
    if callable(ftylist_or_function):
        return CUDAUFunc(ftylist_or_function, ())
    signatures = [types.signature_of(given) for given in ftylist_or_function]
    return lambda function: CUDAUFunc(function, signatures)


_PARTS = re.compile(r"\(([^()]*)\)")
_GUFUNC = """
def kernel({names}):
    i = grid(1)
    if i < x0.shape[0]:
        core({parts})
"""


class CUDAGUFunc:
    """A function of parts of arrays, which writes its last arguments."""

    def __init__(self, function: Any, signatures: Sequence[Signature], layout: str, writable: Sequence[Any]) -> None:
        self.__name__ = function.__name__
        self.core = function if isinstance(function, Dispatcher) else jit(function, device=True)
        inputs, _, outputs = layout.replace(" ", "").partition("->")
        self._inputs, self._outputs = [
            [tuple(part.split(",")) if part else () for part in _PARTS.findall(side)] for side in (inputs, outputs)
        ]
        self._signatures, self._writable = list(signatures), tuple(writable)
        self._kernels: dict[Any, Any] = {}

    def __call__(self, *args: Any, out: Any = None, stream: Any = 0) -> Any:
        """Applies the function to all parts; the result is on the host unless an argument is on the device."""
        n = len(self._inputs)
        given, outs = list(args[:n]), list(args[n:])
        if out is not None and outs:
            raise ValueError("cannot specify argument 'out' as both positional and keyword")
        if out is not None:
            outs = list(out) if isinstance(out, tuple) else [out]
        if len(given) != n or len(outs) not in (0, len(self._outputs)):
            got, most = len(args), n + len(self._outputs)
            raise TypeError(
                f"gufunc accepts {n} positional arguments (inputs), or {most} positional arguments (and results). "
                f"Got {got} positional argument{'s' * (got != 1)}."
            )
        operands = [as_device_array(arg) if is_cuda_array(arg) else np.asarray(arg) for arg in given]
        signature = self._chosen(operands)
        loops, sizes = self._sizes(operands)
        arrays = [
            self._operand(operand, kind, names, loops)
            for operand, kind, names in zip(operands, signature.args, self._inputs, strict=False)
        ]
        results = []
        for at, names in enumerate(self._outputs):
            kind: Any = signature.args[n + at]
            results.append(device_array((*loops, *[sizes[name] for name in names]), kind.dtype.dtype))
        self._launch(arrays, results, loops)
        self._write_back(arrays, given)
        return self._returned(results, outs, _is_on_device((*given, *outs)))

    def _launch(self, arrays: Sequence[Array], results: Sequence[DeviceNDArray], loops: tuple[int, ...]) -> None:
        total = int(np.prod(loops, dtype=int))
        if not total:
            return
        flat = []
        for names, array in zip((*self._inputs, *self._outputs), (*arrays, *[r.array for r in results]), strict=True):
            flat.append(array.reshape((total, *array.shape[array.ndim - len(names) :])))
        kernel = self._kernel(tuple(bool(names) for names in self._inputs), len(self._outputs))
        kernel[-(-total // _BLOCK), _BLOCK](*flat)

    def _kernel(self, have_axes: tuple[bool, ...], n_outputs: int) -> Any:
        key = have_axes, n_outputs
        if key not in self._kernels:
            n = len(have_axes)
            kinds = self._signatures[0].args
            names = [f"x{k}" for k in range(n + n_outputs)]
            scalar = [not isinstance(kind, types.Array) for kind in kinds]
            parts = [
                f"{x}[i]" if scalar[k] or (k < n and have_axes[k]) else f"{x}[i:i + 1]" for k, x in enumerate(names)
            ]
            for k in range(n, n + n_outputs):
                parts[k] = f"{names[k]}[i]" if self._outputs[k - n] else f"{names[k]}[i:i + 1]"
            text = _GUFUNC.format(names=", ".join(names), parts=", ".join(parts))
            self._kernels[key] = jit(function_of_text(text, "kernel", {"grid": grid, "core": self.core}))
        return self._kernels[key]

    def _chosen(self, operands: Sequence[Any]) -> Signature:
        for casting in ("no", "safe", "same_kind"):
            for signature in self._signatures:
                if all(
                    np.can_cast(x.dtype, _element(kind), casting)
                    for x, kind in zip(operands, signature.args, strict=False)
                ):
                    return signature
        raise TypingError(f"{self.__name__} has no signature for {', '.join(str(x.dtype) for x in operands)}")

    def _sizes(self, operands: Sequence[Any]) -> tuple[tuple[int, ...], dict[str, int]]:
        """Returns the shape of the loops, and the lengths of the named axes."""
        sizes: dict[str, int] = {}
        loops = []
        for operand, names in zip(operands, self._inputs, strict=True):
            shape = tuple(operand.shape)
            if len(shape) < len(names):
                raise ValueError(f"{self.__name__} takes arrays of at least {len(names)} axes; got {len(shape)}")
            loops.append(shape[: len(shape) - len(names)])
            for name, length in zip(names, shape[len(shape) - len(names) :], strict=True):
                if sizes.setdefault(name, length) != length:
                    raise ValueError(f"the axis {name} has {sizes[name]} elements and {length}")
        return np.broadcast_shapes(*loops), sizes

    def _operand(self, operand: Any, kind: Any, names: tuple[str, ...], loops: tuple[int, ...]) -> Array:
        dtype = _element(kind)
        if is_cuda_array(operand):
            array = as_device_array(operand).array
            array = array if array.dtype == dtype else array.astype(dtype)
        else:
            array = to_device(np.ascontiguousarray(operand, dtype).reshape(operand.shape)).array
        return _broadcast(array, (*loops, *array.shape[array.ndim - len(names) :]))

    def _write_back(self, arrays: Sequence[Array], given: Sequence[Any]) -> None:
        """Copies arguments of the host back that the function writes."""
        for name in self._writable:
            at = name if isinstance(name, int) else self.core.definition.parameters.index(name)
            if isinstance(given[at], np.ndarray):
                arrays[at].read(given[at])

    def _returned(self, results: Sequence[DeviceNDArray], outs: Sequence[Any], on_device: bool) -> Any:
        final = []
        for at, result in enumerate(results):
            if not outs:
                final.append(result if on_device else result.copy_to_host())
            elif is_cuda_array(outs[at]):
                target = as_device_array(outs[at])
                target.copy_to_device(result)
                final.append(outs[at] if isinstance(outs[at], Array) else target)
            else:
                outs[at][...] = result.copy_to_host()
                final.append(outs[at])
        if outs:
            return None if len(final) > 1 else final[0]
        return final[0] if len(final) == 1 else tuple(final)


def _element(kind: Any) -> np.dtype[Any]:
    number: Any = kind.dtype if isinstance(kind, types.Array) else kind
    dtype: np.dtype[Any] = number.dtype
    return dtype


def guvectorize(
    ftylist: Any, signature: str = "", target: str = "cuda", writable_args: Sequence[Any] = (), **options: Any
) -> Callable[[Any], CUDAGUFunc]:
    """Makes a function of arrays of a function of their parts, whose axes `signature` names, as "(m,n),(n)->(m)"."""
    unknown = [name for name in options if name not in ("nopython", "cache", "identity", "fastmath")]
    if unknown:
        raise TypeError(f"The following target options are not supported: {', '.join(map(repr, unknown))}")
    if not options.get("nopython", True):
        raise TypeError("nopython flag must be True")
    given = [ftylist] if isinstance(ftylist, (str, Signature)) else ftylist
    signatures = [types.signature_of(one) for one in given]
    for one in signatures:
        if one.return_type != types.none:
            raise TypeError(
                f"guvectorized functions cannot return values: signature {one} specifies {one.return_type} return type"
            )
    return lambda function: CUDAGUFunc(function, signatures, signature, writable_args)
