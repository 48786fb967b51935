"""`jit` and `njit`: functions of the host, which Python runs here; kernels call them, too."""

from __future__ import annotations

from typing import Any


def jit(signature_or_function: Any = None, **options: Any) -> Any:
    """Returns a function as it is; or, given signatures or options, a decorator that does."""
    if callable(signature_or_function) and hasattr(signature_or_function, "__code__"):
        return signature_or_function
    return lambda function: function


njit = jit
