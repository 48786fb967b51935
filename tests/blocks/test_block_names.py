"""Names of the language: the table in docs/blocks.md is right, and wrong words are errors, interpreted or not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError
from vkcompute.blocks.language import libdevice
from vkcompute.compat.triton.refused import REFUSED

PAGE = Path(__file__).parents[2] / "docs/blocks.md"


def rows() -> dict[str, set[str]]:
    table = PAGE.read_text(encoding="utf-8").partition("| topic | names | state |")[2].splitlines()[2:]
    return {
        row.split("|")[1].strip(): set(re.findall(r"`(\w+)`", row.split("|")[2])) for row in table if row[:1] == "|"
    }


@pytest.mark.pure
def test_the_table_has_each_name() -> None:
    result = rows()
    assert result.pop("refused") == {*REFUSED}
    assert set().union(*result.values()) == {*tl.__all__} - {*REFUSED}
    assert sum(map(len, result.values())) == len(set().union(*result.values()))


@triton.jit
def assembly(x_ptr):
    tl.inline_asm_elementwise("nop", "", [], tl.int32, True, 1)


@triton.jit
def misspelled(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr, masc=True))


@triton.jit
def misspelled_range(x_ptr):
    for _ in tl.range(3, num_stage=2):
        tl.store(x_ptr, 1)


@triton.jit
def misspelled_static_range(x_ptr):
    for _ in tl.static_range(3, stop=2):
        tl.store(x_ptr, 1)


@triton.jit
def unknown(x_ptr):
    tl.store(x_ptr, tl.lode(x_ptr))


@triton.jit
def unknown_method(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr).summ())


@triton.jit
def unknown_of_dtype(x_ptr):
    if x_ptr.dtype.element_ty.is_real():
        tl.store(x_ptr, 1)


@triton.jit
def unknown_of_pointer_type(x_ptr):
    tl.store(x_ptr, x_ptr.dtype.element_type)


@triton.jit
def in_a_branch(x_ptr, n):
    if n > 3:
        tl.store(x_ptr, tl.lode(x_ptr))


@pytest.mark.parametrize(
    ("program", "args", "message"),
    [
        (assembly, (), "tl.inline_asm_elementwise is not supported: it has no portable assembly"),
        (
            misspelled,
            (),
            "tl.load: got an unexpected keyword argument 'masc'; did you mean mask",
        ),
        (misspelled_range, (), "tl.range has no parameter num_stage"),
        (misspelled_static_range, (), "tl.static_range has no parameter stop"),
        (unknown, (), "has no attribute lode"),
        (unknown_method, (), "has no attribute summ"),
        (unknown_of_dtype, (), "fp32|int32 has no attribute is_real"),
        (unknown_of_pointer_type, (), "has no attribute element_type"),
        (in_a_branch, (2,), "has no attribute lode"),
    ],
)
def test_wrong_words(
    machine: vkcompute.Runtime | None, program: triton.JITFunction, args: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(KernelError, match=message) as caught:
        run(machine, program, (1,), (np.zeros(4, np.int32), *args))
    assert "^" in str(caught.value)


@triton.jit
def odds_and_ends(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.add(tl.sub(x, 1), tl.mul(x, 2)))
    tl.store(out_ptr + N + at, tl.squeeze(tl.unsqueeze(x, 0), 0) + tl.to_tensor(1))
    i, j = tl.swizzle2d(at // 4, at % 4, 4, 4, 2)
    tl.store(out_ptr + 2 * N + at, i * 4 + j)
    tl.store(out_ptr + 3 * N + at, tl.extra.libdevice.clz(x) + libdevice.ffs(x))
    tl.store(out_ptr + 4 * N + at, tl.map_elementwise(doubled, x))
    tl.store(out_ptr + 5 * N, tl.reduce_or(x, 0))
    tl.atomic_store(out_ptr + 5 * N + 1, tl.atomic_load(x_ptr + 3))
    while tl.condition(tl.load(out_ptr + 5 * N + 2) < 3):
        tl.store(out_ptr + 5 * N + 2, tl.load(out_ptr + 5 * N + 2) + 1)


@triton.jit
def doubled(x):
    return x * 2


def test_further_functions(machine: vkcompute.Runtime | None) -> None:
    x = np.arange(16, dtype=np.int32)
    _, result = run(machine, odds_and_ends, (1,), (x, np.zeros((6, 16), np.int32), 16))
    np.testing.assert_array_equal(result[0], 3 * x - 1)
    np.testing.assert_array_equal(result[1], x + 1)
    np.testing.assert_array_equal(
        result[2].reshape(4, 4), [[0, 4, 1, 5], [2, 6, 3, 7], [8, 12, 9, 13], [10, 14, 11, 15]]
    )
    bits = [(32 - int(n).bit_length(), (int(n) & -int(n)).bit_length()) for n in x]
    np.testing.assert_array_equal(result[3], np.sum(bits, 1))
    np.testing.assert_array_equal(result[4], x * 2)
    assert result[5, :3].tolist() == [15, 3, 3]


@triton.jit
def seldom_used(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.max_constancy(tl.max_contiguous(tl.arange(0, N), N), 1)
    x = tl.expect_zero(tl.load(x_ptr + at), at < 0)
    tl.store(out_ptr + at, tl.fma(x, 2.0, tl.ceil(x)))
    tl.store(out_ptr + N + at, tl.bitonic_merge(tl.where(at < N // 2, x, -x), descending=True))
    rows = tl.make_tensor_descriptor(out_ptr, [4, N], [N, 1], [1, N])
    tl.store_tensor_descriptor(rows, [2, 0], tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)[None, :])
    if N <= tl.TRITON_MAX_TENSOR_NUMEL and not tl.target_info.is_cuda():
        tl.store(out_ptr + 3 * N + at, x)


@triton.jit
def words(out_ptr, seed, N: tl.constexpr):
    at, zero = tl.arange(0, N).to(tl.uint32), tl.zeros((N,), tl.uint32)
    u1, u2, _, _ = tl.rand4x(seed, at)
    n1, _, _, _ = tl.randn4x(seed, at)
    n2, _ = tl.pair_uniform_to_normal(u1, u2)
    a, _, _, _ = tl.philox_impl(at, zero, zero, zero, zero + seed.to(tl.uint32), zero, 10)
    tl.store(out_ptr + at, u1 - tl.rand(seed, at))
    tl.store(out_ptr + N + at, n1 - tl.randn(seed, at))
    tl.store(out_ptr + 2 * N + at, n2 - n1)
    tl.store(out_ptr + 3 * N + at, (a != tl.randint(seed, at).to(tl.uint32)).to(tl.float32))


@triton.jit
def bits_of(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.atomic_and(out_ptr + tl.zeros((N,), tl.int32), x)
    tl.atomic_xor(out_ptr + 1 + tl.zeros((N,), tl.int32), x)


def test_functions_that_programs_seldom_use(machine: vkcompute.Runtime | None) -> None:
    x = np.linspace(-3.3, 4.7, 16, dtype=np.float32)
    _, result = run(machine, seldom_used, (1,), (x, np.zeros((4, 16), np.float32), 16))
    np.testing.assert_allclose(result[0], 2 * x + np.ceil(x), rtol=1e-6)
    np.testing.assert_array_equal(result[1], np.sort(np.r_[x[:8], -x[8:]])[::-1])
    np.testing.assert_array_equal(result[2], np.maximum(x, 0))
    np.testing.assert_array_equal(result[3], x)
    (result,) = run(machine, words, (1,), (np.ones((4, 16), np.float32), 7, 16))
    np.testing.assert_array_equal(result, np.zeros((4, 16)))
    given = np.array([7, 15, 6, 14], np.int32)
    _, result = run(machine, bits_of, (1,), (given, np.array([-1, 0], np.int32), 4))
    assert result.tolist() == [np.bitwise_and.reduce(given), np.bitwise_xor.reduce(given)]


@triton.jit
def wide_offsets(out_ptr, seed, N: tl.constexpr):
    at = tl.arange(0, N)
    far = at.to(tl.int64) + (1 << 32)
    tl.store(out_ptr + at, tl.randint(seed, at))
    tl.store(out_ptr + N + at, tl.randint(seed, far))
    a, _, _, _ = tl.philox(seed, at, tl.full((N,), 1, tl.int32), at * 0, at * 0)
    tl.store(out_ptr + 2 * N + at, a)


def test_offsets_of_64_bits_have_random_numbers_of_their_own(machine: vkcompute.Runtime | None) -> None:
    (result,) = run(machine, wide_offsets, (1,), (np.zeros((3, 16), np.uint32), 7, 16))
    assert not (result[0] == result[1]).any()
    np.testing.assert_array_equal(result[1], result[2])


@triton.jit
def liberties(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 2 * N)).reshape([2] * 1 + [N])
    count = 0
    for _ in range(3):
        count += 1
    limit = tl.constexpr(2)
    if hasattr(x, "dtype") and not hasattr(x, "data") and isinstance(count, tl.tensor):
        x = getattr(tl, "maximum")(x, getattr(x, "nothing", 4))  # noqa: B009
    zero = 0
    if tl.full((1,), count, tl.int32) > limit:
        x += zero.to(tl.int32) + tl.math.fdiv(4.0, 2.0).to(tl.int32)
    tl.store(out_ptr + tl.arange(0, 2 * N), x.reshape(x.shape[0] * x.shape[1]))


def test_liberties_of_python(machine: vkcompute.Runtime | None) -> None:
    x = np.arange(8, dtype=np.int32)
    _, result = run(machine, liberties, (1,), (x, x * 0, 4))
    np.testing.assert_array_equal(result, np.maximum(x, 4) + 2)


@triton.jit
def mixed_shift(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, (tl.load(x_ptr + at) >> tl.load(y_ptr + at)).to(tl.int32, bitcast=True))


def test_a_shift_keeps_the_sign_of_its_left_operand(machine: vkcompute.Runtime | None) -> None:
    x, y = np.arange(-8, 8, dtype=np.int32), np.arange(16, dtype=np.uint32)
    *_, result = run(machine, mixed_shift, (1,), (x, y, x * 0, 16))
    np.testing.assert_array_equal(result, x >> y.astype(np.int32))


@triton.jit
def counted(x_ptr):
    tl.atomic_add(x_ptr + tl.arange(0, 4), -1)


def test_atomic_operations_on_reinterpreted_integers(gpu: vkcompute.Runtime) -> None:
    x = gpu.array(np.array([0, 1, 2, 3], np.uint32))
    counted[(2,)](triton.reinterpret(x, tl.int32))
    np.testing.assert_array_equal(x.numpy().view(np.int32), [-2, -1, 0, 1])


@triton.constexpr_function
def cube(n, *, plus=0):
    return n**3 + plus


@triton.jit
def of_constants(out_ptr, N: tl.constexpr):
    WIDE: tl.constexpr = triton.next_power_of_2(N)
    at = tl.arange(0, WIDE)
    tl.store(out_ptr + at, triton.cdiv(N, 4) + cube(N, plus=1))


@triton.jit
def of_variables(out_ptr, n):
    tl.store(out_ptr, triton.cdiv(n, 4))


def test_functions_that_python_computes(machine: vkcompute.Runtime | None) -> None:
    assert cube(2) == 8
    (result,) = run(machine, of_constants, (1,), (np.zeros(8, np.int32), 5))
    assert result.tolist() == [2 + 126] * 8
    with pytest.raises(KernelError, match=r"cdiv is computed at compile time, from constants; got .*; write tl.cdiv"):
        run(machine, of_variables, (1,), (np.zeros(8, np.int32), 5))


def plain(constant):
    """Returns the value of a constant; block programs cannot call it."""
    return constant.value if isinstance(constant, tl.constexpr) else constant


@tl.constexpr
def integer_of(bits, signed):
    names = [f"{prefix}int{plain(bits)}" for prefix in ("", "u")]
    return getattr(tl, names[0] if signed.value else names[1])


@tl.constexpr
def sign_bit(bits):
    return 1 << (plain(bits) - 1)


@tl.constexpr
def wide_type(dtype, none=None):
    if dtype.is_fp16() and none is None:
        return tl.float32
    raise LookupError(f"no type is wider than {dtype}")


@triton.jit
def of_decorated(out_ptr, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    bits: tl.constexpr = x.dtype.primitive_bitwidth
    words = x.to(integer_of(bits, False), bitcast=True)
    mask: tl.constexpr = sign_bit(bits)
    tl.store(out_ptr + tl.arange(0, N), tl.where((words & mask) != 0, -1.0, x.to(wide_type(x.dtype))))


def test_functions_decorated_as_constants(machine: vkcompute.Runtime | None) -> None:
    x = np.array([1, -2, 3, -0.0], np.float16)
    result, _ = run(machine, of_decorated, (1,), (np.zeros(4, np.float32), x, 4))
    assert result.tolist() == [1, -1, 3, -1]
    with pytest.raises(KernelError, match=r"wide_type: no type is wider than fp32"):
        run(machine, of_decorated, (1,), (np.zeros(4, np.float32), x.astype(np.float32), 4))


@triton.jit
def of_variable_bits(out_ptr, n):
    tl.store(out_ptr, sign_bit(n))


def test_functions_decorated_as_constants_take_constants(machine: vkcompute.Runtime | None) -> None:
    with pytest.raises(KernelError, match="sign_bit is computed at compile time, from constants; got"):
        run(machine, of_variable_bits, (1,), (np.zeros(1, np.int32), 5))


@triton.constexpr_function
def refused(n):
    raise ValueError(f"{n} is refused")


@triton.jit
def of_refused(out_ptr, N: tl.constexpr):
    tl.store(out_ptr, refused(N))


def test_errors_of_functions_that_python_computes(machine: vkcompute.Runtime | None) -> None:
    with pytest.raises(KernelError, match="refused: 5 is refused"):
        run(machine, of_refused, (1,), (np.zeros(1, np.int32), 5))
