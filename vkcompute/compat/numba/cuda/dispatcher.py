"""`cuda.jit`: kernels and device functions."""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute.compat.numba import config, simulation, types
from vkcompute.compat.numba.cuda import resources
from vkcompute.compat.numba.cuda.arguments import (
    argument,
    check_writes,
    compiled_kind,
    is_like,
    is_safe,
    is_same,
    on_host,
    type_of_argument,
)
from vkcompute.compat.numba.cuda.arrays import as_device_array, forgive, form_of
from vkcompute.compat.numba.cuda.device_globals import device_globals
from vkcompute.compat.numba.cuda.devices import get_current_device
from vkcompute.compat.numba.cuda.repeated_launches import MOST_KEPT, Repeated, key_of, steps_of
from vkcompute.compat.numba.errors import (
    KernelRuntimeError,
    NumbaInvalidConfigWarning,
    NumbaPerformanceWarning,
    NumbaTypeError,
    TypingError,
    in_words_of_numba,
)
from vkcompute.compat.numba.folded_grids import FoldedGrid
from vkcompute.compat.numba.language import RAISED, CooperativeError, NumbaKernels
from vkcompute.compat.numba.types import Signature, Type
from vkcompute.compat.numba.typing_rules import numba_types
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.errors import KernelError
from vkcompute.frontend.source import definition_of
from vkcompute.ir import WARP_SIZE
from vkcompute.jit.compilation.build import build
from vkcompute.jit.frontend.values_needed import ValuesNeededError
from vkcompute.jit.launcher import Launcher
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.runtime.launching.launch_config import LaunchConfig
from vkcompute.runtime.memory.array import Array

_BY_POSITION = inspect.Parameter.POSITIONAL_ONLY
_MOST_PRINTS = 10_000
_SMALL_GRID = 128
_RAISED = re.compile(rf"^(.*?):(\d+):\d+: (\w+){RAISED}(.*), in invocation \((.*?)\)", re.MULTILINE)
_RECORDED = "fastmath", "debug", "opt", "lineinfo", "max_registers", "cache", "inline", "link", "forceinline"
_PASSIVE = "launch_bounds", "lto", "extensions", "shared_memory_carveout", "nopython", "boundscheck"
_OPTIONS = {*_RECORDED, *_PASSIVE}


NO_PTX = "kernels are SPIR-V here, which has no SASS or linked PTX to inspect; inspect_asm() has their operations"


class _OfOneBlock(NumbaKernels):
    """Numba's language for a kernel that is only checked: the launch gives its grid."""

    is_cooperative = has_one_block = True


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
        cooperative: True for a kernel that is known to ask for its grid.
        device_signatures: of a device function, those with which it is called; none for any types.
        targetoptions: the options as they were given.
    """

    __name__: str

    def __init__(self, function: FunctionType, signatures: Sequence[Signature], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.targetoptions = function, options
        self.is_device = bool(options.get("device"))
        self.definition = definition_of(function, takes_rest=self.is_device)
        self.signatures_given = tuple(signatures)
        self.extensions = list(options.get("extensions") or ())
        self.device_signatures = tuple(signatures) if self.is_device else ()
        self._n = len(self.definition.parameters)
        self._launchers: dict[Any, Launcher] = {}
        self._configured: BoundedCache[Any, Configured] = BoundedCache(MOST_KEPT)
        self._repeated: BoundedCache[Any, Repeated] = BoundedCache(MOST_KEPT)
        self._keys: set[Any] = set()
        self.cooperative = "this_grid" in function.__code__.co_names
        self.specializations: dict[tuple[Type, ...], Dispatcher] = {}
        self._seen: dict[tuple[Type, ...], None] = {signature.args: None for signature in signatures}

    def _launcher(self, dynamic_bytes: int, grid: FoldedGrid, *, is_folded: bool) -> Launcher:
        """Returns the launcher for bytes of shared memory and a grid."""
        has_one_block = self.cooperative and (grid.n_blocks == 1 or is_folded)
        key = dynamic_bytes, self.cooperative, has_one_block, repr(grid) if is_folded else ""
        if key not in self._launchers:
            options = CompileOptions(
                fast_math=bool(self.targetoptions.get("fastmath")), check_bounds=bool(self.targetoptions.get("debug"))
            )
            chosen = {
                "device_globals": self._device_globals,
                "dynamic_bytes": dynamic_bytes,
                "is_cooperative": self.cooperative,
                "has_one_block": has_one_block,
                "folded": grid if is_folded else None,
                "checks_divisors": options.check_bounds and not options.fast_math,
            }
            language: Any = type("NumbaKernels", (NumbaKernels,), chosen)
            names = [*self.definition.parameters, *[f"global_{n}" for n in range(len(self._device_globals))]]
            parameters = inspect.Signature([inspect.Parameter(name, _BY_POSITION) for name in names])
            language.__qualname__ = f"NumbaKernels {key}"
            self._launchers[key] = Launcher(self.definition, parameters, options, _MOST_PRINTS, numba_types, language)
        return self._launchers[key]

    @functools.cached_property
    def _device_globals(self) -> tuple[Any, ...]:
        """Arrays of the device that it names, as they are at the first launch."""
        return tuple(device_globals(self.py_func))

    # -- configuration ------------------------------------------------------------------------------------------------

    def __getitem__(self, given: Any) -> Configured:
        if not isinstance(given, tuple) or not 2 <= len(given) <= 4:
            raise ValueError("must specify at least the griddim and blockdim")
        if type(given[0]) is not int or type(given[1]) is not int or len(given) > 2:
            return self.configure(*given)
        configured = self._configured.get(given)
        if configured is None:
            configured = self._configured[given] = self.configure(*given)
        return configured

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Configured:
        """Returns the kernel with a configuration."""
        grid, block = _sizes("griddim", griddim), _sizes("blockdim", blockdim)
        return Configured(self, grid, block, stream, sharedmem)

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> ForAll:
        """Returns the kernel with one thread for each of `ntasks` elements."""
        return ForAll(self, ntasks, tpb, stream, sharedmem)

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self.is_device and simulation.current() is not None:
            return self.py_func(*args, **named)
        if self.is_device:
            raise RuntimeError(f"{self.__name__} is a device function; call it in a kernel")
        raise ValueError(
            "Kernel launch configuration was not specified. Use the syntax:\n\nkernel_function[blockspergrid, "
            "threadsperblock](arg0, arg1, ..., argn)\n"
        )

    # -- launches -----------------------------------------------------------------------------------------------------

    def launch(self, args: Sequence[Any], grid: Any, block: Any, sharedmem: int = 0) -> None:
        """Launches the kernel; returns immediately, unless an argument is copied to the host."""
        if config.ENABLE_CUDASIM:
            with on_host(args) as hosts:
                simulation.simulate(self.py_func, hosts, grid, block, int(sharedmem))
            return
        key = grid, block, sharedmem, *map(key_of, args)
        repeated = self._repeated.get(key)
        if repeated is None or not repeated(args):
            self._launch(key, args, grid, block, int(sharedmem))

    def _launch(self, key: Any, args: Sequence[Any], grid: Any, block: Any, sharedmem: int) -> None:
        """Launches the kernel, and keeps the steps for launches with the same key."""
        if len(args) != self._n:
            raise TypeError(f"{self.__name__} takes {self._n} arguments; got {len(args)}")
        if self.is_device:
            raise RuntimeError("Cannot compile a device function as a kernel")
        back, frozen = list[tuple[Any, Any]](), list[Any]()
        for extension in reversed(self.extensions):
            args = [extension.prepare_args(type_of_argument(arg), arg, stream=0, retr=[])[1] for arg in args]
        kinds = self._chosen(args)
        wanted = kinds or (None,) * self._n
        self._warn(args, grid)
        forms, given = list[Any](), list[Any]()
        for arg, kind in zip(args, wanted, strict=True):
            leaves: list[Any] = []
            forms.append(form_of(arg, leaves))
            given += [argument(leaf, kind, back, frozen) for leaf in leaves]
        forms += [None] * len(self._device_globals)
        given += [as_device_array(array).array for array in self._device_globals]
        try:
            future = self._launched(tuple(forms), sharedmem, LaunchConfig(grid, block), tuple(given), frozen)
            if self.targetoptions.get("debug"):
                future.result()
        except KernelError as error:
            for array in given:
                if isinstance(array, Array):
                    forgive(array)
            raise self._translated(error, block) from None
        if not self.signatures_given:
            self._note(args)
        for device, host in back:
            device.copy_to_host(host)
        is_plain = len(given) == self._n and not (any(forms) or self.extensions or self.cooperative)
        if is_plain and not self.targetoptions.get("debug"):
            steps = steps_of(args, given, is_typed=kinds is not None)
            if steps is not None:
                launcher = self._launchers[sharedmem, False, False, ""]
                self._repeated[key] = Repeated(launcher, LaunchConfig(grid, block), steps)

    def _launched(self, forms: Any, sharedmem: int, config: LaunchConfig, given: tuple[Any, ...], frozen: Any) -> Any:
        """Launches the kernel, unless it writes frozen arrays; again if it turns out to be a cooperative one."""
        grid = FoldedGrid(config.groups or (1, 1, 1), config.local_size or (1, 1, 1))
        is_folded = self.cooperative and grid.n_blocks > 1 and grid.fits(get_current_device().MAX_THREADS_PER_BLOCK)
        if is_folded:
            config = LaunchConfig((1, 1, 1), (grid.n_blocks * grid.n_threads, 1, 1))
        try:
            launcher = self._launcher(sharedmem, grid, is_folded=is_folded)
            launcher = launcher.of_leaves(forms) if any(forms) else launcher
            if frozen:
                check_writes(launcher.kernel(config, {}, given), given, frozen)
            return launcher(config, given, {})
        except CooperativeError:
            if self.cooperative:
                raise
            self.cooperative = True
        return self._launched(forms, sharedmem, config, given, frozen)

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """Returns the most blocks of a grid that waits in one workgroup; launches of larger grids are divided."""
        n_threads = math.prod(_sizes("blockdim", blockdim))
        return max(get_current_device().MAX_THREADS_PER_BLOCK // n_threads, 1) if n_threads % WARP_SIZE == 0 else 1

    def _warn(self, args: Sequence[Any], grid: tuple[int, int, int]) -> None:
        """Warns of arrays of the host and of small grids, as Numba does, unless its options say otherwise."""
        if config.CUDA_LOW_OCCUPANCY_WARNINGS and math.prod(grid) < _SMALL_GRID:
            text = f"Grid size {math.prod(grid)} will likely result in GPU under-utilization due to low occupancy."
            warnings.warn(NumbaPerformanceWarning(text), stacklevel=4)
        if config.CUDA_WARN_ON_IMPLICIT_COPY and any(isinstance(arg, np.ndarray) for arg in args):
            text = "Host array used in CUDA kernel will incur copy overhead to/from device."
            warnings.warn(NumbaPerformanceWarning(text), stacklevel=4)

    def _chosen(self, args: Sequence[Any]) -> tuple[Type, ...] | None:
        """Returns the types of the signature that a launch takes; None for those of the arguments."""
        if not self.signatures_given:
            return None
        levels = (is_like,) if len(self.signatures_given) == 1 else (is_same, is_safe)
        given = [type_of_argument(arg) for arg in args]
        for accepts in levels:
            for signature in self.signatures_given:
                if len(signature.args) == len(args) and all(map(accepts, signature.args, given)):
                    return signature.args
        raise TypeError(f"No matching definition for argument type(s) {', '.join(map(str, given))}")

    def _note(self, args: Sequence[Any]) -> None:
        """Notes the types of the arguments, for `overloads`."""
        key = tuple([(getattr(arg, "dtype", type(arg)), getattr(arg, "ndim", 0)) for arg in args])
        if key not in self._keys:
            self._keys.add(key)
            with contextlib.suppress(NumbaTypeError):
                self._seen[tuple(map(type_of_argument, args))] = None

    def _translated(self, error: KernelError, block: tuple[int, int, int] = (1, 1, 1)) -> Exception:
        """Returns Numba's exception for an error of the compiler, or of the device."""
        text = in_words_of_numba(str(error))
        if (raised := _RAISED.search(text)) is None:
            if "calls itself" in text:
                text = f"cannot type infer runaway recursion: {text}"
            return KernelRuntimeError(text) if ", in invocation" in text else TypingError(text)
        file, line, name, message, place = raised.groups()
        ids = [int(part) for part in place.split(",")]
        tid, ctaid = (
            [n % size for n, size in zip(ids, block, strict=True)],
            [n // size for n, size in zip(ids, block, strict=True)],
        )
        where = f"In function {self.__name__!r}, file {file}, line {line}"
        shown = f"{where}\ntid={tid} ctaid={ctaid}" + (f": {message}" if message else "")
        names = {**vars(builtins), **inspect.getclosurevars(self.py_func).nonlocals, **self.py_func.__globals__}
        kind = names.get(name)
        return kind(shown) if isinstance(kind, type) and issubclass(kind, Exception) else KernelRuntimeError(shown)

    def check(self, signature: Signature) -> None:
        """Builds the function for a signature, to find what kernels do not support.

        Raises:
            TypingError: there is something.
        """
        kinds = [compiled_kind(given) for given in signature.args]
        if self.is_device or None in kinds or len(kinds) != self._n:
            return
        with contextlib.suppress(ValuesNeededError):
            self._built(kinds)

    def result_type(self, kinds: Sequence[Type]) -> np.dtype[Any]:
        """Returns the type of the number that the kernel gives to `note_result`, for arguments of these types."""
        result = self._built([compiled_kind(given) for given in kinds]).result
        if result is None:
            raise TypingError(f"{self.__name__} returns no number")
        return result

    def _built(self, kinds: Sequence[Any]) -> NumbaKernels:
        """Returns the compiler that has built the kernel for arguments of these types."""
        try:
            language: Any = type("NumbaKernels", (_OfOneBlock,), {"device_globals": self._device_globals})
            further = [compiled_kind(types.typeof(as_device_array(array))) for array in self._device_globals]
            options = CompileOptions((64, 1, 1))
            kernel: NumbaKernels = build(language, self.definition, (*kinds, *further), options, numba_types)
        except ValuesNeededError:
            raise
        except KernelError as error:
            raise self._translated(error) from None
        return kernel

    def typeof_pyval(self, value: Any) -> Type:
        """Returns the type of an argument."""
        return type_of_argument(value)

    # -- inspection ---------------------------------------------------------------------------------------------------

    @property
    def signatures(self) -> list[tuple[Type, ...]]:
        """The types of the arguments with which it was declared."""
        return list(self._seen)

    def inspect_llvm(self, signature: Any = None) -> Any:
        """Returns the operations of the kernel as text; without a signature, a dict of those of all that were launched.

        They are ours: the form between Python and SPIR-V, which takes the place of LLVM's.
        """
        return self._measured(signature, resources.operations)

    def inspect_asm(self, signature: Any = None) -> Any:
        """Returns the operations after our optimizations, which take the place of PTX, as `inspect_llvm`."""
        return self._measured(signature, resources.optimized_operations)

    def inspect_types(self, file: Any = None) -> None:
        """Prints the source, and the typed operations for all signatures with which it was launched."""
        for args in self._seen:
            shown = self.inspect_llvm(Signature(types.none, args))
            source = inspect.getsource(self.py_func)
            print(f"{self.__name__} {args}", "-" * 80, source, shown, "=" * 80, sep="\n", file=file)

    def inspect_sass(self, signature: Any = None) -> Any:
        """Raises: there is neither PTX nor SASS."""
        raise NotImplementedError(NO_PTX)

    inspect_lto_ptx = inspect_sass_cfg = inspect_sass

    def get_shared_mem_per_block(self, signature: Any = None) -> Any:
        """Returns the bytes of shared arrays; without a signature, a dict of those of all that were launched."""
        return self._measured(signature, lambda kernel: resources.shared_bytes(kernel.function))

    def get_local_mem_per_thread(self, signature: Any = None) -> Any:
        """Returns the bytes of local arrays, as `get_shared_mem_per_block`."""
        return self._measured(signature, lambda kernel: resources.local_bytes(kernel.function))

    def get_const_mem_size(self, signature: Any = None) -> Any:
        """Returns the bytes of constant arrays, as `get_shared_mem_per_block`."""
        return self._measured(signature, lambda kernel: resources.constant_bytes(kernel.tables))

    def get_max_threads_per_block(self, signature: Any = None) -> Any:
        """Returns the most threads of a block on the device, as `get_shared_mem_per_block`."""
        most = get_current_device().MAX_THREADS_PER_BLOCK
        return self._measured(signature, lambda kernel: most)

    def _measured(self, signature: Any, measure: Callable[[NumbaKernels], Any]) -> Any:
        """Returns a figure or a text of the kernel for a signature, or by signature for all that were launched."""
        if signature is None and not self.signatures_given:
            return {args: self._measured(Signature(types.none, args), measure) for args in self._seen}
        given = types.signature_of(signature) if signature is not None else self.signatures_given[0]
        return measure(self._built([compiled_kind(kind) for kind in given.args]))

    @property
    def overloads(self) -> dict[tuple[Type, ...], Dispatcher]:
        """The kernel, by the types with which it was declared or launched."""
        return dict.fromkeys(self._seen, self)

    def specialize(self, *args: Any) -> Dispatcher:
        """Returns the kernel for the types of these arguments, or for these types.

        Raises:
            RuntimeError: it is specialized already.
        """
        if self.signatures_given:
            raise RuntimeError("Dispatcher already specialized")
        kinds = tuple([arg if isinstance(arg, Type) else type_of_argument(arg) for arg in args])
        if kinds not in self.specializations:
            signature = Signature(types.none, kinds)
            self.specializations[kinds] = Dispatcher(self.py_func, [signature], self.targetoptions)
        return self.specializations[kinds]

    @property
    def specialized(self) -> bool:
        """True for a kernel with signatures."""
        return bool(self.signatures_given)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self.__call__, instance)

    def __repr__(self) -> str:
        return f"<{'device function' if self.is_device else 'kernel'} {self.__name__}>"


CUDADispatcher = Dispatcher


def _sizes(name: str, given: Any) -> tuple[int, int, int]:
    """Returns the sizes of a grid or a block along x, y and z."""
    sizes = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{name} must be a sequence of 1, 2 or 3 integers, got {[*sizes]!r}")
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise TypeError(f"{name} must be a sequence of integers, got {[*sizes]!r}")
    if any(size < 1 for size in sizes):
        raise ValueError(f"{name} has no {'block' if name == 'griddim' else 'thread'}: {given!r}")
    x, y, z = (*map(int, sizes), 1, 1)[:3]
    return x, y, z


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
    if options.get("debug") and options.get("opt", True):
        warnings.warn(
            NumbaInvalidConfigWarning(
                "debug=True with opt=True (the default) is not supported by CUDA. This may result in a crash - set "
                "debug=False or opt=False."
            ),
            stacklevel=2,
        )
    resources.check_options(options)
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
    made = Dispatcher(getattr(function, "py_func", function), signatures, options)
    for signature in signatures:
        made.check(signature)
    return made


def _signatures(given: Any) -> Iterator[Signature]:
    for one in given if isinstance(given, list) else [given]:
        yield types.signature_of(one)
