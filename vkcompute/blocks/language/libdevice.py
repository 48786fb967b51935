"""Functions of `tl.extra.libdevice`: those of CUDA's library that devices of Vulkan have."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi
from typing import TYPE_CHECKING, Any

from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.functions import block_function
from vkcompute.blocks.language import special_functions
from vkcompute.blocks.language.conversions import CONVERSIONS
from vkcompute.blocks.language.elementwise import abs, div_rn, fma, real_function
from vkcompute.blocks.language.math import ceil, cos, erf, exp, exp2, fdiv, floor, log, log2, rsqrt, sin, sqrt, sqrt_rn
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import FLOAT32, INT32, INT64, UINT32, Value
from vkcompute.ir.types import element_of
from vkcompute.operations import FUNCTIONS, bits
from vkcompute.tile import shape_of
from vkcompute.tile.builder import BlockEmitter

__all__ = [
    "abs", "brev", "ceil", "clz", "copysign", "cos", "cospi", "div_rn", "erf", "exp", "exp10", "exp2", "fast_cosf",
    "fast_dividef", "fast_exp10f", "fast_expf", "fast_log2f", "fast_logf", "fast_sinf", "fdim", "ffs", "finitef",
    "float_as_int", "floor", "fma", "fma_rn", "ilogb", "int_as_float", "isfinited", "llrint", "llround", "log",
    "log2", "logb", "popc", "round", "rsqrt", "signbit", "sin", "sinpi", "sqrt", "sqrt_rn",
]  # fmt: skip
_SPECIAL = [
    "byte_perm", "erfcinv", "erfinv", "fast_powf", "fast_tanhf", "ldexp", "mul24", "mulhi", "nextafter", "normcdf",
    "rcbrt", "remainder", "rsqrt_rn", "sad",
]  # fmt: skip
globals().update({name: getattr(special_functions, name) for name in _SPECIAL})
_OF_ROWS = [name for row in FUNCTIONS.values() for name in row.blocks if name not in __all__]
globals().update({name: real_function(name, is_method=False) for name in _OF_ROWS})
globals().update(CONVERSIONS)
__all__ += [*_OF_ROWS, *_SPECIAL, *CONVERSIONS]
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # those of rows


fast_dividef, fast_expf, fast_logf, fast_sinf, fast_cosf = fdiv, exp, log, sin, cos  # as accurate as the others
fast_log2f, fma_rn = log2, fma


class _Floats:
    """Builds expressions of blocks of floats of one shape and type."""

    def __init__(self, c: BlockCompiler, like: Value) -> None:
        self.b, self.kind, self.shape = c.builder, element_of(like.type), shape_of(like.type)

    def __call__(self, code: str, *operands: Any) -> Value:
        """Applies an operation of `ir/` to blocks and constants."""
        return self.b.compute(code, *[arg if isinstance(arg, Value) else self.full(arg) for arg in operands])

    def full(self, number: float) -> Value:
        """Returns a block whose elements are all one constant."""
        return self.b.full(self.b.const(number, self.kind), self.shape)


def _float(c: BlockCompiler, x: Any, name: str) -> tuple[Value, _Floats]:
    kind = c.element_type(x)
    if kind.kind != "f":
        raise UnsupportedError(f"libdevice.{name} takes floats; got {describe(x)}; convert, as x.to(tl.float32)")
    value = c.cast(x, kind)
    return value, _Floats(c, value)


@block_function
def exp10(c: BlockCompiler, x: Any) -> Any:
    """10 to the power of x."""
    value, f = _float(c, x, "exp10")
    return c.number(f("pow", 10.0, value))


fast_exp10f = exp10


def _rounded(c: BlockCompiler, x: Any, name: str) -> Value:
    value, f = _float(c, x, name)
    whole = f("trunc", value)
    is_far = f("ge", f("abs", f("sub", value, whole)), 0.5)  # the difference is exact
    return f.b.select(is_far, f("add", whole, f("sign", value)), whole)


@block_function
def round(c: BlockCompiler, x: Any) -> Any:
    """The nearest whole number; halves are rounded away from zero."""
    return c.number(_rounded(c, x, "round"))


@block_function
def llround(c: BlockCompiler, x: Any) -> Any:
    """The nearest whole number as int64; halves are rounded away from zero."""
    return c.number(c.builder.cast(_rounded(c, x, "llround"), INT64))


@block_function
def llrint(c: BlockCompiler, x: Any) -> Any:
    """The nearest whole number as int64; halves are rounded to even."""
    value, f = _float(c, x, "llrint")
    return c.number(c.builder.cast(f("round", value), INT64))


@block_function
def logb(c: BlockCompiler, x: Any) -> Any:
    """The exponent of float32, as a float: -inf for 0, inf for infinities."""
    value = _single(c, x, "logb")
    f = _Floats(c, value)
    exponent, size = f.b.cast(_exponent(f, value), FLOAT32), f("abs", value)
    exponent = f.b.select(f("eq", size, 0.0), f.full(-inf), exponent)
    return c.number(f.b.select(f("lt", size, inf), exponent, size))


@block_function
def ilogb(c: BlockCompiler, x: Any) -> Any:
    """The exponent of float32, as int32: the least integer for 0 and NaN, the greatest one for infinities."""
    value = _single(c, x, "ilogb")
    f = _Floats(c, value)

    def number(n: int) -> Value:
        return f.b.full(f.b.const(n, INT32), f.shape)

    exponent, size = _exponent(f, value), f("abs", value)
    exponent = f.b.select(f("eq", size, inf), number(0x7FFFFFFF), exponent)
    return c.number(f.b.select(f("or", f("isnan", value), f("eq", size, 0.0)), number(-0x80000000), exponent))


def _exponent(f: _Floats, value: Value) -> Value:
    """Returns the exponents of finite float32 but 0, as int32."""
    is_small = f("lt", f("abs", value), 2.0**-126)
    bits = f.b.bitcast(f.b.select(is_small, f("mul", value, 2.0**25), value), INT32)

    def number(n: int) -> Value:
        return f.b.full(f.b.const(n, INT32), f.shape)

    biased = f.b.compute("and", f.b.compute("shr", bits, number(23)), number(255))
    return f.b.compute("sub", biased, f.b.select(is_small, number(152), number(127)))


@block_function
def finitef(c: BlockCompiler, x: Any) -> Any:
    """False for NaN and infinities."""
    value, f = _float(c, x, "finitef")
    return c.number(f("not", f("or", f("isnan", value), f("isinf", value))))


isfinited = block_function(finitef.emit)
isfinited.__name__ = "isfinited"


def _is_negative(c: BlockCompiler, value: Value) -> Value:
    """Returns True where the sign bit is set, as that of -0.0."""
    b, wide = c.builder, value if element_of(value.type).bits >= 32 else c.builder.cast(value, FLOAT32)
    bits = b.bitcast(wide, INT64 if element_of(wide.type).bits == 64 else INT32)
    return b.compute("lt", bits, b.full(b.const(0, element_of(bits.type)), shape_of(bits.type)))


@block_function
def signbit(c: BlockCompiler, x: Any) -> Any:
    """The sign bit as int32: 1 for negative numbers and -0.0."""
    return c.number(c.builder.cast(_is_negative(c, _float(c, x, "signbit")[0]), INT32))


@block_function
def copysign(c: BlockCompiler, x: Any, y: Any) -> Any:
    """x with the sign of y."""
    for operand in (x, y):
        _float(c, operand, "copysign")
    one, other = c.alike(c.common_type(x, y).type, x, y)
    differ = c.builder.compute("ne", _is_negative(c, one), _is_negative(c, other))
    return c.number(c.builder.select(differ, c.builder.compute("neg", one), one))


def _of_half_turns(name: str, word: str, first: int) -> Any:
    def emit(c: BlockCompiler, x: Any) -> Any:
        value, f = _float(c, x, name)
        whole = f("mul", f("floor", f("mul", value, 0.5)), 2.0)
        value = f.b.select(f("gt", f("abs", value), 1e4), f("sub", value, whole), value)  # twice it may be infinite
        n = f("round", f("mul", value, 2.0))  # quarter turns
        angle = f("mul", f("sub", value, f("mul", n, 0.5)), pi)
        n = f("sub", n, f("mul", f("floor", f("mul", n, 0.25)), 4.0))  # modulo 4, exactly
        n = f("add", n, float(first))
        is_odd = f("or", f("eq", n, 1.0), f("eq", n, 3.0))
        result = f.b.select(is_odd, f("cos", angle), f("sin", angle))
        is_lower = f("or", f("eq", n, 2.0), f("eq", n, 3.0))
        return c.number(f.b.select(is_lower, f("neg", result), result))

    emit.__name__, emit.__doc__ = name, f"The {word} of pi * x; angles are reduced exactly."
    return block_function(emit)


sinpi, cospi = _of_half_turns("sinpi", "sine", 0), _of_half_turns("cospi", "cosine", 1)


def _word(c: BlockCompiler, x: Any, name: str) -> Value:
    kind = c.element_type(x)
    if kind.kind not in "iu" or kind.bits != 32:
        raise UnsupportedError(f"libdevice.{name} takes integers of 32 bits; got {describe(x)}")
    return c.builder.bitcast(c.cast(x, kind), UINT32)


def _of_bits(c: BlockCompiler, definition: Callable[..., Any], value: Value) -> Any:
    f = BlockEmitter(c.builder, shape_of(value.type))
    return c.number(definition(f, f.operand(value)).value)


@block_function
def brev(c: BlockCompiler, x: Any) -> Any:
    """The bits in reverse order."""
    return c.number(c.builder.bitcast(_of_bits(c, bits.bit_reverse, _word(c, x, "brev")).value, c.element_type(x)))


@block_function
def clz(c: BlockCompiler, x: Any) -> Any:
    """The number of zeros above the highest bit, 32 for 0."""
    return _of_bits(c, bits.clz, _word(c, x, "clz"))


@block_function
def ffs(c: BlockCompiler, x: Any) -> Any:
    """The position of the lowest bit, from 1; 0 for 0."""
    b, word = c.builder, _word(c, x, "ffs")
    lowest = b.cast(b.compute("find_lsb", word), INT32)
    return c.number(b.compute("add", lowest, b.full(b.const(1, INT32), shape_of(word.type))))


@block_function
def popc(c: BlockCompiler, x: Any) -> Any:
    """The number of bits that are 1, int32."""
    kind = c.element_type(x)
    if kind.kind not in "iu" or kind.bits < 32:
        raise UnsupportedError(f"libdevice.popc takes integers of 32 or 64 bits; got {describe(x)}")
    return _of_bits(c, bits.popcount, c.cast(x, kind))


def _single(c: BlockCompiler, x: Any, name: str) -> Value:
    value, _ = _float(c, x, name)
    if element_of(value.type) is not FLOAT32:
        raise UnsupportedError(f"libdevice.{name} takes float32; got {describe(x)}; convert, as x.to(tl.float32)")
    return value


@block_function
def float_as_int(c: BlockCompiler, x: Any) -> Any:
    """The bits of float32, as int32."""
    return c.number(c.builder.bitcast(_single(c, x, "float_as_int"), INT32))


@block_function
def int_as_float(c: BlockCompiler, x: Any) -> Any:
    """The float32 with the bits of an integer of 32 bits."""
    return c.number(c.builder.bitcast(_word(c, x, "int_as_float"), FLOAT32))


@block_function
def fdim(c: BlockCompiler, x: Any, y: Any) -> Any:
    """x - y where it is positive, else 0; NaN where one is."""
    for operand in (x, y):
        _float(c, operand, "fdim")
    one, other = c.alike(c.common_type(x, y).type, x, y)
    f = _Floats(c, one)
    return c.number(f.b.select(f("le", one, other), f.full(0.0), f("sub", one, other)))
