"""Complex numbers in block programs: pairs of blocks of floats, computed by the definitions that complex arrays have.

A complex value is a `Complex` of two numbers of one float type and shape. Beside a real number it promotes as the
parts do beside that number, from float32 on.
"""

from __future__ import annotations

from typing import Any, NoReturn

from vkcompute.blocks.compiler.arithmetic import describe, is_sequence
from vkcompute.blocks.compiler.functions import OWN, BlockFunction, block_function
from vkcompute.blocks.compiler.types import COMPLEX, OF_SCALAR, BlockType, Dtype
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import FLOAT32, Scalar, Value
from vkcompute.jit.frontend.complex_values import row_of_sign
from vkcompute.jit.frontend.values import PARTS, Complex, Kind, Number, is_complex, parts_of, whole_of
from vkcompute.operations import FUNCTIONS, ElementFunction
from vkcompute.tile.builder import BlockEmitter


def part_type(c: Any, *values: Any) -> Scalar:
    """Returns the common type of the parts of numbers: float32 at least."""
    kind: Scalar = c.common_type(*[part for value in values for part in parts_of(value)]).type
    return kind if kind.kind == "f" and kind.bits >= 32 else FLOAT32


def pair(c: Any, value: Any, part: Scalar, shape: tuple[int, ...]) -> tuple[Value, Value]:
    """Returns the parts of a number, of a type and shape.

    Raises:
        UnsupportedError: the program is one of a language without complex numbers.
    """
    if not c.has_complex:
        raise UnsupportedError(
            f"Triton has no complex numbers; got {describe(value)}; compute with the parts, or make the program by "
            "vkcompute.blocks.launching.program.complex_program"
        )
    one, other = [c.spread(c.cast(number, part), shape) for number in parts_of(value)]
    return one, other


def converted(c: Any, value: Any, dtype: Dtype) -> Complex:
    """Returns a number as one of a complex dtype."""
    return _complex(c, pair(c, value, PARTS[dtype.scalar_type], c.shape(value)))


def computed(c: Any, row: ElementFunction, *values: Any) -> Any:
    """Builds a function of the registry of numbers in their common complex type and shape."""
    kind, shape = part_type(c, *values), c.common_shape(*values)
    pairs = [pair(c, value, kind, shape) for value in values]
    result = BlockEmitter(c.builder, shape).emit(row, *pairs)
    return _complex(c, result) if type(result) is tuple else c.number(result)


def _complex(c: Any, parts: tuple[Value, Value]) -> Complex:
    """Returns the number of a pair of values."""
    return Complex(map(c.number, parts))


def of_parts(c: Any, real: Any, imag: Any = 0.0) -> Complex:
    """Returns the number that has these real parts, as Python's complex(x, y); one of a complex number is the same."""
    if is_complex(real) or is_complex(imag):
        if type(imag) is not float or imag != 0:
            raise UnsupportedError(f"complex takes two real parts; got {describe(real)} and {describe(imag)}")
        return _complex(c, pair(c, real, part_type(c, real), c.shape(real)))
    kind, shape = part_type(c, real, imag), c.common_shape(real, imag)
    one, other = [pair(c, part, kind, shape)[0] for part in (real, imag)]
    return _complex(c, (one, other))


def binary(c: Any, sign: str, one: Any, other: Any) -> Any:
    """Returns `one sign other`; == and != give bools.

    Raises:
        UnsupportedError: the operator has no meaning for complex numbers.
    """
    row = row_of_sign(sign)
    if row is None:
        refuse(sign, one, other)
    return computed(c, row, one, other)


def unary(c: Any, sign: str, value: Any) -> Any:
    """Returns `sign value`."""
    if sign not in "+-":
        refuse(sign, value)
    return value if sign == "+" else computed(c, FUNCTIONS["negative"], value)


def is_operand(*values: Any) -> bool:
    """True if numbers have to be computed as complex ones: one is complex, and they are not all constants."""
    return any(map(is_complex, values)) and any(isinstance(value, (Complex, Number)) for value in values)


def attribute(c: Any, value: Complex, name: str) -> Any:
    """Returns the parts, the type or the shape of a number; None for another name."""
    if name in ("real", "imag"):
        return value[name == "imag"]
    dtype, shape = OF_SCALAR[whole_of(Complex([Kind(c.element_type(value[0]))]))], c.shape(value)
    whole = BlockType(dtype, shape) if shape else dtype
    return {"dtype": dtype, "type": whole, "shape": shape}.get(name)


# -- functions of the language ----------------------------------------------------------------------------------------


def refuse(what: str, *values: Any) -> NoReturn:
    """Raises UnsupportedError for an operation that complex numbers do not have."""
    got = " and ".join(map(describe, values))
    order = (
        "complex numbers have no order; compare tl.abs(z), " if what in ("<", "<=", ">", ">=") else "take the parts, "
    )
    raise UnsupportedError(f"{what} takes real numbers; got {got}; {order}z.real or z.imag")


def takes_complex(function: BlockFunction) -> BlockFunction:
    """Makes a function also one of complex numbers, which its definition builds."""
    function.emit_complex = function.emit
    return function


def complex_by_row(function: BlockFunction, row: ElementFunction) -> BlockFunction:
    """Makes a function also one of complex numbers, by a row of the registry, if that takes them."""
    if row.takes("c"):
        function.emit_complex = lambda c, *values: computed(c, row, *values)
    return function


def complex_by_parts(function: BlockFunction, n_values: int = 1) -> BlockFunction:
    """Makes a function also one of complex numbers, whose parts it is applied to.

    Args:
        n_values: the number of arguments that are such values; all are made complex.
    """

    def emit(c: Any, *args: Any, **named: Any) -> Any:
        given, rest = args[:n_values], args[n_values:]
        kind = part_type(c, *given)
        pairs = [pair(c, value, kind, c.shape(value)) for value in given]
        results = [
            function.emit(c, *[c.number(numbers[at]) for numbers in pairs], *map(_part, rest), **named)
            for at in range(2)
        ]
        return _joined(*results)

    function.emit_complex = emit
    return function


def _part(option: Any) -> Any:
    """Returns the dtype of the parts for a complex dtype; another option as it is."""
    return OF_SCALAR[PARTS[option.scalar_type]] if is_complex_dtype(option) else option


def _joined(one: Any, other: Any) -> Any:
    """Returns complex numbers for their parts, or for tuples of these."""
    if is_sequence(one):
        return tuple([_joined(*parts) for parts in zip(one, other, strict=True)])
    return Complex((one, other))


def is_complex_dtype(dtype: Any) -> bool:
    """True for the dtype of complex numbers."""
    return isinstance(dtype, Dtype) and dtype in COMPLEX.values()


@takes_complex
@block_function
def conj(c: Any, z: Any) -> Any:
    """The complex conjugate; a real number unchanged."""
    return computed(c, FUNCTIONS["conjugate"], z) if is_complex(z) else z


OWN[complex] = takes_complex(block_function(of_parts))
