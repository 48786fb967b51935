"""Products with scales: all formats, packed along either axis, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError, dtypes
from vkcompute.float_formats import FloatFormat

HALVES = np.float64([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
FORMATS = {
    "e5m2": dtypes.small_float("float8_e5m2").format,
    "e4m3": dtypes.small_float("float8_e4m3fn").format,
    "bf16": dtypes.BFLOAT16.format,
    "fp16": FloatFormat(16, 10, -14, 0x7E00, 0x7C00),
}


@triton.jit
def product(a_ptr, sa_ptr, b_ptr, sb_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, ROWS: tl.constexpr,
            K: tl.constexpr, PACK: tl.constexpr = True):  # fmt: skip
    rows_of_a: tl.constexpr = ROWS if PACK else ROWS // 2
    inner_of_a: tl.constexpr = K // 2 if A == "e2m1" and PACK else K
    inner_of_b: tl.constexpr = K // 2 if B == "e2m1" and PACK else K
    m, n, s = tl.arange(0, rows_of_a), tl.arange(0, rows_of_a), tl.arange(0, K // 32)
    a = tl.load(a_ptr + m[:, None] * inner_of_a + tl.arange(0, inner_of_a)[None, :])
    b = tl.load(b_ptr + tl.arange(0, inner_of_b)[:, None] * rows_of_a + n[None, :])
    at = tl.arange(0, ROWS)
    if sa_ptr is not None:
        sa_ptr = tl.load(sa_ptr + at[:, None] * (K // 32) + s[None, :])
    if sb_ptr is not None:
        sb_ptr = tl.load(sb_ptr + at[:, None] * (K // 32) + s[None, :])
    acc = tl.full((ROWS, ROWS), 1.0, tl.float32)
    acc = tl.dot_scaled(a, sa_ptr, A, b, sb_ptr, B, acc, lhs_k_pack=PACK, rhs_k_pack=PACK)
    tl.store(out_ptr + at[:, None] * ROWS + at[None, :], acc)


def operand(rng: np.random.Generator, form: str, shape: tuple[int, int], axis: int) -> tuple[Any, Any]:
    """Returns the bits of random numbers, those of 4 bits packed along an axis, and the numbers."""
    if form == "e2m1":
        codes = rng.integers(0, 16, shape, np.uint8)
        low, high = codes.take(range(0, shape[axis], 2), axis), codes.take(range(1, shape[axis], 2), axis)
        return low | high << 4, HALVES[codes]
    bits = FORMATS[form].encoded(rng.normal(size=shape))
    return bits, FORMATS[form].decoded(bits).astype(np.float64)


def factors(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    scale = rng.integers(124, 131, (n, k // 32), np.uint8)
    return scale, np.repeat(2.0 ** (scale.astype(np.float64) - 127), 32, 1)


@pytest.mark.rotates
@pytest.mark.parametrize(
    ("left", "right", "scaled", "along_inner"),
    [
        ("e5m2", "e4m3", "both", True),
        ("e2m1", "e2m1", "both", True),
        ("e2m1", "e2m1", "both", False),
        ("e2m1", "bf16", "left", True),
        ("fp16", "e4m3", "right", True),
    ],
)
def test_products_with_scales(
    machine: vkcompute.Runtime | None, left: str, right: str, scaled: str, along_inner: bool
) -> None:
    rng, rows, k = np.random.default_rng(0), 16, 32
    a, x = operand(rng, left, (rows, k), 1 if along_inner else 0)
    b, y = operand(rng, right, (k, rows), 0 if along_inner else 1)
    (sa, fa), (sb, fb) = factors(rng, rows, k), factors(rng, rows, k)
    (sa, fa), (sb, fb) = (sa, fa) if scaled != "right" else (None, 1), (sb, fb) if scaled != "left" else (None, 1)
    args = (a, sa, b, sb, np.zeros((rows, rows), np.float32))
    *_, result = run(machine, product, (1,), args, A=left, B=right, ROWS=rows, K=k, PACK=along_inner)
    wanted = 1 + (x * fa) @ (y * np.transpose(fb))
    if "16" in left + right:  # a factor of 2**-3 makes no float16 subnormal here
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-4)
    else:
        np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-5)


@pytest.mark.pure
def test_scales_of_255_are_nan_and_of_0_the_least_power() -> None:
    a, b = np.full((32, 64), 0x3C, np.uint8), np.full((64, 32), 0x3C, np.uint8)  # ones
    sa, sb = np.full((32, 2), 127, np.uint8), np.full((32, 2), 127, np.uint8)
    sa[0, 1], sa[1], sb[1] = 255, 0, 247
    *_, result = run(
        None, product, (1,), (a, sa, b, sb, np.zeros((32, 32), np.float32)), A="e5m2", B="e5m2", ROWS=32, K=64
    )
    assert np.isnan(result[0]).all()
    assert result[1, 1] == 1 + 64 * 2.0**-7
    assert result[2, 2] == 65


@triton.jit
def wrong(x_ptr, HOW: tl.constexpr):
    a, b = tl.full((32, 64), 0, tl.uint8), tl.full((64, 32), 0, tl.uint8)
    s, wide = tl.full((32, 2), 0, tl.uint8), tl.full((32, 4), 0, tl.uint8)
    if HOW == "factor":
        x = tl.dot_scaled(a, wide, "e5m2", b, s, "e5m2")
    elif HOW == "scale":
        x = tl.dot_scaled(a, wide, "e5m2", b, wide, "e5m2")
    elif HOW == "format":
        x = tl.dot_scaled(a, s, "e3m4", b, s, "e5m2")
    elif HOW == "inner":
        x = tl.dot_scaled(a, s, "e2m1", b, s, "e5m2")
    elif HOW == "pack":
        x = tl.dot_scaled(a, s, "e5m2", b, s, "e5m2", lhs_k_pack=False)
    elif HOW == "dtype":
        x = tl.dot_scaled(a, s, "bf16", b, s, "e5m2")
    else:
        x = tl.dot_scaled(a, s.to(tl.int32), "e5m2", b, s, "e5m2")
    tl.store(x_ptr, tl.sum(x))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("factor", "same scale factor; .lhs: 16 vs rhs: 32."),
        ("scale", "one per 32 elements; got a block of uint8.32, 4. for a block of uint8.32, 64."),
        ("format", "lhs_format is one of 'e5m2'"),
        ("inner", "the inner axes have as many elements"),
        ("pack", "lhs_k_pack=False is for the format 'e2m1'"),
        ("dtype", "lhs of 'bf16' has bf16, or uint16"),
        ("type", "lhs_scale is a block of uint8"),
    ],
)
def test_wrong_operands(how: str, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        run(None, wrong, (1,), (np.zeros(1, np.float32),), HOW=how)
