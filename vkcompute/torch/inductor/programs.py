"""Programs of Inductor: the constants and the grid of a launch, which Inductor leaves to those who load its modules.

The decorators have the names and the arguments of `torch._inductor.runtime.triton_heuristics`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch._inductor.runtime import triton_heuristics
from torch._inductor.runtime.hints import ReductionHint

from vkcompute.blocks.launching.program import JITFunction
from vkcompute.blocks.launching.reinterpretation import TensorWrapper, reinterpret
from vkcompute.blocks.launching.tuning import Autotuner, Config
from vkcompute.compat.triton import language
from vkcompute.compiled.spilling_kernel import SpillingKernel
from vkcompute.dtypes import as_dtype
from vkcompute.errors import KernelError
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.tuning import tuning_of
from vkcompute.torch.element_types import is_computed
from vkcompute.torch.storage import elements_from, runtime

_N_ELEMENTS = 512
"""Elements of a block."""
_TILE = 32
"""Most elements of a block along one of several axes."""
_MOST_ROWS = 8
"""Most rows of a block whose elements are added."""
_MOST_COLUMNS = 64
"""Most columns of such a block, where those of a row are adjacent."""
_FEWEST_ROWS = 1
"""Rows of such a block on a CPU, whose invocations add up columns of their own. Sums of 4096 columns of 128 rows take
0.32 ms of CPU time on lavapipe so, and 0.61 with four rows.
"""
_DTYPES = {"fp": "float", "bf": "bfloat", "i": "int", "u": "uint"}
"""Beginnings of names of dtypes, by Triton's."""
Constants = dict[str, Any]


class Program:
    """A program of a module that Inductor has written.

    Args:
        program: as made by `jit`.
        choices: Inductor's configurations; if there are several, launches are timed and the fastest is kept.
        triton_meta: Inductor's: types of the parameters, and values of some.
        inductor_meta: Inductor's: the kind of the grid, and the arguments that are written.
    """

    def __init__(
        self, program: JITFunction, choices: Sequence[Constants], triton_meta: Any, inductor_meta: Any
    ) -> None:
        self._configurations = choices
        self._choices = [{name: choice[name] for name in choice if name in program.arg_names} for choice in choices]
        self.fn, self.__name__, self._inductor_meta = program, program.__name__, inductor_meta
        names = program.arg_names
        fixed = {key if isinstance(key, str) else names[key]: value for key, value in triton_meta["constants"].items()}
        self._passed = [name for name in names if name not in self._choices[0]]
        self._names = [*self._passed, *inductor_meta.get("extra_launcher_args", ())]
        self._known = {**_expected(triton_meta), **fixed}
        self._constants = dict(self._choices[0])
        self._fixed = fixed
        self._values = [{**self._constants, **fixed}.get(name) for name in names]
        self._positions = [(at, names.index(name)) for at, name in enumerate(self._passed) if name not in fixed]
        self._tuner = _tuner(program, self._choices, self._passed, inductor_meta) if len(choices) > 1 else None
        self._grids: dict[tuple[Any, ...], Any] = {}

    def compile(self) -> None:
        """Compiles the program for the arguments that Inductor expects, so that errors are raised before a launch.

        Raises:
            KernelError: the program does something that is not supported.
        """
        values = {name: self._known[name] for name in self._passed}
        self.fn.warmup(grid=(1, 1, 1), **values, **self._constants)

    def check(self, sizes: Sequence[int]) -> None:
        """Compiles the program for tensors of these sizes in bytes, if some launches would bind them by parts.

        Raises:
            ValueError: they take more bindings than the device has.
        """
        device = runtime().device
        most = device.physical.limits["maxPerStageDescriptorStorageBuffers"]
        if len(sizes) < most and max(sizes, default=0) < device.max_binding_bytes:
            return
        following = iter(sizes)
        values = {name: _enlarged(self._known[name], following) for name in self._passed}
        arrays = [value for value in values.values() if isinstance(value, Array)]
        kernel = self.fn.kernel(grid=(1, 1, 1), **values, **self._constants)
        if isinstance(kernel, SpillingKernel):
            kernel.check_packs(arrays)

    def run(self, *args: Any, stream: Any = None, **_: Any) -> None:
        """Launches the program on tensors and numbers."""
        if self._tuner is not None:
            self._tune(self._tuner, args)
            return
        sizes = tuple([arg for arg in args if not isinstance(arg, torch.Tensor)])
        grid = self._grids.get(sizes)
        if grid is None:
            grid = self._grids[sizes] = self._grid(self._constants, args)
        values = self._values.copy()
        for at, parameter in self._positions:  # of an argument, of its parameter
            values[parameter] = _argument(args[at])
        self.fn.run(*values, grid=grid)

    def _tune(self, tuner: Autotuner, args: tuple[Any, ...]) -> None:
        """Launches the program with the fastest constants."""
        values = {name: _argument(arg) for name, arg in zip(self._passed, args, strict=False)}
        values |= {name: value for name, value in self._fixed.items() if name in values}
        tuner.run(grid=lambda constants: self._grid(constants, args), **values)

    def _grid(self, constants: Mapping[str, Any], args: tuple[Any, ...]) -> Any:
        """Returns the grid for constants and arguments."""
        meta = self._inductor_meta
        grid = getattr(triton_heuristics, meta["grid_type"])(inductor_meta=meta, mode="python")
        chosen = self._choices.index({name: constants[name] for name in self._constants})
        grid.generate(self._configurations[chosen])
        names = {**self._known, **dict(zip(self._names, args, strict=True))}
        exec("\n".join([*grid.prefix, f"grid = {grid.x_grid}, {grid.y_grid}, {grid.z_grid}"]), {}, names)
        return names["grid"]


def _tuner(program: JITFunction, choices: Sequence[Constants], passed: Sequence[str], inductor_meta: Any) -> Autotuner:
    """Returns a program whose constants are measured, for each size of its arguments."""
    configs = [Config(constants) for constants in choices]
    sizes = [name for name in passed if name.endswith("numel")]
    written = [name for name in inductor_meta.get("mutated_arg_names", ()) if name in passed]
    return Autotuner(program, program.arg_names, configs, sizes, restore_value=written)


def _argument(value: Any) -> Any:
    """Returns an argument of a launch: the memory from a tensor's first element on, or a number."""
    if not isinstance(value, torch.Tensor):
        return value
    if is_computed(value.dtype):
        return elements_from(value)
    return reinterpret(elements_from(value.view(torch.uint8)), value.dtype)


def _expected(triton_meta: Any) -> dict[str, Any]:
    """Returns arguments of the types that Inductor expects, by name."""
    known = triton_meta["configs"][0]  # with Triton installed, a table of the properties of parameters
    divisible = {at for (at,) in known} if isinstance(known, dict) else known.divisible_by_16
    values: dict[str, Any] = {}
    for at, (name, kind) in enumerate(triton_meta["signature"].items()):
        if kind.startswith("*fp8"):
            values[name] = reinterpret(_one("uint8"), getattr(language, kind.replace("*fp", "float")))
        elif kind.startswith("*"):
            letters = kind[1:].rstrip("0123456789")
            values[name] = _one("bool" if kind == "*i1" else _DTYPES[letters] + kind[1 + len(letters) :])
        elif kind != "constexpr":
            values[name] = 1.5 if kind.startswith("fp") else True if kind == "i1" else 16 if at in divisible else 17
    return values


def _enlarged(value: Any, sizes: Iterator[int]) -> Any:
    """Returns an argument; of an array one with the next size in bytes, for a program that is not launched."""
    if isinstance(value, TensorWrapper):
        next(sizes, None)
    if not isinstance(value, Array):
        return value
    nbytes = next(sizes, 0)
    memory = runtime().empty((1,), value.dtype)  # of its own: the arrays of a launch have no common elements
    itemsize = value.dtype.itemsize
    return Array(memory.runtime, memory.buffer, memory.offset, (max(nbytes // itemsize, 1),), (itemsize,), value.dtype)


def _one(dtype: str) -> Any:
    """Returns an array of one element."""
    return runtime().empty((1,), as_dtype(dtype))


def _blocks(sizes: Mapping[str, int], most: Mapping[str, int], n: int) -> Constants:
    """Returns the lengths of a block along axes, the first of which is filled first.

    Args:
        sizes: the lengths of the axes, rounded up to powers of two, by their letters.
        most: the most elements of a block along an axis.
        n: the most elements of a block.
    """
    constants: Constants = {}
    for axis, size in sizes.items():
        length = min(size, n, most.get(axis, n))
        constants[f"{axis.upper()}BLOCK"] = length
        n //= length
    return constants


def pointwise(size_hints: Any, triton_meta: Any, inductor_meta: Any = None, **_: Any) -> Any:
    """Returns a decorator of a program without reductions."""
    tiled = [{}] if len(size_hints) == 1 else [dict.fromkeys(size_hints, _TILE), {}]
    ns = (_N_ELEMENTS, _N_ELEMENTS // 4) if _is_tuned(inductor_meta) else (_N_ELEMENTS,)
    choices = [_blocks(size_hints, most, n) for n in ns for most in (tiled if _is_tuned(inductor_meta) else tiled[:1])]
    return _decorator(choices, triton_meta, inductor_meta)


def reduction(
    size_hints: Any, triton_meta: Any, inductor_meta: Any = None, reduction_hint: Any = None, **_: Any
) -> Any:
    """Returns a decorator of a program that passes over the elements of a reduction in blocks."""
    is_along_x = reduction_hint == ReductionHint.OUTER  # adjacent elements are in different sums
    axes = dict(sorted(size_hints.items(), key=lambda axis: (axis[0] in "xyz") != is_along_x))
    rows = dict.fromkeys("xyz", _MOST_COLUMNS if is_along_x else _MOST_ROWS)
    if is_along_x and not tuning_of(runtime().device.physical).reduces_by_workgroups:
        rows |= {axis: _FEWEST_ROWS for axis in axes if axis[0] not in "xyz"}
    ns = (_N_ELEMENTS, _N_ELEMENTS // 4) if _is_tuned(inductor_meta) else (_N_ELEMENTS,)
    return _decorator([_blocks(axes, rows, n) for n in ns], triton_meta, inductor_meta)


def persistent_reduction(size_hints: Any, triton_meta: Any, inductor_meta: Any = None, **_: Any) -> Any:
    """Returns a decorator of a program with all elements of a reduction in a block."""
    n = _N_ELEMENTS // triton_heuristics.get_total_reduction_numel(size_hints)
    rows = {axis: size for axis, size in size_hints.items() if axis in "xyz"}
    split = (inductor_meta or {}).get("RSPLIT_SIZE")
    if split:  # each program adds the rows of several blocks, too
        length = min(split, max(n, 1), _MOST_ROWS)
        return _decorator([{"XBLOCK": length, "RSPLIT_SIZE": split, "NUM_STAGES": 1}], triton_meta, inductor_meta)
    mosts = (_MOST_ROWS, 1) if _is_tuned(inductor_meta) else (_MOST_ROWS,)
    choices = [_blocks(rows, dict.fromkeys("xyz", most), max(n, 1)) for most in mosts]
    return _decorator(choices, triton_meta, inductor_meta)


def fixed_config(config: Mapping[str, Any], filename: str, triton_meta: Any, inductor_meta: Any) -> Any:
    """Returns a decorator of a program whose constants Inductor has chosen."""
    constants = {name: value for name, value in config.items() if name.isupper()}
    return _decorator([constants], triton_meta, inductor_meta)


def template(triton_meta: Any, inductor_meta: Any = None, **_: Any) -> Any:
    """Returns a decorator of a program that Inductor has made of a template, with its constants in the text."""
    return _decorator([{}], triton_meta, inductor_meta)


def user_autotune(configs: Sequence[Constants], triton_meta: Any, inductor_meta: Any = None, **_: Any) -> Any:
    """Returns a decorator of a kernel of the user's, whose grid is passed."""

    def decorate(program: JITFunction) -> Program:
        names = [parameter.name for parameter in program.params if parameter.is_constexpr]
        known = {name: value for name, value in triton_meta["constants"].items() if name in names}
        return Program(program, [{**known, **config} for config in configs] or [known], triton_meta, inductor_meta)

    return decorate


def _is_tuned(inductor_meta: Any) -> bool:
    """True if the constants are to be measured."""
    meta = inductor_meta or {}
    return bool(meta.get("max_autotune") or meta.get("max_autotune_pointwise"))


def _decorator(choices: Sequence[Constants], triton_meta: Any, inductor_meta: Any) -> Callable[[JITFunction], Program]:
    different = [constants for at, constants in enumerate(choices) if constants not in choices[:at]]

    def decorate(program: JITFunction) -> Program:
        return Program(program, different, triton_meta, inductor_meta or {})

    return decorate


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **named: Any) -> Any:
        raise KernelError(f"programs of Inductor's kind {name} wait for other workgroups, or are for CUDA only")

    return refuse


HEURISTICS = SimpleNamespace(
    pointwise=pointwise,
    reduction=reduction,
    persistent_reduction=persistent_reduction,
    fixed_config=fixed_config,
    user_autotune=user_autotune,
    template=template,
    **{name: _refused(name) for name in ("cooperative_reduction", "split_scan", "foreach")},
)
"""The decorators by name."""
