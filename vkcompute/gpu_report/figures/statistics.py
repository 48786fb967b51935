"""Statistics of the driver's compiler: registers, spills, occupancy and instructions of the library's kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import vkcompute as vc
from vkcompute.gpu_report.checks import kernels, numbers
from vkcompute.gpu_report.figures import rates
from vkcompute.gpu_report.items import Items, Session

_COMMON = "subgroup_size", "registers", "spills", "occupancy", "shared_nbytes", "scratch_nbytes", "instructions", \
          "latency"  # fmt: skip


def items() -> Items:
    """Returns the items by name."""
    python = {f"Python: {name}": partial(_of, make) for name, make in _KERNELS.items()}
    shaders = ("multiply_float32", "logistic_forward", "logistic_gradient")
    return python | {f"GLSL: {name}": partial(_of_shader, name) for name in shaders}


def _floats(gpu: vc.Runtime, *shape: int) -> vc.Array:
    return gpu.zeros(shape)


def _words(gpu: vc.Runtime, *shape: int) -> vc.Array:
    return gpu.zeros(shape, np.int32)


_KERNELS: Mapping[str, Callable[[vc.Runtime], tuple[Any, tuple[Any, ...]]]] = {
    "arithmetic": lambda gpu: (
        rates._multiply_and_add, (_floats(gpu, 64), _floats(gpu, 64), _floats(gpu, 1), 64)),
    "functions": lambda gpu: (vc.kernel(numbers.element_functions), (_floats(gpu, 64), _floats(gpu, 64, 12))),
    "fast functions": lambda gpu: (
        vc.kernel(fast_math=True)(numbers.element_functions), (_floats(gpu, 64), _floats(gpu, 64, 12))),
    "private arrays": lambda gpu: (kernels._sorted_rows, (_floats(gpu, 64, 8), _floats(gpu, 64, 8))),
    "loops": lambda gpu: (kernels._collatz, (_words(gpu, 64, 3),)),
    "vectors": lambda gpu: (kernels._rotated, (_words(gpu, 64, 4), _words(gpu, 64, 4), 3)),
}  # fmt: skip


def _of(make: Callable[[vc.Runtime], tuple[Any, tuple[Any, ...]]], session: Session) -> dict[str, Any]:
    """Returns the figures of a kernel in Python."""
    kernel, arguments = make(session.gpu)
    return _figures(kernel.statistics(*arguments, grid=1))


def _of_shader(name: str, session: Session) -> dict[str, Any]:
    """Returns the figures of a shader of the library."""
    constants: dict[int | str, int] = {0: 64} if name.startswith("multiply") else {}
    return _figures(session.gpu.kernel(name, constants=constants, check_types=False).statistics())


def _figures(statistics: Any) -> dict[str, Any]:
    common = {name: getattr(statistics, name) for name in _COMMON}
    own = {name: value for name, value in statistics.figures.items() if isinstance(value, (int, float))}
    return {name: value for name, value in common.items() if value is not None} | {"driver": own}
