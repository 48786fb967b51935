"""Comparisons, logic, tests, choices and the parts of complex numbers; all give bools, or what they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vkcompute.ir.types import INT32
from vkcompute.operations import complex_numbers as of_complex
from vkcompute.operations.emitter import Pair
from vkcompute.operations.floats import sign_bit
from vkcompute.operations.function import define


def _by_value(code: str) -> Callable[..., Any]:
    """Returns a comparison of integers by their values: -1 is less than every uint."""
    below = {"eq": False, "ne": True, "lt": True, "le": True, "gt": False, "ge": False}[code]  # -1 `code` 0
    turned = {"lt": False, "le": False, "gt": True, "ge": True}.get(code, below)  # 0 `code` -1

    def compare(f: Any, x: Any, y: Any) -> Any:
        signed = [operand for operand in (x, y) if operand.kind.kind == "i"]
        wide = max((x.kind, y.kind), key=lambda kind: kind.bits)
        if len(signed) != 1 or signed[0].kind.bits > min(x.kind.bits, y.kind.bits):
            return f.op(code, f.to(x, wide), f.to(y, wide))
        (negative,) = signed
        target = y.kind if negative is x else x.kind
        result = f.op(code, f.to(x, target), f.to(y, target))
        return f.choose(f.op("lt", negative, 0), f.number(below if negative is x else turned, result.kind), result)

    return compare


def _of_bools(code: str) -> Callable[..., Any]:
    """Returns the order of bools: False is less than True."""
    return lambda f, x, y: f.op(code, f.to(x, INT32), f.to(y, INT32))


def _constant(truth: bool) -> Callable[..., Any]:
    """Returns a test of integers and bools, which are finite."""
    return lambda f, x: f.number(truth, f.truth(x).kind)


def _logical(code: str) -> Callable[..., Any]:
    return lambda f, *operands: f.op(code, *map(f.truth, operands))


def _isfinite(f: Any, x: Any) -> Any:
    return f.op("not", f.isinf(x) | f.isnan(x))


def _where(f: Any, condition: Any, x: Any, y: Any) -> Any:
    truth = f.truth(condition)
    if isinstance(x, Pair):
        return Pair([f.choose(truth, *parts) for parts in zip(x, y, strict=True)])
    return f.choose(truth, x, y)


for _name, _sign, _code in (
    ("less", "<", "lt"), ("less_equal", "<=", "le"), ("greater", ">", "gt"), ("greater_equal", ">=", "ge"),
):  # fmt: skip
    define(
        _name, 2, "comparison", f"x1 {_sign} x2",
        {"b": _of_bools(_code), "iu": _by_value(_code), "f": _code, "c": getattr(of_complex, _name)},
        sign=_sign, cost=1,
    )  # fmt: skip
for _name, _sign, _code in (("equal", "==", "eq"), ("not_equal", "!=", "ne")):
    define(
        _name, 2, "comparison", f"x1 {_sign} x2",
        {"b": _code, "iu": _by_value(_code), "f": _code, "c": getattr(of_complex, _name)}, sign=_sign, cost=1,
    )  # fmt: skip
define(
    "logical_and", 2, "tested", "True if both are true", {"biufc": _logical("and")},
    cost=1, commutative=True, identity=True,
)  # fmt: skip
define(
    "logical_or", 2, "tested", "True if one or both are true", {"biufc": _logical("or")},
    cost=1, commutative=True, identity=False,
)  # fmt: skip
define(
    "logical_xor", 2, "tested", "True if one is true", {"biufc": _logical("xor")},
    cost=1, commutative=True, identity=False,
)  # fmt: skip
define("logical_not", 1, "tested", "True if x is false", {"biufc": _logical("not")}, sign="not", cost=1)
define(
    "isfinite", 1, "tested", "True if x is finite", {"biu": _constant(True), "f": _isfinite, "c": of_complex.isfinite},
    math=("isfinite",), cost=1,
)  # fmt: skip
define(
    "isinf", 1, "tested", "True if x is infinite", {"biu": _constant(False), "f": "isinf", "c": of_complex.isinf},
    math=("isinf",), blocks=("isinf",), cost=1,
)  # fmt: skip
define(
    "isnan", 1, "tested", "True if x is NaN", {"biu": _constant(False), "f": "isnan", "c": of_complex.isnan},
    math=("isnan",), blocks=("isnan",), cost=1,
)  # fmt: skip
define(
    "signbit", 1, "tested", "True if x has a minus sign, also -0.0",
    {"bu": _constant(False), "i": lambda f, x: x < 0, "f": sign_bit}, cost=1,
)  # fmt: skip
define("where", 3, "choice", "x1 where a condition is true, else x2", {"biufc": _where}, public="", cost=1)
define("astype", 1, "conversion", "x in another dtype", {"biufc": lambda f, x: x}, public="", cost=1)
define("complex", 2, "parts", "x1 + x2 * 1j", {"f": lambda f, x, y: Pair((x, y))}, public="", cost=1)
define("real", 1, "parts", "the real part of x", {"c": lambda f, x: x[0]}, public="", cost=1)
define("imag", 1, "parts", "the imaginary part of x", {"c": lambda f, x: x[1]}, public="", cost=1)
