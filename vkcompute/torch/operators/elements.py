"""Functions of elements: a row per operator, which names a row of arrays' registry or a formula of such."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from vkcompute.arrays.expressions.ufunc import apply, joined, where
from vkcompute.torch.element_types import computed
from vkcompute.torch.errors import warn
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import (
    elementwise,
    name_of,
    operand,
    require_cast,
    require_kind,
    require_number,
    require_same_elements,
)  # fmt: skip
from vkcompute.torch.storage import copy_to, resize_to

_FLOATS = (
    "acos=arccos acosh=arccosh asin=arcsin asinh=arcsinh atan=arctan atanh=arctanh cos cosh erf erfc exp exp2 expm1 "
    "i0 lgamma log log10 log1p log2 reciprocal rsqrt sigmoid sin sinc sinh sqrt tan tanh special_airy_ai=airy_ai "
    "special_bessel_j0=j0 special_bessel_j1=j1 special_bessel_y0=y0 special_bessel_y1=y1 special_erfcx=erfcx "
    "special_i0e=i0e special_i1=i1 special_i1e=i1e special_log_ndtr=log_ndtr special_modified_bessel_i0=i0 "
    "special_modified_bessel_i1=i1 special_modified_bessel_k0=k0 special_modified_bessel_k1=k1 special_ndtri=ndtri "
    "special_scaled_modified_bessel_k0=k0e special_scaled_modified_bessel_k1=k1e "
    "special_spherical_bessel_j0=spherical_j0"
)
"""Operators whose elements are computed as floats: "name.out", and the row if its name differs."""
_SAME = (
    "abs=absolute bitwise_not=invert ceil floor neg=negative round=rint trunc conj_physical=conjugate deg2rad rad2deg"
)
"""Operators that keep the dtype."""
_TESTS = "logical_not signbit isnan=isnan isinf=isinf"
"""Operators that give bools."""
_BINARY = (
    "atan2.out=arctan2 bitwise_and.Tensor_out bitwise_left_shift.Tensor_out=left_shift bitwise_or.Tensor_out "
    "bitwise_right_shift.Tensor_out=right_shift bitwise_xor.Tensor_out copysign.out div.out=divide fmax.out fmin.out "
    "fmod.Tensor_out gcd.out hypot.out lcm.out logaddexp.out logaddexp2.out maximum.out minimum.out "
    "mul.out=multiply nextafter.out remainder.Tensor_out xlogy.OutTensor"
)
"""Operators of two tensors, which are converted to the dtype of the result."""
_COMPARISONS = "eq=equal ge=greater_equal gt=greater le=less_equal lt=less ne=not_equal"


def _rows(text: str) -> list[tuple[str, str]]:
    """Returns (operator, row) of a list of names."""
    pairs = [item.partition("=") for item in text.split()]
    return [(name, row or name.partition(".")[0]) for name, _, row in pairs]


def _unary(row: str, *, keeps: bool) -> Callable[..., Any]:
    def run(self: Any, *, out: Any) -> Any:
        require_kind(row, self.dtype)
        if row in _ALIKE:
            _require_alike(row, self, out)
        if row == "signbit":
            _require_bools(row, out)
        if keeps and self.dtype in _INTEGERS and row in _ROUNDINGS:
            return copy_to(out, self)
        dtype = None if keeps else out.dtype
        if row in _ANGLES and self.dtype in _INTEGERS:
            require_cast(torch.get_default_dtype(), out)
        if not keeps:
            require_cast(self.dtype if self.is_complex() else torch.get_default_dtype(), out)
            if out.is_complex() and not self.is_complex():  # roots of negative numbers are NaN
                dtype = self.dtype if self.is_floating_point() else torch.get_default_dtype()
        compute = _nan_at_infinity if row in _OSCILLATING else apply
        return elementwise(out, lambda x: compute(row, x), self, dtype=dtype)

    return run


_OSCILLATING = {"airy_ai", "j0", "j1", "y0", "y1"}


def _nan_at_infinity(row: str, x: Any) -> Any:
    """Computes a row, which is NaN for infinite elements as PyTorch's is; that of arrays is its limit, 0."""
    return apply("add", apply(row, x), apply("subtract", x, x))


_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64}
_ANGLES = {"deg2rad", "rad2deg"}
_ROUNDINGS = {"ceil", "floor", "trunc", "rint"}
_ALIKE = {"absolute", "invert", "negative", *_ROUNDINGS}
"""Rows whose results have the dtype of the operand, without a conversion."""


def _require_alike(row: str, self: Any, out: Any) -> None:
    """Raises RuntimeError if a tensor for results has another dtype; that of magnitudes of complex numbers may."""
    if row == "absolute" and self.is_complex():
        require_cast(self.dtype.to_real(), out)
    elif out.dtype != self.dtype:
        raise RuntimeError(f"Found dtype {name_of(out.dtype)} but expected {name_of(self.dtype)}")


def _require_bools(name: str, out: Any) -> None:
    """Raises RuntimeError if a tensor for results of a test has other elements than bools."""
    if out.dtype != torch.bool:
        raise RuntimeError(f"{name} does not support non-boolean outputs.")


def binary(row: str) -> Callable[..., Any]:
    """Returns the kernel of a function of two operands, by its row."""

    def run(self: Any, other: Any, *, out: Any) -> Any:
        dtype = torch.result_type(self, other)
        require_kind(row, dtype)
        if row in _TO_FLOATS and not (dtype.is_floating_point or dtype.is_complex):
            dtype = torch.get_default_dtype()
        if row in _REMAINDERS:
            require_divisor(other, dtype)
        return elementwise(out, lambda x, y: apply(row, x, y), self, other, dtype=dtype, is_wide=row not in _EXACT)

    return run


_EXACT = {"nextafter", *(row for _, row in _rows(_COMPARISONS))}
"""Operators that compare with a number as rounded, or count steps of the dtype."""
_TO_FLOATS = {"divide", "arctan2", "copysign", "xlogy"}


_REMAINDERS = {"fmod", "remainder"}


def require_divisor(other: Any, dtype: Any) -> None:
    """Raises RuntimeError for a number that divides integers and is 0 in their dtype, as 256 in a byte.

    Zeros among elements of the device give 0.
    """
    is_number = not isinstance(other, torch.Tensor) or (other.device.type == "cpu" and not other.dim())
    if is_number and not (dtype.is_floating_point or dtype.is_complex or operand(other, computed(dtype))):
        raise RuntimeError("ZeroDivisionError")


def _register_rows() -> None:
    for names, keeps in ((_FLOATS, False), (_SAME, True), (_TESTS, True)):
        for name, row in _rows(names):
            kernel(f"{name}.out")(_unary(row, keeps=keeps))
    for name, row in _rows(_BINARY):
        kernel(name)(binary(row))
    for name, row in _rows(_COMPARISONS):
        kernel(f"{name}.Tensor_out", f"{name}.Scalar_out")(binary(row))
    for name in ("logical_and", "logical_or", "logical_xor"):
        kernel(f"{name}.out")(_truth(name))


def _truth(row: str) -> Callable[..., Any]:
    def run(self: Any, other: Any, *, out: Any) -> Any:
        require_same_elements(out, self, other)
        return elementwise(out, lambda x, y: apply(row, x, y), _bool(self), _bool(other))

    return run


def _bool(tensor: Any) -> Any:
    return tensor if tensor.dtype == torch.bool else tensor.bool()


_register_rows()


@kernel("add.out")
def add(self: Any, other: Any, *, alpha: Any = 1, out: Any) -> Any:
    """Computes self + alpha * other."""
    dtype = torch.result_type(self, other)
    _require_factor(alpha, dtype)
    if alpha == 1:
        return elementwise(out, lambda x, y: apply("add", x, y), self, other, dtype=dtype)
    return elementwise(out, _scaled_sum, self, other, alpha, dtype=dtype)


def _require_factor(alpha: Any, dtype: Any) -> None:
    """Raises RuntimeError for a bool as a factor of numbers, and for a number that the dtype does not hold."""
    if isinstance(alpha, bool) and dtype != torch.bool:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    require_number(alpha, dtype)


def _scaled_sum(x: Any, y: Any, factor: Any) -> Any:
    return apply("add", x, _times(y, factor))


def _times(x: Any, factor: Any) -> Any:
    return apply("multiply", x, factor) if hasattr(x, "is_pending") else x * factor


@kernel("sub.out")
def sub(self: Any, other: Any, *, alpha: Any = 1, out: Any) -> Any:
    """Computes self - alpha * other."""
    dtype = torch.result_type(self, other)
    _require_factor(alpha, dtype)
    if any(x.dtype == torch.bool if isinstance(x, torch.Tensor) else isinstance(x, bool) for x in (self, other)):
        raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported; use `~` for a mask")
    if alpha == 1:
        return elementwise(out, lambda x, y: apply("subtract", x, y), self, other, dtype=dtype)
    return elementwise(out, lambda x, y, a: apply("subtract", x, _times(y, a)), self, other, alpha, dtype=dtype)


@kernel("pow.Tensor_Tensor_out", "pow.Tensor_Scalar_out", "pow.Scalar_out")
def power(self: Any, exponent: Any, *, out: Any) -> Any:
    """Computes powers."""
    dtype = torch.result_type(self, exponent)
    if not isinstance(exponent, torch.Tensor):
        require_number(exponent, dtype)
        if exponent == 0:
            resize_to(out, self.shape)
            return out.fill_(1)
        if exponent == 1:
            return copy_to(out, self)
        if exponent == 2:
            return elementwise(out, lambda x: apply("square", x), self, dtype=dtype)
        if abs(exponent) == 0.5 and dtype in (torch.float32, torch.float64):  # as PyTorch does, NaN for -inf
            return elementwise(out, lambda x: apply("sqrt" if exponent > 0 else "rsqrt", x), self, dtype=dtype)
    elif not exponent.dim() and not (dtype.is_floating_point or dtype.is_complex):
        exponent = exponent.to(DEVICE_NAME)  # arrays refuse a negative number, but take it as an element
    return elementwise(out, lambda x, y: apply("power", x, y), self, exponent, dtype=dtype)


@kernel("heaviside.out")
def heaviside(self: Any, values: Any, *, out: Any) -> Any:
    """Computes 0 for negative elements and NaN, 1 for positive ones, and the values for zeros."""
    if not self.dtype == values.dtype == out.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")

    def compute(x: Any, y: Any) -> Any:
        return where(apply("equal", x, 0), y, where(apply("greater", x, 0), 1, 0))

    return elementwise(out, compute, self, values, dtype=out.dtype)


@kernel("sign.out", "sgn.out")
def sign(self: Any, *, out: Any) -> Any:
    """Computes signs: -1, 0 or 1; 0 for NaN."""
    _require_alike("sign", self, out)
    if self.dtype == torch.bool:
        return copy_to(out, self)
    if self.dtype.is_complex:
        return elementwise(out, lambda x: apply("sign", x), self)
    return elementwise(out, lambda x: where(apply("equal", x, x), apply("sign", x), 0), self)


@kernel("isposinf.out")
def isposinf(self: Any, *, out: Any) -> Any:
    """Tests for positive infinity."""
    _require_bools("isposinf", out)
    return torch.eq(self, float("inf"), out=out)


@kernel("isneginf.out")
def isneginf(self: Any, *, out: Any) -> Any:
    """Tests for negative infinity."""
    _require_bools("isneginf", out)
    return torch.eq(self, float("-inf"), out=out)


@kernel("isnan")
def isnan(self: Any) -> Any:
    """Tests for NaN."""
    return torch.ne(self, self)


@kernel("frac.out")
def frac(self: Any, *, out: Any) -> Any:
    """Computes self - trunc(self)."""
    return elementwise(out, lambda x: apply("subtract", x, apply("trunc", x)), self)


_CONDITION_OF_BYTES = (
    "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of "
    "PyTorch. Use a boolean condition instead."
)


@kernel("where.self")
def where_new(condition: Any, self: Any, other: Any) -> Any:
    """Returns elements of self where the condition is true, else of other."""
    values, dtype = (condition, self, other), torch.result_type(self, other)
    shape = torch.broadcast_shapes(*(value.shape for value in values))
    if all(value.is_contiguous() for value in values):
        return where_into(*values, out=torch.empty(shape, dtype=dtype, device=DEVICE_NAME))
    planned = torch.where(*(torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device="meta") for v in values))
    return where_into(*values, out=torch.empty_strided(shape, planned.stride(), dtype=dtype, device=DEVICE_NAME))


@kernel("where.self_out")
def where_into(condition: Any, self: Any, other: Any, *, out: Any) -> Any:
    """Computes elements of self where the condition is true, else of other."""
    if condition.dtype == torch.uint8:
        warn(_CONDITION_OF_BYTES)
    elif condition.dtype != torch.bool:
        found = name_of(condition.dtype)
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {found}")
    dtype = torch.result_type(self, other)
    if out.dtype != dtype:
        raise RuntimeError(f"Expected out type to be {name_of(dtype)} but got {name_of(out.dtype)}")
    values = [value if value.dtype == dtype else value.to(dtype) for value in (self, other)]
    return elementwise(out, where, _bool(condition), *values)


@kernel("clamp.out")
def clamp_by_numbers(self: Any, min: Any = None, max: Any = None, *, out: Any) -> Any:
    """Computes elements between two numbers, either of which may be None."""
    types = [torch.result_type(self, limit) for limit in (min, max) if limit is not None]
    if types and out.dtype != torch.promote_types(types[0], types[-1]):
        expected = name_of(torch.promote_types(types[0], types[-1]))
        raise RuntimeError(f"Found dtype {name_of(out.dtype)} but expected {expected}")
    return clamp(self, min, max, out=out)


def clamp(self: Any, min: Any = None, max: Any = None, *, out: Any) -> Any:
    """Computes elements that are at least min and at most max; NaN stays."""
    limits = [limit for limit in (min, max) if limit is not None]
    dtype = torch.result_type(self, limits[0]) if len(limits) == 1 else out.dtype
    for limit in limits:
        require_number(limit, dtype)
    names = [name for name, limit in (("maximum", min), ("minimum", max)) if limit is not None]
    return elementwise(out, lambda x, *given: _limited(x, names, given), self, *limits, dtype=dtype)


def _limited(x: Any, names: list[str], limits: Any) -> Any:
    for name, limit in zip(names, limits, strict=True):
        x = apply(name, x, limit)
    return x


@kernel("clamp.Tensor_out")
def clamp_by_tensors(self: Any, min: Any = None, max: Any = None, *, out: Any) -> Any:
    """Computes elements between those of two tensors."""
    return clamp(self, min, max, out=out)


@kernel("clamp_min.out", "clamp_min.Tensor_out")
def clamp_min(self: Any, min: Any, *, out: Any) -> Any:
    """Computes elements that are at least min."""
    return clamp(self, min, None, out=out)


@kernel("clamp_max.out", "clamp_max.Tensor_out")
def clamp_max(self: Any, max: Any, *, out: Any) -> Any:
    """Computes elements that are at most max."""
    return clamp(self, None, max, out=out)


@kernel("addcmul.out")
def addcmul(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1, out: Any) -> Any:
    """Computes self + value * tensor1 * tensor2."""
    require_number(value, out.dtype)

    def compute(x: Any, a: Any, b: Any, factor: Any) -> Any:
        product = apply("multiply", a, b)
        return apply("add", x, product if value == 1 else apply("multiply", product, factor))

    return elementwise(out, compute, self, tensor1, tensor2, value, dtype=out.dtype)


@kernel("addcdiv.out")
def addcdiv(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1, out: Any) -> Any:
    """Computes self + value * tensor1 / tensor2."""
    require_number(value, out.dtype)
    if tensor1.dtype in _INTEGERS and tensor2.dtype in _INTEGERS:
        raise RuntimeError("Integer division with addcdiv is no longer supported; give it floats, as by .float()")

    def compute(x: Any, a: Any, b: Any, factor: Any) -> Any:
        return apply("add", x, apply("divide", a if value == 1 else apply("multiply", a, factor), b))

    return elementwise(out, compute, self, tensor1, tensor2, value, dtype=out.dtype)


@kernel("lerp.Scalar_out", "lerp.Tensor_out")
def lerp(self: Any, end: Any, weight: Any, *, out: Any) -> Any:
    """Computes self + weight * (end - self), from the nearer end."""
    if isinstance(weight, torch.Tensor):
        _require_alike("lerp", self, out)
    require_number(weight, out.dtype)

    def compute(x: Any, y: Any, w: Any) -> Any:
        distance = apply("subtract", y, x)
        if not hasattr(w, "is_pending"):
            near = abs(w) < 0.5
            return apply("add", x, _times(distance, w)) if near else apply("subtract", y, _times(distance, 1 - w))
        first = apply("add", x, apply("multiply", distance, w))
        second = apply("subtract", y, apply("multiply", distance, apply("subtract", 1, w)))
        return where(apply("less", apply("absolute", w), 0.5), first, second)

    return elementwise(out, compute, self, end, weight, dtype=out.dtype)


@kernel("__lshift__.Tensor", "__lshift__.Scalar")
def left_shift(self: Any, other: Any) -> Any:
    """Returns the bits of integers, shifted to the left."""
    return torch.bitwise_left_shift(self, other)


@kernel("__rshift__.Tensor", "__rshift__.Scalar")
def right_shift(self: Any, other: Any) -> Any:
    """Returns the bits of integers, shifted to the right."""
    return torch.bitwise_right_shift(self, other)


@kernel("complex.out")
def complex_from_parts(real: Any, imag: Any, *, out: Any) -> Any:
    """Computes complex numbers from their parts."""
    if real.dtype != imag.dtype:
        raise RuntimeError(f"Expected both parts of one dtype, but got {real.dtype} and {imag.dtype}")
    _require_complex(real, out)
    return elementwise(out, joined, *torch.broadcast_tensors(real, imag))


def _require_complex(part: Any, out: Any) -> None:
    """Raises RuntimeError if a tensor for results has another dtype than complex numbers of these parts."""
    if out.dtype != part.dtype.to_complex():
        wanted, given = f"Complex{name_of(part.dtype)}", name_of(out.dtype)
        raise RuntimeError(f"Expected object of scalar type {wanted} but got scalar type {given} for argument 'out'")


@kernel("polar.out")
def polar(abs: Any, angle: Any, *, out: Any) -> Any:
    """Computes complex numbers from absolute values and angles."""
    _require_complex(abs, out)
    return complex_from_parts(abs * torch.cos(angle), abs * torch.sin(angle), out=out)


@kernel("angle.out")
def angle(self: Any, *, out: Any) -> Any:
    """Computes the angles of complex numbers; 0 or pi for real ones."""
    angles = angle_new(self)
    require_cast(angles.dtype, out)
    return copy_to(out, angles)


@kernel("angle")
def angle_new(self: Any) -> Any:
    """Returns the angles of complex numbers; 0 or pi for real ones."""
    if self.is_complex():
        return torch.atan2(self.imag, self.real)
    x = self if self.is_floating_point() else self.to(torch.get_default_dtype())
    return torch.where(x < 0, math.pi, torch.where(x == x, 0.0, x))


@kernel("erfinv.out")
def erfinv(self: Any, *, out: Any) -> Any:
    """Computes the inverse of erf: M. Giles, Approximating the erfinv function, 2010, and two steps of Newton's."""
    x = self if self.is_floating_point() else self.to(torch.get_default_dtype())
    x = x.to(torch.float32) if x.dtype.itemsize < 4 else x
    w = -torch.log((1 - x) * (1 + x))
    near = _polynomial(w - 2.5, _ERFINV_NEAR)
    far = _polynomial(torch.sqrt(w) - 3, _ERFINV_FAR)
    y = torch.where(w < 5, near, far) * x
    if x.dtype == torch.float64:
        for _ in range(2):
            y = y - (torch.erf(y) - x) * (math.sqrt(math.pi) / 2) * torch.exp(y * y)
    limit = torch.where(x.abs() == 1, x * math.inf, math.nan)
    return copy_to(out, torch.where(x.abs() < 1, y, limit))


_ERFINV_NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
                -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_ERFINV_FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
               0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


def _polynomial(x: Any, factors: tuple[float, ...]) -> Any:
    """Returns a polynomial; the factor of the highest power is first."""
    total = torch.full_like(x, factors[0])
    for factor in factors[1:]:
        total = total * x + factor
    return total


@kernel("digamma.out")
def digamma(self: Any, *, out: Any) -> Any:
    """Computes digamma: by recurrence up to 8, the asymptotic series (DLMF 5.11.2), and reflection below 0."""
    given = self if self.is_floating_point() else self.to(torch.get_default_dtype())
    given = given.to(torch.float32) if given.dtype.itemsize < 4 else given
    x = torch.where(given < 0.5, 1 - given, given)
    total = torch.zeros_like(x)
    for _ in range(8):
        is_small = x < 8
        total = torch.where(is_small, total - 1 / x, total)
        x = torch.where(is_small, x + 1, x)
    square = 1 / (x * x)
    series = _polynomial(square, (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12, 0.0))
    total = total + torch.log(x) - 0.5 / x - series
    fraction = given - torch.floor(given)
    reflected = total - math.pi / torch.tan(math.pi * fraction)
    result = torch.where(given < 0.5, reflected, total)
    result = torch.where((given <= 0) & (fraction == 0), math.nan, result)
    return copy_to(out, torch.where(given == 0, -math.inf * torch.sign(1 / given), result))
