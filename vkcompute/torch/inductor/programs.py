"""Programs of Inductor: the constants and the grid of a launch, which Inductor leaves to those who load its modules.

The decorators have the names and the arguments of `torch._inductor.runtime.triton_heuristics`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch._inductor.runtime import triton_heuristics

from vkcompute.blocks.launching.launched import Launched
from vkcompute.blocks.launching.tuning import Autotuner, Config
from vkcompute.errors import KernelError
from vkcompute.torch.storage import elements_from

_N_ELEMENTS = 256
"""Elements of a block."""
_TILE = 32
"""Most elements of a block along one of several axes."""
_MOST_ROWS = 8
"""Most rows of a block whose elements are added."""
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
        self._grids: dict[tuple[Any, ...], Callable[[Any], Any]] = {}

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
    return elements_from(value) if isinstance(value, torch.Tensor) else value


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
