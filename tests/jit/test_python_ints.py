"""Python ints beside integers of a type: an argument must fit it, and other ints are computed in at least int32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import module

import vkcompute as vc
from vkcompute.ir import FLOAT32, INT32, SCALARS, UINT8, UINT32
from vkcompute.jit.frontend.type_rules import KernelTypes, settled
from vkcompute.jit.frontend.values import NATURAL, Kind

NARROW = ["int8", "uint8", "int16", "uint16"]
TABLE = (-40_000, -129, -1, 0, 1, 2, 200, 40_000)
FEW = (-1, 300, 5)


@vc.kernel
def clamped(x, out, b):
    out[vc.global_id(0)] = max(0, min(255, x[vc.global_id(0)] + b))


@vc.kernel
def larger(x, out, b):
    out[vc.global_id(0)] = max(x[vc.global_id(0)], b)


@vc.kernel
def smaller(x, out, b):
    out[vc.global_id(0)] = min(x[vc.global_id(0)], b)


@vc.kernel
def quotient(x, out, b):
    out[vc.global_id(0)] = x[vc.global_id(0)] // b


@vc.kernel
def chosen(x, out, b):
    out[vc.global_id(0)] = np.where(x[vc.global_id(0)] > 1, x[vc.global_id(0)], b)


ARGUMENTS = [
    (clamped, "uint8", -50),
    (larger, "uint8", -1),
    (smaller, "int8", 200),
    (quotient, "uint32", -1),
    (chosen, "uint16", 70_000),
    (larger, "uint8", 3_000_000_000),
    (larger, "int32", 3_000_000_000),
    (larger, "int16", -(1 << 40)),
]


def launched(gpu: Any, kernel: Any, x: Any, *args: Any, n: int = 4, dtype: Any = np.int32) -> list[int]:
    """What `n` invocations of kernel(x, out, …) leave in `out`."""
    out = gpu.zeros(n, dtype)
    try:
        kernel[1, n](gpu.array(x), out, *args)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    return out.numpy().tolist()


@pytest.mark.parametrize(("kernel", "dtype", "b"), ARGUMENTS)
def test_an_argument_that_does_not_fit_is_numpys_overflow_error(
    gpu: vc.Runtime, kernel: Any, dtype: str, b: int
) -> None:
    limits = np.iinfo(dtype)
    wide = "int32" if abs(b) < 1 << 31 else "int64"
    message = (
        f"Python integer {b} out of bounds for {dtype}, {limits.min} to {limits.max}: the argument b of "
        f"{kernel.__name__} takes this type from its other operand; pass np.{wide}({b}), or convert the other operand"
    )
    with pytest.raises(OverflowError) as caught:
        launched(gpu, kernel, np.ones(4, dtype), b)
    assert str(caught.value) == message


def test_a_numpy_scalar_is_typed_and_always_fits(gpu: vc.Runtime) -> None:
    x = np.array([1, 100, 200, 4], np.uint8)
    assert launched(gpu, clamped, x, np.int32(-50)) == [0, 50, 150, 0]
    assert launched(gpu, larger, x, np.int32(-1)) == x.tolist()
    assert launched(gpu, smaller, x.astype(np.int8), np.int16(200)) == [1, 100, -56, 4]


def test_each_launch_is_checked_also_repeated_ones(gpu: vc.Runtime) -> None:
    x = np.array([1, 100, 200, 4], np.uint8)
    launched(gpu, larger, x, 0)  # or skipped
    array, out = gpu.array(x), gpu.zeros(4, np.int32)
    for b in (0, 255, 256, 17, -1, 255):
        if 0 <= b <= 255:
            larger[1, 4](array, out, b)
        else:
            with pytest.raises(OverflowError, match=f"Python integer {b} out of bounds for uint8"):
                larger[1, 4](array, out, b)
    assert out.numpy().tolist() == [255] * 4


@vc.kernel
def unrestricted(x, out, b):
    i = vc.global_id(0)
    if x[i] < b:  # by value
        out[i] = vc.uint8(b)
    else:
        y = b
        if i > 1:
            y = x[i]
        out[i] = (b + 0) * x[i] + y + vc.int32(x[i]) * b


def test_comparisons_conversions_joins_and_expressions_do_not_restrict_an_argument(gpu: vc.Runtime) -> None:
    x = [1, 100, 200, 4]
    for b in (-5, 300, 70_000):
        expected = [b % 256 if v < b else b * v + (v if i > 1 else b) + v * b for i, v in enumerate(x)]
        assert launched(gpu, unrestricted, np.array(x, np.uint8), b) == expected


@vc.kernel
def widens(x, out, b):
    y = x[0]
    for _ in range(2):
        y = y + b  # uint8 in the first try of the compiler, which finds the int32 below
        y = vc.int32(y)
    out[vc.global_id(0)] = y


def test_only_the_final_types_restrict(gpu: vc.Runtime) -> None:
    assert launched(gpu, widens, np.array([200], np.uint8), -300) == [-400] * 4


@vc.kernel
def annotated(x: vc.uint8[:], out: vc.int32[:], b: int):
    out[vc.global_id(0)] = x[vc.global_id(0)] + b


def test_an_argument_annotated_as_int_is_checked(gpu: vc.Runtime) -> None:
    x = np.array([1, 2, 3, 4], np.uint8)
    assert launched(gpu, annotated, x, np.int64(3)) == [4, 5, 6, 7]
    with pytest.raises(OverflowError, match="argument b of annotated"):
        launched(gpu, annotated, x, np.int64(256))


# -- ints that are computed in the kernel -----------------------------------------------------------------------------


@vc.kernel
def signs(x, out):
    i = vc.global_id(0)
    out[i] = x[i] // (-1 if x[i] > 1 else 1)


@vc.kernel
def items(x, out):
    i = vc.global_id(0)
    out[i] = max(x[i], FEW[i % 3])


@vc.kernel
def counted(x, out):
    if vc.global_id(0) == 0:
        for k, v in enumerate(x, -1):
            out[k + 1] = v * k


@vc.kernel
def counter(x, out):
    i, k = vc.global_id(0), -1
    while k < i:
        k += 1
    out[i] = x[i] * (k - 2)


@vc.kernel
def derived(x, out, b):
    out[vc.global_id(0)] = x[vc.global_id(0)] * -b + (b - 1)


@pytest.mark.parametrize("dtype", [*NARROW, "uint32", "int32", "int64"])
def test_examples(gpu: vc.Runtime, dtype: str) -> None:
    x = [1, 100, 120, 4]
    expected = {
        signs: [1, -100, -120, -4],
        items: [1, 300, 120, 4],
        counted: [-1, 0, 120, 8],
        counter: [-2, -100, 0, 4],
    }
    for kernel, values in expected.items():
        assert launched(gpu, kernel, np.array(x, dtype)) == values, kernel
    assert launched(gpu, derived, np.array(x, dtype), 300) == [v * -300 + 299 for v in x]


@vc.kernel
def wide(x, at, out):
    i = vc.global_id(0)
    if i < x.size:
        a, k = x[i], TABLE[at[i]]
        divisor = k if k != 0 else 7
        out[i, 0] = a + k
        out[i, 1] = k - a
        out[i, 2] = a * k
        out[i, 3] = a // divisor
        out[i, 4] = a % divisor
        out[i, 5] = min(a, k, 3)
        out[i, 6] = max(-5, k, a)
        out[i, 7] = a & k
        out[i, 8] = a ^ (k | 1)
        out[i, 9] = a if k > 0 else k
        out[i, 10] = a < k
        out[i, 11] = np.where(a > 100, a, k)
        out[i, 12] = a + (k if a > 3 else 300)
        out[i, 13] = (k & 1023) * a
        out[i, 14] = abs(k) + a


@pytest.mark.parametrize("name", [*NARROW, "int32", "uint32"])
@given(data=st.data())
def test_results_are_those_of_wide_types(gpu: vc.Runtime, name: str, data: st.DataObject) -> None:
    limits, n = np.iinfo(name), 32
    edges = st.sampled_from([limits.min, -1, 0, 1, 2, 100, limits.max])
    values = st.one_of(edges.filter(lambda v: v >= limits.min), st.integers(int(limits.min), int(limits.max)))
    x = np.array(data.draw(st.lists(values, min_size=n, max_size=n)), name)
    at = np.array(data.draw(st.lists(st.integers(0, len(TABLE) - 1), min_size=n, max_size=n)), np.int32)
    if name == "int32":
        x[x == limits.min] = 0  # the quotient by -1 overflows
    out = gpu.zeros((n, 15), np.int32)
    try:
        wide[1, n](gpu.array(x), gpu.array(at), out)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    for result, a, k in zip(out.numpy(), x.tolist(), [TABLE[item] for item in at], strict=True):
        divisor = k or 7
        expected = [a + k, k - a, a * k, a // divisor, a % divisor, min(a, k, 3), max(-5, k, a), a & k, a ^ (k | 1)]
        expected += [a if k > 0 else k, a < k, a if a > 100 else k, a + (k if a > 3 else 300), (k & 1023) * a]
        expected.append(abs(k) + a)
        assert result.tolist() == np.array(expected, np.int64).astype(np.int32).tolist(), (a, k)


# -- accumulators -----------------------------------------------------------------------------------------------------


@vc.kernel
def looped(x, out):
    s = 0
    for k in range(4):
        s += x[k]
    out[vc.global_id(0)] = s


@vc.kernel
def straight(x, out):
    s, p = 0, 1
    s += x[0]
    s += x[1]
    s += x[2]
    s += x[3]
    p *= x[1]
    p *= x[2]
    out[vc.global_id(0)] = s if vc.global_id(0) else p


@vc.kernel
def summed(x, out):
    out[vc.global_id(0)] = sum((x[0], x[1], x[2], x[3])) if vc.global_id(0) else math_product(x)


def math_product(x):
    return sum((x[1], 0)) * x[2]


@vc.kernel
def largest(x, out):
    best = 0
    for v in x:
        best = max(best, v)
    out[vc.global_id(0)] = best + best


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "uint32", "int64"])
def test_accumulators_are_at_least_int32(gpu: vc.Runtime, dtype: str) -> None:
    x = np.array([1, 100, 120, 100], dtype)
    assert launched(gpu, looped, x) == [321] * 4
    assert launched(gpu, straight, x) == [12_000, 321, 321, 321]
    assert launched(gpu, summed, x) == [12_000, 321, 321, 321]
    assert launched(gpu, largest, x) == [240] * 4


@vc.kernel
def unsigned(x, out):
    s = 0
    for k in range(4):
        s += x[k]
    n = 0
    while n < 3:
        n += 1
    out[vc.global_id(0)] = (s >> 1) + x[0] * n + x[1] * (n & 1) - x[2] % (n + 4)


@pytest.mark.device_only
def test_natural_ints_keep_uint32(gpu: vc.Runtime) -> None:
    """Devices without 64-bit integers run this, too, so that nothing is skipped."""
    x, out = np.array([1, 2**31, 7, 2**31], np.uint32), gpu.zeros(1, np.uint32)
    unsigned[1, 1](gpu.array(x), out)
    assert out.numpy()[0] == (8 >> 1) + 3 + 2**31 - 0


@pytest.mark.pure
def test_types_of_joins() -> None:
    rules = KernelTypes(FLOAT32)
    joined, started = rules.joined, rules.accumulator
    zero, minus, many = map(rules.constant, (0, -1, 300))
    byte, word = Kind(UINT8), Kind(UINT32)
    assert joined(zero, byte) == joined(byte, zero) == byte
    assert joined(many, byte) == joined(byte, minus) == Kind(INT32)
    assert joined(minus, many) == Kind(INT32, True, (-1, 300))
    assert joined(started(zero), byte) == Kind(INT32)
    assert joined(started(zero), many) == Kind(INT32, True, NATURAL)
    assert joined(minus, word) == Kind(SCALARS["int64"])
    assert joined(started(zero), word) == word


@pytest.mark.pure
def test_an_int_of_unknown_sign_and_uint64_have_no_type() -> None:
    uint64 = SCALARS["uint64"]
    assert settled(Kind(INT32, True, NATURAL), uint64).weak
    with pytest.raises(vc.KernelError, match=r"may be negative meets uint64; convert one of them, as vc\.uint64\(n\)"):
        larger_of_uint64.simulate[1, 1](np.zeros(1, np.uint64), np.zeros(1, np.int32))


@vc.kernel
def larger_of_uint64(x, out):
    out[0] = max(x[0], -1 if x[0] > 3 else 1)


# -- functions of arrays, graphs, plans and caches -------------------------------------------------------------------


@pytest.mark.device_only
def test_functions_of_arrays(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([1, 100, 200, 4], np.uint8))
    add, total = vc.elementwise("x + b"), vc.reduce("a + b", 0)
    try:
        assert add(x, 3).dtype == np.uint8
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    for b in (300, -1, 3_000_000_000):
        for _ in range(2):
            with pytest.raises(OverflowError, match=rf"Python integer {b} out of bounds for uint8, .*b of x \+ b"):
                add(x, b)
    with pytest.raises(OverflowError, match="argument b of"):
        vc.reduce("a + b", 0, map="x + b")(x, 300)
    assert add(x, 255).numpy().tolist() == [0, 99, 199, 3]
    assert total(x).item() == 305
    assert total(x).dtype == np.int32
    assert vc.elementwise("x if c else 0")(x, gpu.array(np.array([1, 0, 1, 0], bool))).dtype == np.uint8
    assert vc.reduce("max(a, b)", -1)(x).item() == 200


@pytest.mark.device_only
def test_a_value_of_a_graph_is_checked_at_each_run(gpu: vc.Runtime) -> None:
    x, out = gpu.array(np.array([1, 100, 200, 4], np.uint8)), gpu.zeros(4, np.int32)
    try:
        with gpu.record(b=7) as graph:
            larger[1, 4](x, out, graph["b"])
        graph.run()
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    assert out.numpy().tolist() == [7, 100, 200, 7]
    graph.run(b=255)
    assert out.numpy().tolist() == [255] * 4
    with pytest.raises(OverflowError, match="Python integer 256 out of bounds for uint8"):
        graph.run(b=256)
    with pytest.raises(OverflowError, match="argument b of larger"), gpu.record(b=300) as graph:
        larger[1, 4](x, out, graph["b"])


@pytest.mark.device_only
def test_equal_modules_with_other_limits_are_other_kernels(gpu: vc.Runtime) -> None:
    def kernel_of(text: str) -> Any:
        body = f"import vkcompute as vc\ndef same(x, out, b):\n    i = vc.global_id(0)\n    out[i] = {text}\n"
        return vc.kernel(module(body).same)

    x = np.array([1, 100, 200, 4], np.uint8)
    free, bounded = kernel_of("x[i] + vc.uint8(b)"), kernel_of("x[i] + b")
    assert launched(gpu, free, x, 256, dtype=np.uint8) == x.tolist()
    with pytest.raises(OverflowError):
        launched(gpu, bounded, x, 256, dtype=np.uint8)


@pytest.mark.device_only
def test_the_disk_cache_keeps_the_limits(gpu: vc.Runtime) -> None:
    for _ in range(2):
        with pytest.raises(OverflowError, match="argument b of clamped"):
            launched(gpu, vc.kernel(clamped.__wrapped__), np.ones(4, np.uint8), 256)


@vc.kernel
def endless(x, out, b):
    n, limit = 0, x[0] + b
    while n < limit:
        n += 1 + (out[0] >> 30)
    out[vc.global_id(0)] = n


@pytest.mark.device_only
def test_launches_that_are_watched_for_cut_loops_are_checked(gpu: vc.Runtime) -> None:
    x = np.array([5], np.uint16)
    assert launched(gpu, endless, x, 7) == [12] * 4
    with pytest.raises(OverflowError, match="out of bounds for uint16"):
        launched(gpu, endless, x, 65_536)


@vc.kernel
def by_known_conditions(x, u, out):
    i = vc.global_id(0)
    out[0, i] = x[i] + (1 if u[i] >= -1 else -1) - 300
    out[1, i] = x[i] + np.where(u[i] >= 0, 1, -1) - 300
    out[2, i] = x[i] + (u[i] > -5 and 1) - 300
    out[3, i] = x[i] + (u[i] < 0 or 1) - 300
    out[4, i] = x[i] + (1 if u[i] > 5 else -1) - 300


def test_a_condition_that_the_types_decide_gives_an_int_of_the_kernel(gpu: vc.Runtime) -> None:
    """Whether a comparison with an unsigned number is always true is not for the type of the result to depend on."""
    x, u, out = np.array([0, 1, 254, 255], np.uint8), np.arange(4, 8, dtype=np.uint32), gpu.zeros((5, 4), np.int32)
    try:
        by_known_conditions[1, 4](gpu.array(x), gpu.array(u), out)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    expected = x.astype(int) - 299
    assert out.numpy().tolist() == [expected.tolist()] * 4 + [(x.astype(int) + np.where(u > 5, 1, -1) - 300).tolist()]
