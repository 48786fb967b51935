"""Quotients of elements, rounded down or to zero, and remainders."""

from __future__ import annotations

import math
from typing import Any

import torch

from vkcompute.arrays.expressions.ufunc import apply, where
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import elementwise
from vkcompute.torch.operators.elements import binary, require_divisor


@kernel("div.out_mode")
def div(self: Any, other: Any, *, rounding_mode: str | None, out: Any) -> Any:
    """Computes the quotient, as it is, truncated or rounded down."""
    dtype = torch.result_type(self, other)
    if rounding_mode is not None:
        require_divisor(other, dtype)
    if rounding_mode == "floor":
        return elementwise(out, _rounded_down, self, other, dtype=dtype)
    if rounding_mode is None:
        return binary("divide")(self, other, out=out)
    if dtype.is_floating_point:
        return elementwise(out, lambda x, y: apply("trunc", apply("divide", x, y)), self, other, dtype=dtype)
    return elementwise(out, _truncated_quotient, self, other, dtype=dtype)


def _rounded_down(x: Any, y: Any) -> Any:
    """Returns the quotient rounded down; that of infinite numbers is NaN, that by infinite ones 0 or -1.

    Those of arrays are the quotients themselves, as the Array API standard demands.
    """
    result = apply("floor_divide", x, y)
    if result.dtype.kind != "f":
        return result
    if _is_array(x) and (_is_array(y) or y):
        finite = apply("subtract", result, apply("subtract", x, x))
        result = where(apply("equal", y, 0), result, finite) if _is_array(y) else finite
    elif not _is_array(x) and not math.isfinite(x):
        return where(apply("equal", y, 0), result, math.nan)
    if not _is_array(y) and not math.isinf(y):
        return result
    is_negative_zero = apply("logical_and", apply("equal", result, 0), apply("signbit", result))
    if _is_array(x):
        is_negative_zero = apply("logical_and", is_negative_zero, apply("not_equal", x, 0))
    return where(is_negative_zero, -1, result) if _is_array(x) or x else result


def _is_array(x: Any) -> bool:
    return hasattr(x, "is_pending")


def _truncated_quotient(x: Any, y: Any) -> Any:
    """Returns the quotient of integers, rounded to zero."""
    down = apply("floor_divide", x, y)
    has_rest = apply("not_equal", apply("remainder", x, y), 0)
    signs = [apply("less", number, 0) if _is_array(number) else number < 0 for number in (x, y)]
    is_negative = apply("not_equal", *signs) if _is_array(signs[0]) else apply("not_equal", *reversed(signs))
    return where(apply("logical_and", has_rest, is_negative), apply("add", down, 1), down)


@kernel("floor_divide.out")
def floor_divide(self: Any, other: Any, *, out: Any) -> Any:
    """Computes the quotient, rounded down."""
    return div(self, other, rounding_mode="floor", out=out)


@kernel("floor_divide")
def floor_divide_new(self: Any, other: Any) -> Any:
    """Returns the quotient, rounded down."""
    return torch.div(self, other, rounding_mode="floor")


@kernel("floor_divide_.Tensor")
def floor_divide_in_place(self: Any, other: Any) -> Any:
    """Divides in place, rounded down."""
    return self.div_(other, rounding_mode="floor")


@kernel("remainder.Scalar_Tensor")
def remainder_of_number(self: Any, other: Any) -> Any:
    """Returns the remainders of a number by elements."""
    number = torch.full((), self, dtype=torch.result_type(self, other), device=DEVICE_NAME)
    return torch.remainder(number, other)
