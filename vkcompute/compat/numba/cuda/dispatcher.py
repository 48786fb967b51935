"""`cuda.jit`: kernels and device functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute.compat.numba import types
from vkcompute.compat.numba.cuda.device_array import DeviceNDArray, as_device_array, is_cuda_array, to_device
from vkcompute.compat.numba.errors import KernelRuntimeError, TypingError
from vkcompute.compat.numba.language import NumbaKernels
from vkcompute.compat.numba.types import Signature, Type
from vkcompute.compat.numba.typing_rules import numba_types
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.errors import KernelError
from vkcompute.frontend.source import definition_of
from vkcompute.jit.launcher import Launcher
from vkcompute.runtime.launching.launch_config import LaunchConfig
from vkcompute.runtime.memory.array import Array

_BY_POSITION = inspect.Parameter.POSITIONAL_ONLY
_MOST_PRINTS = 10_000
_RECORDED = "fastmath", "debug", "opt", "lineinfo", "max_registers", "cache", "inline", "link", "forceinline"
_PASSIVE = "launch_bounds", "lto", "extensions", "shared_memory_carveout", "nopython", "boundscheck"
_OPTIONS = {*_RECORDED, *_PASSIVE}


NO_PTX = "kernels are SPIR-V here, which has no PTX, LLVM code or SASS to inspect"


class Transfer:
    """An argument of the host with the directions in which it is copied."""

    to_device, to_host = True, True

    def __init__(self, value: Any) -> None:
        self.value = value


class In(Transfer):
    """An array that is copied to the device only."""

    to_host = False


class Out(Transfer):
    """An array that is copied to the host only."""

    to_device = False


class InOut(Transfer):
    """An array that is copied to the device and back."""


class Configured:
    """A kernel with the configuration of its launches."""

    def __init__(self, dispatcher: Dispatcher, griddim: Any, blockdim: Any, stream: Any, sharedmem: int) -> None:
        self.dispatcher, self.griddim, self.blockdim = dispatcher, griddim, blockdim
        self.stream, self.sharedmem = stream, sharedmem

    def __call__(self, *args: Any) -> None:
        self.dispatcher.launch(args, self.griddim, self.blockdim, self.sharedmem)


class ForAll:
    """A kernel with one thread per element."""

    def __init__(self, dispatcher: Dispatcher, ntasks: int, tpb: int, stream: Any, sharedmem: int) -> None:
        if ntasks < 0:
            raise ValueError(f"Can't create ForAll with negative task count: {ntasks}")
        self.dispatcher, self.ntasks, self.thread_per_block = dispatcher, ntasks, tpb
        self.stream, self.sharedmem = stream, sharedmem

    def __call__(self, *args: Any) -> None:
        if self.ntasks == 0:
            return
        size = self.thread_per_block or 128
        self.dispatcher[-(-self.ntasks // size), size, self.stream, self.sharedmem](*args)


class Dispatcher:
    """A function that `cuda.jit` compiles: a kernel, or a function that kernels call.

    Attributes:
        py_func: the function.
        definition: the same with its source; the compiler inlines it where a kernel calls it.
        signature_of_device_function: the signature with which it is called; None for any types.
        targetoptions: the options as they were given.
    """

    def __init__(self, function: FunctionType, signatures: Sequence[Signature], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.targetoptions = function, options
        self.definition = definition_of(function)
        self.signatures_given = tuple(signatures)
        self.is_device = bool(options.get("device"))
        one = signatures[0] if len(signatures) == 1 and self.is_device else None
        self.signature_of_device_function = one
        self._n = len(self.definition.parameters)
        self._launchers: dict[Any, Launcher] = {}
        self._seen: dict[tuple[Type, ...], None] = {signature.args: None for signature in signatures}

    def _launcher(self, structure: tuple[Any, ...], dynamic_bytes: int) -> Launcher:
        """Returns the launcher for tuples among the arguments, and for bytes of shared memory."""
        key = structure, dynamic_bytes
        if key not in self._launchers:
            options = CompileOptions(
                fast_math=bool(self.targetoptions.get("fastmath")), check_bounds=bool(self.targetoptions.get("debug"))
            )
            chosen = {"structure": structure, "dynamic_bytes": dynamic_bytes}
            language: Any = type("NumbaKernels", (NumbaKernels,), chosen)
            names = language.parameters(self.definition.parameters)
            parameters = inspect.Signature(
                [inspect.Parameter(name.replace(".", "_"), _BY_POSITION) for name in names]
            )
            language.__qualname__ = f"NumbaKernels {key}"
            self._launchers[key] = Launcher(
                self.definition, parameters, options, _MOST_PRINTS, numba_types, language
            )
        return self._launchers[key]

    # -- configuration ------------------------------------------------------------------------------------------------

    def __getitem__(self, given: Any) -> Configured:
        if not isinstance(given, tuple) or not 2 <= len(given) <= 4:
            raise ValueError("must specify at least the griddim and blockdim")
        griddim, blockdim, stream, sharedmem = (*given, 0, 0)[:4] if len(given) < 4 else given
        return self.configure(griddim, blockdim, stream, sharedmem)

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Configured:
        """Returns the kernel with a configuration."""
        grid, block = _sizes("griddim", griddim), _sizes("blockdim", blockdim)
        return Configured(self, grid, block, stream, sharedmem)

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> ForAll:
        """Returns the kernel with one thread for each of `ntasks` elements."""
        return ForAll(self, ntasks, tpb, stream, sharedmem)

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self.is_device:
            raise RuntimeError(f"{self.__name__} is a device function; call it in a kernel")
        raise ValueError(
            "Kernel launch configuration was not specified. Use the syntax:\n\nkernel_function[blockspergrid, "
            "threadsperblock](arg0, arg1, ..., argn)\n"
        )

    # -- launches -----------------------------------------------------------------------------------------------------

    def launch(self, args: Sequence[Any], grid: Any, block: Any, sharedmem: int = 0) -> None:
        """Launches the kernel; returns immediately, unless an argument is copied to the host."""
        if len(args) != self._n:
            raise TypeError(f"{self.__name__} takes {self._n} arguments; got {len(args)}")
        if self.is_device:
            raise RuntimeError("cannot launch a device function")
        back: list[tuple[DeviceNDArray, Any]] = []
        kinds = self._chosen(args)
        wanted = kinds or (None,) * self._n
        forms = tuple(map(_form, args)) if any(isinstance(arg, tuple) for arg in args) else ()
        given = [
            _argument(part, kind, back) for arg, kind in zip(args, wanted, strict=True) for part in _parts(arg)
        ]
        try:
            self._launcher(forms, int(sharedmem))(LaunchConfig(grid, block), tuple(given), {})
        except KernelError as error:
            raise _translated(error) from None
        for device, host in back:
            device.array.read(host)

    def _chosen(self, args: Sequence[Any]) -> tuple[Type, ...] | None:
        """Returns the types of the signature that a launch takes; None for those of the arguments."""
        if not self.signatures_given:
            return None
        for signature in self.signatures_given:
            if len(signature.args) == len(args) and all(map(_accepts, signature.args, args)):
                return signature.args
        got = ", ".join(str(_typeof(arg)) for arg in args)
        raise TypeError(f"No matching definition for argument type(s) {got}")

    def typeof_pyval(self, value: Any) -> Type:
        """Returns the type of an argument."""
        return _typeof(value)

    # -- inspection ---------------------------------------------------------------------------------------------------

    @property
    def signatures(self) -> list[tuple[Type, ...]]:
        """The types of the arguments with which it was declared."""
        return list(self._seen)

    def inspect_asm(self, signature: Any = None) -> Any:
        """Raises: there is no PTX; `vc.kernel` has `assembly()`."""
        raise NotImplementedError(NO_PTX)

    inspect_lto_ptx = inspect_llvm = inspect_sass = inspect_sass_cfg = inspect_asm

    def specialize(self, *args: Any) -> Dispatcher:
        """Returns the kernel for the types of these arguments."""
        signature = Signature(types.none, [_typeof(arg) for arg in args])
        return Dispatcher(self.py_func, [signature], self.targetoptions)

    @property
    def specialized(self) -> bool:
        """True for a kernel with signatures."""
        return bool(self.signatures_given)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self.__call__, instance)

    def __repr__(self) -> str:
        return f"<{'device function' if self.is_device else 'kernel'} {self.__name__}>"


CUDADispatcher = Dispatcher


def _translated(error: KernelError) -> Exception:
    """Returns Numba's exception for an error of the compiler, or of the device."""
    return KernelRuntimeError(str(error)) if ", in invocation" in str(error) else TypingError(str(error))


def _sizes(name: str, given: Any) -> tuple[int, int, int]:
    """Returns the sizes of a grid or a block along x, y and z."""
    sizes = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{name} must be a sequence of 1, 2 or 3 integers, got {given!r}")
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise TypeError(f"{name} must be a sequence of integers, got {given!r}")
    if any(size < 1 for size in sizes):
        raise ValueError(f"{name} has no {'block' if name == 'griddim' else 'thread'}: {given!r}")
    x, y, z = (*map(int, sizes), 1, 1)[:3]
    return x, y, z


def _form(arg: Any) -> Any:
    """Returns (class, forms of the parts) of a tuple; None for another argument."""
    if not isinstance(arg, tuple):
        return None
    return (type(arg) if hasattr(arg, "_fields") else tuple), tuple(map(_form, arg))


def _parts(arg: Any) -> Iterator[Any]:
    """Yields the parts of a tuple, those of tuples in it included; else the argument."""
    if not isinstance(arg, tuple):
        yield arg
        return
    for part in arg:
        yield from _parts(part)


def _argument(arg: Any, kind: Type | None, back: list[tuple[DeviceNDArray, Any]]) -> Any:
    """Returns an argument as the compiler takes it; notes arrays of the host that are copied back."""
    transfer = arg if isinstance(arg, Transfer) else None
    value = transfer.value if transfer is not None else arg
    if isinstance(value, DeviceNDArray):
        return value.array
    if isinstance(value, Array):
        return value
    if isinstance(value, np.ndarray):
        device = to_device(value, copy=transfer is None or transfer.to_device)
        if transfer is None or transfer.to_host:
            if value.flags.writeable:
                back.append((device, value))
        return device.array
    if is_cuda_array(value):
        return as_device_array(value).array
    return _number(value, kind)


def _number(value: Any, kind: Type | None) -> Any:
    """Returns a number as NumPy's scalar of its type in kernels."""
    if isinstance(kind, types.Number):
        return np.asarray(value).astype(kind.dtype)[()]
    if isinstance(value, (bool, np.bool_)):
        return np.bool_(value)
    if isinstance(value, np.generic) or value is None:
        return value
    if isinstance(value, int):
        return np.int64(value) if -(2**63) <= value < 2**63 else np.uint64(value)
    if isinstance(value, (float, complex)):
        return np.float64(value) if isinstance(value, float) else np.complex128(value)
    raise TypingError(f"kernels take arrays and numbers; got {type(value).__name__}")


def _typeof(value: Any) -> Type:
    return types.typeof(value.value if isinstance(value, Transfer) else value)


def _accepts(kind: Type, value: Any) -> bool:
    """True if an argument is taken for a type of a signature: numbers are converted, arrays are not."""
    given = _typeof(value)
    if isinstance(kind, types.Array):
        alike = isinstance(given, types.Array) and (given.dtype, given.ndim) == (kind.dtype, kind.ndim)
        return alike and kind.layout in ("A", given.layout)
    return isinstance(kind, types.Number) and isinstance(given, types.Number) or kind == given


def jit(
    func_or_sig: Any = None, device: bool = False, inline: Any = "never", signature: Any = None, **options: Any
) -> Any:
    """Compiles a function as a kernel, or, with `device=True`, as a function that kernels call.

    Args:
        func_or_sig: the function; or a signature, or a list of these.
        options: `fastmath` and `debug` have their meaning; others are taken, and have none here.
    """
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise TypeError(f"Unrecognized options: {', '.join(unknown)}; cuda.jit takes {', '.join(sorted(_OPTIONS))}")
    if isinstance(func_or_sig, Dispatcher):
        return func_or_sig
    kept = {**options, "device": device, "inline": inline}
    if isinstance(func_or_sig, FunctionType):
        return Dispatcher(func_or_sig, (), kept)
    given = signature if func_or_sig is None else func_or_sig
    signatures = [] if given is None else list(_signatures(given))
    for one in signatures:
        if one.return_type != types.none and not device:
            raise TypeError("CUDA kernel must have void return type.")
    return functools.partial(_made, signatures, kept)


def _made(signatures: Sequence[Signature], options: dict[str, Any], function: Any) -> Dispatcher:
    return Dispatcher(getattr(function, "py_func", function), signatures, options)


def _signatures(given: Any) -> Iterator[Signature]:
    for one in given if isinstance(given, list) else [given]:
        yield types.signature_of(one)
