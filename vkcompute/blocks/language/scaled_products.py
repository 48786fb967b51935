"""Matrix products of narrow floats with scales: the microscaling formats mxfp4, mxfp8 and nvfp4.

The source is the Open Compute Project: OCP Microscaling Formats (MX) Specification 1.0 (2023). Elements are float8e5,
float8e4nv or e2m1, and 32 of them have a power of two as their scale. nvfp4 has a float8e4nv per 16 elements.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.functions import block_function
from vkcompute.blocks.compiler.types import DTYPES, OF_SCALAR, scalar_of
from vkcompute.blocks.language.products import dot
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import FLOAT16, FLOAT32, INT32, SCALARS, UINT32, Scalar, Value
from vkcompute.jit.frontend.values import Number
from vkcompute.tile import BFLOAT16, shape_of

_FORMATS = {
    "e5m2": DTYPES["float8e5"].scalar_type,
    "e4m3": DTYPES["float8e4nv"].scalar_type,
    "bf16": BFLOAT16,
    "fp16": FLOAT16,
    "e2m1": SCALARS["uint8"],
}
"""The types of elements; those of 4 bits are two in a uint8, the first one in its lower half."""
_SCALES = {SCALARS["uint8"]: 32, SCALARS["int8"]: 32, DTYPES["float8e4nv"].scalar_type: 16}
"""Types of scales -> the number of elements along the inner axis that have one in common."""


class Operand(NamedTuple):
    """An operand of a product.

    Attributes:
        name: of the argument.
        value: the block.
        scale: the block of scales, or None.
        form: the name of its elements' format.
        inner: its inner axis.
        is_packed: True if two elements of 4 bits are packed along the inner axis; False along the other one.
    """

    name: str
    value: Any
    scale: Any
    form: Any
    inner: int
    is_packed: bool


@block_function
def dot_scaled(
    c: BlockCompiler,
    lhs: Any,
    lhs_scale: Any,
    lhs_format: Any,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: Any,
    acc: Any = None,
    fast_math: Any = False,
    lhs_k_pack: Any = True,
    rhs_k_pack: Any = True,
    out_dtype: Any = None,
) -> Any:
    """The product of blocks (m, k) and (k, n) times their scales (m, k / 32) and (n, k / 32), added to `acc`.

    Formats are "e5m2", "e4m3", "e2m1", "bf16" and "fp16". Scaled elements are rounded to bfloat16, or to float16 beside
    "fp16", and multiplied as by `tl.dot`. A scale of 255 is NaN; `fast_math` has no effect.
    """
    n = len(c.shape(lhs))
    if n not in (2, 3) or len(c.shape(rhs)) != n:
        raise UnsupportedError(
            f"tl.dot_scaled takes two blocks of 2 or 3 axes; got {describe(lhs)} and {describe(rhs)}"
        )
    left = Operand("lhs", lhs, lhs_scale, lhs_format, n - 1, bool(lhs_k_pack))
    right = Operand("rhs", rhs, rhs_scale, rhs_format, n - 2, bool(rhs_k_pack))
    if out_dtype is not None and scalar_of(out_dtype) is not FLOAT32:
        raise UnsupportedError(f"tl.dot_scaled has sums of float32; got out_dtype={out_dtype}; convert the result")
    kind = FLOAT16 if "fp16" in (lhs_format, rhs_format) else BFLOAT16
    one, two = (_numbers(c, operand) for operand in (left, right))
    if shape_of(one.type)[n - 1] != shape_of(two.type)[n - 2]:
        raise UnsupportedError(
            f"the inner axes have as many elements; got {describe(lhs)} of {lhs_format} and {describe(rhs)} of "
            f"{rhs_format}"
        )
    _check_groups(c, left, right)
    scaled = [_scaled(c, operand, value, kind) for operand, value in ((left, one), (right, two))]
    return dot.emit(c, *scaled, acc)


def _numbers(c: BlockCompiler, operand: Operand) -> Value:
    """Returns the elements of an operand as float32."""
    name, value, form = operand.name, operand.value, operand.form
    if form not in _FORMATS:
        raise UnsupportedError(f"{name}_format is one of {', '.join(map(repr, _FORMATS))}; got {describe(form)}")
    if not operand.is_packed and form != "e2m1":
        raise UnsupportedError(f"{name}_k_pack=False is for the format 'e2m1'; got {form!r}")
    kind, wanted = c.element_type(value), _FORMATS[form]
    bits = SCALARS[f"uint{wanted.bits}"]
    if kind not in (wanted, bits):
        raise UnsupportedError(
            f"{name} of {form!r} has {OF_SCALAR[wanted]}, or {OF_SCALAR[bits]}; got {describe(value)}"
        )
    if form == "e2m1":
        return _of_halves(c, _halves(c, value.value, operand.inner if operand.is_packed else _outer(operand)))
    return c.builder.cast(c.builder.bitcast(value.value, wanted), FLOAT32)


def _outer(operand: Operand) -> int:
    """Returns the axis of an operand that the product keeps."""
    return operand.inner - 1 if operand.name == "lhs" else operand.inner + 1


def _halves(c: BlockCompiler, value: Value, axis: int) -> Value:
    """Returns the two halves of each byte, one after the other along an axis, as uint32."""
    b, shape = c.builder, shape_of(value.type)
    before, after = shape[: axis + 1], shape[axis + 1 :]
    pairs = b.broadcast(b.reshape(b.cast(value, UINT32), (*before, 1, *after)), (*before, 2, *after))
    shifts = b.compute("mul", b.cast(b.arange(0, 2), UINT32), b.full(b.const(4, UINT32), (2,)))
    shifts = b.reshape(shifts, (*[1] * len(before), 2, *[1] * len(after)))
    moved = b.compute("shr", pairs, b.broadcast(shifts, shape_of(pairs.type)))
    halves = b.compute("and", moved, b.full(b.const(15, UINT32), shape_of(pairs.type)))
    return b.reshape(halves, (*shape[:axis], 2 * shape[axis], *after))


def _of_halves(c: BlockCompiler, code: Value) -> Value:
    """Returns the numbers of e2m1 with these bits: 0, 0.5, 1, 1.5, 2, 3, 4 and 6, and the negative ones."""
    b, shape = c.builder, shape_of(code.type)

    def number(value: Any, kind: Scalar = UINT32) -> Value:
        return b.full(b.const(value, kind), shape)

    size, sign = b.compute("and", code, number(7)), b.compute("shr", code, number(3))
    small = b.compute("mul", b.cast(b.cast(size, INT32), FLOAT32), number(0.5, FLOAT32))
    normal = b.bitcast(b.compute("add", b.compute("shl", size, number(22)), number(126 << 23)), FLOAT32)
    positive = b.select(b.compute("lt", size, number(2)), small, normal)
    return b.bitcast(b.compute("or", b.bitcast(positive, UINT32), b.compute("shl", sign, number(31))), FLOAT32)


def _group(c: BlockCompiler, operand: Operand) -> int | None:
    """Returns the number of elements that have a scale in common; None without scales."""
    if operand.scale is None:
        return None
    kind = c.element_type(operand.scale)
    if kind not in _SCALES:
        raise UnsupportedError(
            f"{operand.name}_scale is a block of uint8, exponents of two with a bias of 127, or of float8e4nv; got "
            f"{describe(operand.scale)}"
        )
    n = c.shape(operand.value)[operand.inner] * (2 if operand.form == "e2m1" and operand.is_packed else 1)
    return n // c.shape(operand.scale)[-1]


def _check_groups(c: BlockCompiler, left: Operand, right: Operand) -> None:
    """Raises UnsupportedError for scales of a wrong shape."""
    groups = [_group(c, operand) for operand in (left, right)]
    if None not in groups and groups[0] != groups[1]:
        raise UnsupportedError(f"Operands must have the same scale factor; (lhs: {groups[0]} vs rhs: {groups[1]})")
    for operand, group in zip((left, right), groups, strict=True):
        if group is None:
            continue
        shape = c.shape(operand.value)
        n_rows = shape[_outer(operand)] * (2 if operand.form == "e2m1" and not operand.is_packed else 1)
        wanted = _SCALES[c.element_type(operand.scale)]
        if group != wanted or c.shape(operand.scale)[:-1] != (*shape[:-2], n_rows):
            raise UnsupportedError(
                f"{operand.name}_scale has a row of scales per row of lhs and column of rhs, one per {wanted} "
                f"elements; got {describe(operand.scale)} for {describe(operand.value)}"
            )


def _scaled(c: BlockCompiler, operand: Operand, value: Value, kind: Scalar) -> Number:
    """Returns the elements of an operand times their scales."""
    b, shape = c.builder, shape_of(value.type)
    if operand.scale is None:
        return c.number(b.cast(value, kind))
    scale = _scale(c, operand.scale)
    *stack, n_rows, n_groups = shape_of(scale.type)
    group = shape[operand.inner] // n_groups
    if operand.name == "rhs":
        scale = b.permute(scale, (*range(len(stack)), len(stack) + 1, len(stack)))
        wide, split = (*stack, n_groups, 1, n_rows), (*stack, n_groups, group, n_rows)
    else:
        wide, split = (*stack, n_rows, n_groups, 1), (*stack, n_rows, n_groups, group)
    factors = b.reshape(b.broadcast(b.reshape(scale, wide), split), shape)
    return c.number(b.cast(b.compute("mul", value, factors), kind))


def _scale(c: BlockCompiler, scale: Any) -> Value:
    """Returns scales as float32."""
    b, kind = c.builder, c.element_type(scale)
    if kind.kind == "f":
        return b.cast(scale.value, FLOAT32)
    word = b.cast(b.bitcast(scale.value, SCALARS["uint8"]), UINT32)
    shape = shape_of(word.type)

    def number(value: int) -> Value:
        return b.full(b.const(value, UINT32), shape)

    power = b.compute("shl", word, number(23))
    power = b.select(b.compute("eq", word, number(0)), number(1 << 22), power)  # 2**-127, which has no exponent
    power = b.select(b.compute("eq", word, number(0xFF)), number(0x7FC00000), power)
    return b.bitcast(power, FLOAT32)
