"""Matrix products of the block language."""

from __future__ import annotations

from typing import Any

from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.functions import block_function
from vkcompute.blocks.compiler.types import OF_SCALAR, scalar_of
from vkcompute.blocks.language.choices import check_choices
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, INT32, Scalar


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

    Blocks of three axes are stacks of as many matrices.

    Products are exact for float16, and rounded with the sum for float32, whatever precision is asked for.
    """
    check_choices(input_precision=input_precision)
    one, two = c.shape(input), c.shape(other)
    if len(one) not in (2, 3) or len(one) != len(two) or one[-1] != two[-2] or one[:-2] != two[:-2]:
        raise UnsupportedError(
            "tl.dot takes blocks of shapes (m, k) and (k, n), or (stack, m, k) and (stack, k, n); got "
            f"{describe(input)} and {describe(other)}"
        )
    kinds = c.element_type(input), c.element_type(other)
    if kinds[0] is not kinds[1] or kinds[0] is BOOL:
        raise UnsupportedError(f"tl.dot takes blocks of one dtype; got {describe(input)} and {describe(other)}")
    sums = scalar_of(out_dtype) if out_dtype is not None else _sums(kinds[0])
    shape = *one[:-1], two[-1]
    if acc is not None and (c.shape(acc) != shape or c.element_type(acc) is not sums):
        raise UnsupportedError(f"acc is a block of {OF_SCALAR[sums]}{list(shape)}; got {describe(acc)}")
    wide = FLOAT32 if sums.kind == "f" and sums.bits == 16 else sums
    start = c.builder.full(c.builder.const(0, wide), shape) if acc is None else c.builder.cast(acc.value, wide)
    return c.number(c.builder.cast(c.builder.dot(input.value, other.value, start), sums))


def _sums(kind: Scalar) -> Scalar:
    return INT32 if kind.kind in "iu" else FLOAT32 if kind.bits < 64 else kind
