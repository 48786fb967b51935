"""Programs of Inductor: the constants and the grid of a launch, which Inductor leaves to those who load its modules.

The decorators have the names and the arguments of `torch._inductor.runtime.triton_heuristics`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch._inductor.runtime import triton_heuristics

from vkcompute.blocks.compiler.types import dtype_of
from vkcompute.blocks.launching.launched import Launched
from vkcompute.blocks.launching.reinterpretation import TensorWrapper
from vkcompute.blocks.launching.tuning import Autotuner, Config
from vkcompute.compat.triton import language
from vkcompute.dtypes import as_dtype
from vkcompute.errors import KernelError
from vkcompute.torch.element_types import is_computed
from vkcompute.torch.storage import elements_from, runtime

_N_ELEMENTS = 256
"""Elements of a block."""
_TILE = 32
"""Most elements of a block along one of several axes."""
_MOST_ROWS = 8
"""Most rows of a block whose elements are added."""
_DTYPES = {"fp": "float", "bf": "bfloat", "i": "int", "u": "uint"}
"""Beginnings of names of dtypes, by Triton's."""
Constants = dict[str, Any]


class Program:
    """A program of a module that Inductor has written.

    Args:
        program: as made by `jit`.
        choices: constants of a launch; of several, the fastest are measured.
        triton_meta: Inductor's: types of the parameters, and values of some.
        inductor_meta: Inductor's: the kind of the grid, and the arguments that are written.
    """

    def __init__(self, program: Launched, choices: Sequence[Constants], triton_meta: Any, inductor_meta: Any) -> None:
        self.fn, self.__name__, self._inductor_meta = program, program.__name__, inductor_meta
        names = program.arg_names
        self._fixed = {
            key if isinstance(key, str) else names[key]: value for key, value in triton_meta["constants"].items()
        }
        passed = [name for name in names if all(name not in constants for constants in choices)]
        self._names = [*passed, *inductor_meta.get("extra_launcher_args", ())]
        self._parameters = passed
        self._constants = dict(choices[0]) if len(choices) == 1 else {}
        if len(choices) > 1:
            written = [name for name in inductor_meta.get("mutated_arg_names", ()) if name in names]
            configs = [Config(constants) for constants in choices]
            self.fn = Autotuner(program, names, configs, [name for name in passed if name.endswith("numel")],
                                restore_value=written)  # fmt: skip
        self._expected = _expected(triton_meta)
        self._grids: dict[tuple[Any, ...], Callable[[Any], Any]] = {}

    def compile(self) -> None:
        """Compiles the program for the arguments that Inductor expects, so that errors are raised before a launch.

        Raises:
            KernelError: the program does something that is not supported.
        """
        if self._constants:
            given = {**self._expected, **self._fixed}
            values = {name: given[name] for name in self._parameters}
            self.fn.warmup(grid=(1, 1, 1), **values, **self._constants)

    def run(self, *args: Any, stream: Any = None, **_: Any) -> None:
        """Launches the program on tensors and numbers."""
        given = {**self._fixed, **dict(zip(self._names, args, strict=True))}
        values = {name: _argument(given[name]) for name in self._parameters}

        def grid(named: Any) -> Any:
            return self._grid(named)({**given, **named})

        self.fn.run(grid=grid if not self._constants else grid(self._constants), **values, **self._constants)

    def _grid(self, constants: Mapping[str, Any]) -> Callable[[Any], Any]:
        """Returns a function that returns the grid for the arguments by name."""
        known = {name: value for name, value in constants.items() if name.isupper()}
        key = tuple(known.values())
        if key not in self._grids:
            self._grids[key] = _grid_function(self._inductor_meta, known)
        return self._grids[key]


def _argument(value: Any) -> Any:
    """Returns an argument of a launch: the memory from a tensor's first element on, or a number."""
    if not isinstance(value, torch.Tensor):
        return value
    if is_computed(value.dtype):
        return elements_from(value)
    return TensorWrapper(elements_from(value.view(torch.uint8)), dtype_of(value.dtype))


def _expected(triton_meta: Any) -> dict[str, Any]:
    """Returns arguments of the types that Inductor expects, by name."""
    known = triton_meta["configs"][0]  # with Triton installed, a table of the properties of parameters
    divisible = {at for (at,) in known} if isinstance(known, dict) else known.divisible_by_16
    values: dict[str, Any] = {}
    for at, (name, kind) in enumerate(triton_meta["signature"].items()):
        if kind.startswith("*fp8"):
            values[name] = TensorWrapper(_one("uint8"), getattr(language, kind.replace("*fp", "float")))
        elif kind.startswith("*"):
            letters = kind[1:].rstrip("0123456789")
            values[name] = _one("bool" if kind == "*i1" else _DTYPES[letters] + kind[1 + len(letters) :])
        elif kind != "constexpr":
            values[name] = 1.5 if kind.startswith("fp") else True if kind == "i1" else 16 if at in divisible else 17
    return values


def _one(dtype: str) -> Any:
    """Returns an array of one element."""
    return runtime().empty((1,), as_dtype(dtype))


def _grid_function(inductor_meta: Mapping[str, Any], constants: Mapping[str, int]) -> Callable[[Any], Any]:
    """Returns a function that returns the grid for the arguments by name."""
    expression = getattr(triton_heuristics, inductor_meta["grid_type"])(inductor_meta=inductor_meta, mode="python")
    expression.generate(dict(constants))
    lines = [*expression.prefix, f"grid = {expression.x_grid}, {expression.y_grid}, {expression.z_grid}"]
    code = compile("\n".join(lines), f"<grid of {inductor_meta.get('kernel_name', 'a program')}>", "exec")

    def grid(arguments: Mapping[str, Any]) -> Any:
        names = dict(arguments)
        exec(code, {}, names)
        return names["grid"]

    return grid


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


def reduction(size_hints: Any, triton_meta: Any, inductor_meta: Any = None, **_: Any) -> Any:
    """Returns a decorator of a program that passes over the elements of a reduction in blocks."""
    axes = dict(sorted(size_hints.items(), key=lambda axis: axis[0] in "xyz"))  # reductions first
    rows = dict.fromkeys("xyz", _MOST_ROWS)
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


def _is_tuned(inductor_meta: Any) -> bool:
    """True if the constants are to be measured."""
    meta = inductor_meta or {}
    return bool(meta.get("max_autotune") or meta.get("max_autotune_pointwise"))


def _decorator(choices: Sequence[Constants], triton_meta: Any, inductor_meta: Any) -> Callable[[Launched], Program]:
    different = [constants for at, constants in enumerate(choices) if constants not in choices[:at]]

    def decorate(program: Launched) -> Program:
        used = [
            {name: value for name, value in constants.items() if name in program.arg_names} for constants in different
        ]
        return Program(program, used, triton_meta, inductor_meta or {})

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
    **{
        name: _refused(name) for name in ("cooperative_reduction", "split_scan", "foreach", "template", "user_autotune")
    },
)
"""The decorators by name."""
