"""Matrix products of the block language."""

from __future__ import annotations

import math
from typing import Any

from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.complex_blocks import pair, part_type, takes_complex
from vkcompute.blocks.compiler.functions import block_function
from vkcompute.blocks.compiler.refusals import check_choices
from vkcompute.blocks.compiler.types import OF_SCALAR, scalar_of
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT16, FLOAT32, INT32, Scalar, Value
from vkcompute.jit.frontend.values import Complex, is_complex
from vkcompute.tile import BFLOAT16


@takes_complex
@block_function
def dot(
    c: BlockCompiler,
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = None,
) -> Any:
    """The matrix product of blocks (m, k) and (k, n), added to `acc`, in float32 (int32 for integers).

    Axes in front are those of a stack of matrices. Sums of float16 have `out_dtype`, or the dtype of `acc`.

    Products are exact for float16 and floats of 8 bits, and rounded with the sum for float32, whatever precision is
    asked for.
    """
    check_choices(input_precision=input_precision)
    if input_precision is not None and allow_tf32 is not None:
        raise UnsupportedError("tl.dot takes input_precision or allow_tf32; got both; drop allow_tf32")
    if any(map(is_complex, (input, other, acc))):
        return _complex_product(c, input, other, acc, out_dtype)
    one, two = c.shape(input), c.shape(other)
    if len(one) < 2 or len(one) != len(two) or one[-1] != two[-2] or one[:-2] != two[:-2]:
        raise UnsupportedError(
            "tl.dot takes blocks of shapes (m, k) and (k, n), or (stack, m, k) and (stack, k, n); got "
            f"{describe(input)} and {describe(other)}"
        )
    kinds = c.element_type(input), c.element_type(other)
    if all(OF_SCALAR[kind].is_fp8() for kind in kinds):  # which float16 holds exactly
        input, other = (c.number(c.builder.cast(operand.value, FLOAT16)) for operand in (input, other))
        kinds = FLOAT16, FLOAT16
    if kinds[0].kind in "iu" and kinds[0].bits != 8 and c.is_users():
        raise UnsupportedError(f"tl.dot takes floats and integers of 8 bits; got {describe(input)}; convert the blocks")
    if kinds[0] is not kinds[1] or kinds[0] is BOOL:
        raise UnsupportedError(f"tl.dot takes blocks of one dtype; got {describe(input)} and {describe(other)}")
    sums = _sums(c, kinds[0], acc, out_dtype)
    shape = *one[:-1], two[-1]
    if acc is not None and (c.shape(acc) != shape or c.element_type(acc) is not sums):
        raise UnsupportedError(f"acc is a block of {OF_SCALAR[sums]}{list(shape)}; got {describe(acc)}")
    wide = FLOAT32 if sums.kind == "f" and sums.bits == 16 else sums
    start = c.builder.full(c.builder.const(0, wide), shape) if acc is None else c.builder.cast(acc.value, wide)
    product = c.builder.dot(*[_stacked(c, value, len(shape)) for value in (input.value, other.value, start)])
    return c.number(c.builder.cast(c.builder.reshape(product, shape), sums))


def _complex_product(c: BlockCompiler, input: Any, other: Any, acc: Any, out_dtype: Any) -> Complex:
    """Returns the product of complex blocks, by four of their parts."""
    if out_dtype is not None:
        raise UnsupportedError("tl.dot of complex blocks takes no out_dtype; write tl.dot(a, b).to(dtype)")
    given = [value for value in (input, other, acc) if value is not None]
    kind = part_type(c, *given)
    parts = [map(c.number, pair(c, value, kind, c.shape(value))) for value in given]
    (a, b), (x, y), *rest = parts
    re, im = rest[0] if rest else (None, None)
    real = dot.emit(c, a, x, re)
    return Complex([dot.emit(c, c.unary("-", b), y, real), dot.emit(c, b, x, dot.emit(c, a, y, im))])


def _sums(c: BlockCompiler, kind: Scalar, acc: Any, out_dtype: Any) -> Scalar:
    """Returns the dtype of sums. That of bytes and of floats but float16 is fixed, as in Triton.

    Raises:
        UnsupportedError: `out_dtype` is none, or bfloat16.
    """
    chosen = None if out_dtype is None else scalar_of(out_dtype)
    if chosen is BFLOAT16:
        raise UnsupportedError("out_dtype is no tl.bfloat16; write tl.dot(a, b).to(tl.bfloat16)")
    if kind.kind == "f" and kind is not FLOAT16:
        return FLOAT32 if kind.bits < 64 else kind
    if kind.bits == 8:
        return INT32
    if chosen is None and kind is FLOAT16 and acc is not None and c.element_type(acc) is FLOAT16:
        return FLOAT16
    return chosen or (INT32 if kind.kind in "iu" else FLOAT32)


def _stacked(c: BlockCompiler, value: Value, n_axes: int) -> Value:
    """Returns a block with at most one axis in front of its matrices."""
    shape = c.shape(c.number(value))
    return value if n_axes < 4 else c.builder.reshape(value, (math.prod(shape[:-2]), *shape[-2:]))
