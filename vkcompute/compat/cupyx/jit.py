"""Kernels in Python, as `cupyx.jit.rawkernel`: their names of CUDA are replaced, and the rest is a `vc.kernel`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NoReturn

from vkcompute.compat.cupy.arrays import ndarray
from vkcompute.frontend.syntax import parse, parse_expression
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library import atomic, ids, warp, workgroup

_AXES = "xyz"
_IDS = {"threadIdx": "local_id", "blockIdx": "group_id", "blockDim": "local_size", "gridDim": "num_groups"}
_CALLS = {
    "syncthreads": "workgroup.barrier", "syncwarp": "warp.barrier", "laneid": "warp.local_id",
    "atomic_add": "atomic.add", "atomic_min": "atomic.min", "atomic_max": "atomic.max",
    "atomic_and": "atomic.and_", "atomic_or": "atomic.or_",
    "atomic_xor": "atomic.xor", "atomic_exch": "atomic.exchange", "atomic_cas": "atomic.compare_exchange",
}  # fmt: skip
_SHUFFLES = {
    "shfl_sync": "shuffle", "shfl_up_sync": "shuffle_up", "shfl_down_sync": "shuffle_down",
    "shfl_xor_sync": "shuffle_xor",
}  # fmt: skip


class _Name:
    """A name that has a meaning in kernels only."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **named: Any) -> NoReturn:
        """Raises RuntimeError: it is called outside of a kernel."""
        raise RuntimeError(f"jit.{self.name} is called in kernels only")

    def __repr__(self) -> str:
        return f"<cupyx.jit {self.name}>"


_NAMES = {name: _Name(name) for name in (*_IDS, *_CALLS, *_SHUFFLES, "atomic_sub", "grid", "gridsize", "range",
                                         "shared_memory", "warpsize")}  # fmt: skip


class _Replacement(ast.NodeTransformer):
    """Replaces CUDA's names in the syntax tree of a kernel.

    Args:
        scope: the values of names outside of the kernel.
    """

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._scope = scope

    def _name_of(self, node: ast.expr) -> str | None:
        """Returns CUDA's name that an expression is; None for others."""
        value = self._value_of(node)
        return value.name if isinstance(value, _Name) else None

    def _value_of(self, node: ast.expr) -> Any:
        """Returns the value of a name, or of one in a module, as `cupyx.jit.grid`; None for other expressions."""
        if isinstance(node, ast.Attribute):
            return getattr(self._value_of(node.value), node.attr, None)
        return self._scope.get(node.id) if isinstance(node, ast.Name) else None

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replaces ids, as `threadIdx.x`."""
        name = self._name_of(node.value)
        if name in _IDS and node.attr in _AXES:
            return _parsed(f"_ids.{_IDS[name]}({_AXES.index(node.attr)})")
        if self._name_of(node) == "warpsize":
            return _parsed("_warp.size()")
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Replaces calls."""
        name = self._name_of(node.func)
        self.generic_visit(node)
        args = [ast.unparse(arg) for arg in node.args]
        text = ", ".join(args)
        if name in _CALLS:
            return _parsed(f"_{_CALLS[name]}({text})")
        if name == "atomic_sub":
            return _parsed(f"_atomic.add({args[0]}, {args[1]}, -({args[2]}))")
        if name in _SHUFFLES:
            return _parsed(f"_warp.{_SHUFFLES[name]}({args[1]}, {args[2]})")
        if name == "shared_memory":
            return _parsed(f"_workgroup.shared({args[1]}, {args[0]})")
        if name == "range":
            return _parsed(f"range({text})")
        if name in ("grid", "gridsize"):
            return _grid(int(ast.literal_eval(node.args[0])), name)
        return node


def _parsed(text: str) -> ast.expr:
    return parse_expression(text)


def _grid(ndim: int, name: str) -> ast.expr:
    if ndim not in (1, 2, 3):
        raise ValueError("Only ndim=1,2,3 are supported")
    of_axis = "_ids.global_id({0})" if name == "grid" else "(_ids.num_groups({0}) * _ids.local_size({0}))"
    parts = [of_axis.format(axis) for axis in range(ndim)]
    return _parsed(parts[0] if ndim == 1 else f"({', '.join(parts)})")


def _scope(function: Any) -> dict[str, Any]:
    """Returns the values of names outside of a function."""
    closed = inspect.getclosurevars(function).nonlocals
    return {**function.__globals__, **closed}


def _text(function: Any) -> tuple[str, dict[str, Any]]:
    """Returns the text of a function without CUDA's names, after that of functions that it calls; and its scope."""
    scope = _scope(function)
    tree = parse(textwrap.dedent(inspect.getsource(function)))
    definition: Any = tree.body[0]
    definition.decorator_list = []
    for argument in definition.args.args:
        argument.annotation = None
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    texts = []
    for name in sorted(used & scope.keys()):
        if isinstance(called := scope[name], _DeviceFunction):
            text, inner = _text(called.function)
            texts.append(text)
            scope = {**inner, **scope}
    texts.append(ast.unparse(ast.fix_missing_locations(_Replacement(scope).visit(tree))))
    return "\n\n".join(texts), scope


def _kernel(function: Any) -> Any:
    """Returns the `vc.kernel` of a function."""
    text, scope = _text(function)
    made = {**scope, "_atomic": atomic, "_ids": ids, "_warp": warp, "_workgroup": workgroup}
    exec(compile(text, "<rawkernel>", "exec"), made)  # the user's own function, with other names
    return kernel(made[function.__name__], source=text)


class _DeviceFunction:
    """A function that kernels call, by `rawkernel(device=True)`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = function.__name__

    def __call__(self, *args: Any) -> NoReturn:
        """Raises RuntimeError: it is called outside of a kernel."""
        raise RuntimeError(f"{self.__name__} is called in kernels only")


class _JitRawKernel:
    """A kernel, launched by `kernel(grid, block, args)` or `kernel[grid, block](*args)`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._given = function
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    @cached_property
    def kernel(self) -> Any:
        """The `vc.kernel`."""
        return _kernel(self._given)

    def __call__(self, grid: Any, block: Any, args: Any, shared_mem: int = 0, stream: Any = None) -> None:
        """Launches it on a grid of blocks; `shared_mem` and `stream` have no effect."""
        given = [arg._array if isinstance(arg, ndarray) else arg for arg in args]
        self.kernel(*given, grid=_lengths(grid), local_size=_lengths(block))

    def __getitem__(self, grid_and_block: Any) -> Callable[..., None]:
        grid, block = grid_and_block
        return lambda *args, **named: self(grid, block, args, **named)


def _lengths(lengths: Any) -> Any:
    return tuple(map(int, lengths)) if isinstance(lengths, (tuple, list)) else int(lengths)


def rawkernel(*, mode: str = "cuda", device: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Returns a decorator that makes a kernel of a function, or a function that kernels call.

    Args:
        mode: has no effect: types are those of `vc.kernel`.
        device: True for a function that kernels call.
    """
    return _DeviceFunction if device else _JitRawKernel


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return _NAMES[name]
    raise AttributeError(f"cupyx.jit has no {name} here; write vc.kernel, whose language has more", name=name)
