"""`numba.extending`, whose `register_jitable` kernels need not; and `jit`, `njit` and `prange`, which Python runs here.

What extends Numba's compiler is refused by name.
"""

from __future__ import annotations

from typing import Any, NoReturn

_OF_THE_COMPILER = {
    "as_numba_type", "box", "infer_getattr", "intrinsic", "lower_builtin", "lower_cast", "lower_getattr",
    "make_attribute_wrapper", "models", "NativeValue", "overload", "overload_attribute", "overload_method",
    "register_model", "type_callable", "typeof_impl", "unbox",
}  # fmt: skip


def jit(signature_or_function: Any = None, **options: Any) -> Any:
    """Returns a function as it is; or, given signatures or options, a decorator that does."""
    if callable(signature_or_function) and hasattr(signature_or_function, "__code__"):
        return signature_or_function
    return lambda function: function


njit = register_jitable = jit
"""The same: kernels call any function of Python."""
prange = range
"""A loop in one thread."""


def _refused(name: str) -> NoReturn:
    raise NotImplementedError(
        f"numba.extending.{name} extends Numba's compiler, which is not used here; write a function that kernels call, "
        "or pass arrays, numbers, tuples and records"
    )


def __getattr__(name: str) -> Any:
    if name not in _OF_THE_COMPILER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return lambda *args, **options: _refused(name)
