"""Functions of libdevice that convert numbers, or are arithmetic rounded to nearest; by name in `CONVERSIONS`.

Vulkan rounds arithmetic to nearest only, so those with `_rd`, `_ru` and `_rz` are conversions to integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.functions import BlockFunction, block_function
from vkcompute.blocks.compiler.types import OF_SCALAR
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, Scalar, Value
from vkcompute.tile import shape_of

CONVERSIONS: dict[str, BlockFunction] = {}
"""The functions by name."""
_FLOATS = {"float": FLOAT32, "double": FLOAT64}
_INTEGERS = {"int": INT32, "uint": UINT32, "ll": INT64, "ull": UINT64}
_ROUNDINGS = {"rn": ("round", "to the nearest, halves to even"), "rz": ("trunc", "to zero"), "rd": ("floor", "down"),
              "ru": ("ceil", "up")}  # fmt: skip
"""Suffix of a name -> the operation, and its meaning."""
_WITH_BITS = {"float_as_uint": (FLOAT32, INT32), "double_as_longlong": (FLOAT64, INT64),
              "uint_as_float": (UINT32, FLOAT32), "longlong_as_double": (INT64, FLOAT64)}  # fmt: skip
_ARITHMETIC = {"add_rn": "+", "sub_rn": "-", "mul_rn": "*"}


def _operand(c: BlockCompiler, x: Any, name: str, *kinds: Scalar) -> Value:
    """Returns a number of one of these types."""
    if c.element_type(x) not in kinds:
        taken = " and ".join(str(OF_SCALAR[kind]) for kind in kinds)
        raise UnsupportedError(f"libdevice.{name} takes {taken}; got {describe(x)}; convert, as x.to(dtype)")
    return c.cast(x, c.element_type(x))


def _define(name: str, meaning: str, compute: Callable[[BlockCompiler, Any], Value], *kinds: Scalar) -> None:
    """Adds a function of one number."""

    def emit(c: BlockCompiler, x: Any) -> Any:
        return c.number(compute(c, _operand(c, x, name, *kinds)))

    emit.__name__, emit.__doc__ = name, meaning
    CONVERSIONS[name] = block_function(emit)


def _to_integer(rounding: str, kind: Scalar) -> Callable[[BlockCompiler, Any], Value]:
    """Returns the conversion of a float, to signed integers with the bits of unsigned ones."""
    signed = INT32 if kind.bits == 32 else INT64
    return lambda c, x: c.builder.bitcast(c.builder.cast(c.builder.compute(rounding, x), kind), signed)


def _cast(kind: Scalar) -> Callable[[BlockCompiler, Any], Value]:
    return lambda c, x: c.builder.cast(x, kind)


def _bitcast(kind: Scalar) -> Callable[[BlockCompiler, Any], Value]:
    return lambda c, x: c.builder.bitcast(x, kind)


def _words(c: BlockCompiler, x: Any) -> Value:
    return c.builder.bitcast(x, UINT64)


def _shift(c: BlockCompiler, value: Value, code: str) -> Value:
    """Moves the bits of uint64 by a word."""
    return c.builder.compute(code, value, c.builder.full(c.builder.const(32, UINT64), shape_of(value.type)))


for _source, _float in _FLOATS.items():
    for _target, _integer in _INTEGERS.items():
        for _suffix, (_code, _direction) in _ROUNDINGS.items():
            _name = f"{_source}2{_target}_{_suffix}"
            _define(_name, f"A {_source} as an integer, rounded {_direction}.", _to_integer(_code, _integer), _float)
        _define(f"{_target}2{_source}_rn", "An integer as a float.", _cast(_float), _integer)
for _name, (_from, _to) in _WITH_BITS.items():
    _define(_name, "The number with the same bits.", _bitcast(_to), _from, *([INT32] if _from is UINT32 else []))
_define("double2float_rn", "float64 as float32.", _cast(FLOAT32), FLOAT64)
_define(
    "double2hiint", "The upper word of float64, int32.",
    lambda c, x: c.builder.cast(_shift(c, _words(c, x), "shr"), INT32), FLOAT64,
)  # fmt: skip
_define("double2loint", "The lower word of float64, int32.", lambda c, x: c.builder.cast(_words(c, x), INT32), FLOAT64)
_define("rcp_rn", "1 / x.", lambda c, x: c.binary("/", 1.0, c.number(x)).value, FLOAT32, FLOAT64)


@block_function
def hiloint2double(c: BlockCompiler, x: Any, y: Any) -> Any:
    """The float64 of an upper and a lower word."""
    high, low = (_operand(c, word, "hiloint2double", INT32, UINT32) for word in (x, y))
    wide = c.builder.cast(c.builder.bitcast(high, UINT32), UINT64)
    low = c.builder.cast(c.builder.bitcast(low, UINT32), UINT64)
    bits = c.binary("|", c.number(_shift(c, wide, "shl")), c.number(low))
    return c.number(c.builder.bitcast(bits.value, FLOAT64))


def _arithmetic(name: str, sign: str) -> BlockFunction:
    def emit(c: BlockCompiler, x: Any, y: Any) -> Any:
        operands = [c.number(_operand(c, operand, name, FLOAT32, FLOAT64)) for operand in (x, y)]
        return c.binary(sign, *operands)

    emit.__name__, emit.__doc__ = name, f"x {sign} y of floats, rounded to nearest even."
    return block_function(emit)


CONVERSIONS |= {name: _arithmetic(name, sign) for name, sign in _ARITHMETIC.items()}
CONVERSIONS["hiloint2double"] = hiloint2double
