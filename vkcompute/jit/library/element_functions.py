"""Functions of elements in kernels: the rows of the registry, with the promotion of the kernel language."""

from __future__ import annotations

import builtins
import cmath
import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, SCALARS
from vkcompute.jit.frontend import complex_values
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import register
from vkcompute.jit.frontend.values import NATURAL, Kind, Number, describe, is_complex
from vkcompute.operations import FUNCTIONS, Element, ElementFunction, Emitter, division
from vkcompute.operations.host import OWN


class KernelEmitter(Emitter):
    """Builds functions of scalars; those in the kernel language are compiled in place."""

    def __init__(self, compiler: Compiler) -> None:
        super().__init__(compiler.builder)
        self._compiler = compiler

    def call(self, definition: Callable[..., Any], *operands: Any) -> Any:
        """Compiles a definition in the kernel language."""
        numbers = [Number(operand.value, Kind(operand.kind)) for operand in operands]
        return Element(self, self._compiler.call(definition, *numbers).value)


def computed(name: str, c: Compiler, numbers: Sequence[Number], kind: Kind) -> Number:
    """Builds a row of the registry of numbers of one type; `kind` is that of a result of this type."""
    result = KernelEmitter(c).emit(FUNCTIONS[name], *[value.value for value in numbers])
    return Number(result, kind if result.type is kind.type else Kind(result.type))


def floats(c: Compiler, *args: Any) -> list[Number]:
    """Converts numbers to their common float type."""
    kind, _ = c.to_common_type(*args)
    target = c.rules.floating(kind.type)
    return [Number(c.cast(x, target), Kind(target, kind.weak)) for x in args]


def in_floats(name: str, c: Compiler, *args: Any) -> Number:
    """Builds a function of floats; integers are converted."""
    numbers = floats(c, *args)
    return computed(name, c, numbers, numbers[0].kind)


def _in_common_type(name: str, c: Compiler, *args: Any) -> Number:
    kind, numbers = c.to_common_type(*args)
    return computed(name, c, [Number(value, kind) for value in numbers], kind)


def unless_whole(name: str, c: Compiler, x: Any) -> Any:
    """Rounds a float; integers stay as they are."""
    return in_floats(name, c, x) if c.kind(x).type.kind == "f" else x


def tested(name: str, c: Compiler, x: Any) -> Any:
    """Tests a float; integers and bools are finite."""
    kind = c.kind(x).type
    return (
        computed(name, c, [Number(c.cast(x, kind), Kind(kind))], Kind(BOOL)) if kind.kind == "f" else name == "isfinite"
    )


def min_or_max(code: str, c: Compiler, *args: Any) -> Any:
    """Python's min and max, whose result is undefined if a number is NaN."""
    values = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
    if len(values) < 2:
        raise UnsupportedError(f"{code} takes at least two numbers; got {', '.join(map(describe, values))}")
    kind, numbers = c.to_common_type(*values)
    if kind.type is BOOL:
        raise UnsupportedError(f"{code} takes numbers; got bools; use 'and' or 'or'")
    return Number(reduce(partial(c.builder.compute, code), numbers), kind)


def extreme(name: str, c: Compiler, x: Any, y: Any) -> Any:
    """numpy's maximum and minimum, which return NaN if an operand is NaN."""
    kind, _ = c.to_common_type(x, y)
    return _in_common_type(name, c, x, y) if kind.type.kind == "f" else min_or_max(name[:3], c, x, y)


def absolute(c: Compiler, x: Any) -> Any:
    """The absolute value; that of an int is natural."""
    kind = _number_kind("abs", c, x)
    if kind.type.kind == "u":
        return x
    natural = NATURAL if kind.weak and kind.type.kind == "i" and kind.type.bits == 32 else None
    return Number(c.builder.compute("abs", c.cast(x, kind.type)), Kind(kind.type, kind.weak, natural))


def _sign(c: Compiler, x: Any) -> Any:
    kind = _number_kind("sign", c, x)
    if kind.type.kind == "u":
        return min_or_max("min", c, x, 1)
    return computed("sign", c, [Number(c.cast(x, kind.type), kind)], Kind(kind.type, kind.weak))


def _number_kind(name: str, c: Compiler, x: Any) -> Kind:
    kind = c.kind(x)
    if kind.type is BOOL:
        raise UnsupportedError(f"{name} takes a number; got bool; write int(x)")
    return kind


def _fabs(c: Compiler, x: Any) -> Any:
    return absolute(c, c.converted(x, c.rules.floating(c.kind(x).type)))


def _of_bits(name: str, c: Compiler, *args: Any) -> Number:
    """Builds a function of the bits of floats, whose result has their type."""
    result = in_floats(name, c, *args)
    return Number(result.value, Kind(result.kind.type))


def _square(c: Compiler, x: Any) -> Any:
    return c.binary("*", x, x)


def _fmod(c: Compiler, x: Any, y: Any) -> Any:
    """numpy's fmod: an integer for integers."""
    kind, numbers = c.to_common_type(x, y)
    if kind.type.kind not in "iu":
        return in_floats("fmod", c, x, y)
    f = KernelEmitter(c)
    return Number(division.truncated_remainder(f, *map(f.operand, numbers)).value, kind)


def _reciprocal(c: Compiler, x: Any) -> Any:
    """numpy's reciprocal: an integer for integers."""
    return _in_common_type("reciprocal", c, x) if c.kind(x).type.kind in "iu" else c.binary("/", 1, x)


def common_divisor(name: str, c: Compiler, *args: Any) -> Any:
    """The greatest common divisor or the least common multiple of any number of integers, which may wrap at the end."""
    kind, numbers = c.to_common_type(*args)
    c.demand_kind("iu", kind, name, *args)
    unsigned = Kind(SCALARS[f"uint{kind.type.bits}"])
    sizes = [c.converted(absolute(c, Number(value, kind)), unsigned.type) for value in numbers]
    result = reduce(lambda x, y: computed(name, c, [x, y], unsigned), sizes)
    return Number(c.cast(result, kind.type), kind)


def _fma(c: Compiler, *args: Any) -> Number:
    kind, numbers = c.to_common_type(*args)
    if kind.type.kind != "f":
        got = ", ".join(map(describe, args))
        raise UnsupportedError(f"fma takes floats; got {got}; write x * y + z, which integers do not round")
    return Number(c.builder.compute("fma", *numbers), Kind(kind.type, kind.weak))


def fma(x: Any, y: Any, z: Any) -> Any:
    """Returns x * y + z of floats: rounded once where the device has an instruction for it, elsewhere twice.

    It is as fast as the device can be; `x * y + z` rounds twice on every device.
    """
    return x * y + z


def _logical(sign: str, c: Compiler, *args: Any) -> Any:
    return c.binary(sign, *map(c.boolean, args))


_SPECIAL: dict[str, Callable[..., Any]] = {
    "absolute": absolute,
    "fabs": _fabs,
    "sign": _sign,
    "square": _square,
    "fmod": _fmod,
    "reciprocal": _reciprocal,
    **{name: partial(_of_bits, name) for name in ("copysign", "nextafter", "signbit", "spacing", "ulp")},
    "logical_and": partial(_logical, "&"),
    "logical_or": partial(_logical, "|"),
    "logical_xor": partial(_logical, "^"),
    **{name: partial(extreme, name) for name in ("maximum", "minimum")},
    **{name: partial(in_floats, name) for name in ("fmax", "fmin")},
    **{name: partial(common_divisor, name) for name in ("gcd", "lcm")},
}
"""Functions whose types in kernels are not those of their rule."""
_BY_TYPES: dict[str, Callable[..., Any]] = {
    "float": in_floats,
    "nearest": in_floats,
    "rounded": unless_whole,
    "tested": tested,
    "common": _in_common_type,
}
"""Rule of types in the registry -> that of kernels."""


def _expansion(row: ElementFunction) -> Callable[..., Any] | None:
    """Returns what builds a call of a row; None for rows that kernels have not."""
    if row.name in _SPECIAL:
        return _SPECIAL[row.name]
    if row.sign and row.arity == 1:
        return lambda c, x: c.unary(row.sign, x)
    if row.types == "comparison":
        return lambda c, x, y: c.compare(row.sign, x, y)
    if row.sign:
        return lambda c, x, y: c.binary(row.sign, x, y)
    by_types = _BY_TYPES.get(row.types)
    return None if by_types is None else partial(by_types, row.name)


def functions_of(row: ElementFunction) -> list[Any]:
    """Returns the functions of Python, math and NumPy that are this row, and the library's own."""
    functions = [getattr(np, name, None) for name in (row.name, *row.aliases)] if row.public == "numpy" else []
    functions += [getattr(math, name, None) for name in row.math]
    return [function for function in dict.fromkeys((*functions, OWN.get(row.name))) if function is not None]


def _of_any(row: ElementFunction, emit: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what builds a call of a row, of complex numbers where it takes these."""

    def expand(c: Compiler, *args: Any) -> Any:
        if not any(map(is_complex, args)):
            return emit(c, *args)
        if row.name in complex_values.ORDERED:
            complex_values.refuse(row.name, *args)
        return complex_values.computed(c, row, *args)

    return expand if row.takes("c") and not row.sign else emit


def in_complex(row: ElementFunction, c: Compiler, x: Any) -> Any:
    """Builds a function of cmath, whose operand is complex."""
    return complex_values.computed(c, row, x)


for _row in FUNCTIONS.values():
    if (_emit := _expansion(_row)) is not None:
        register(functions_of(_row), _of_any(_row, _emit), _row.arity, folds=True)
    if _row.takes("c") and _row.types in ("float", "tested"):
        _names = [_name for _name in _row.math if hasattr(cmath, _name)]
        register([getattr(cmath, _name) for _name in _names], partial(in_complex, _row), 1)
register([builtins.abs], _of_any(FUNCTIONS["absolute"], absolute), 1, folds=True)
register([np.angle, cmath.phase], partial(in_complex, FUNCTIONS["angle"]), 1)
register([np.conjugate], complex_values.conjugate, 1)
for _name in ("real", "imag"):
    register([getattr(np, _name)], partial(complex_values.attribute, name=_name), 1)
register([fma], _fma, 3, folds=True)
