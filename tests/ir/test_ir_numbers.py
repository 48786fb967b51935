"""Every operation on numbers, on devices, against numpy: each type, at the ends of its range and between."""

from __future__ import annotations

from typing import Any

import interpreter
import numpy as np
import pytest
from runtimes import skipped_where_missing

import vkcompute as vc
from vkcompute import ir
from vkcompute.compiled.target import target_of
from vkcompute.ir.types import SmallFloat

NUMBERS = [kind for kind in ir.SCALARS.values() if kind is not ir.BOOL and not isinstance(kind, SmallFloat)]
Array = np.ndarray[Any, Any]


def combinations(arity: int) -> list[tuple[str, ir.Scalar]]:
    """Each operation on that many numbers with each type for which it is lowered."""
    rows = [row for row in ir.OPERATIONS.values() if row.arity == arity]
    fits = [(row, kind) for row in rows for kind in (ir.BOOL, *NUMBERS) if kind.kind in row.kinds and takes(row, kind)]
    return [(row.name, kind) for row, kind in fits if not row.elementary or (row.extended and kind.bits < 64)]


def takes(row: ir.Operation, kind: ir.Scalar) -> bool:
    try:
        row.type_rule(row, [kind] * (row.arity or 0), None)
    except ir.IrError:
        return False  # some work on 32 bits only
    return True


def samples(kind: ir.Scalar) -> Array:
    """Numbers of the type, extremes among them; of floats none is subnormal."""
    if kind.kind == "f":
        some = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.7, -3.7, 100.25, -0.001, np.inf, -np.inf, np.nan]
        return np.array(some, kind.numpy)
    limits = np.iinfo(kind.name)
    some = [limits.min, limits.min + 1, 0, 1, 2, 3, 7, 100, limits.max - 1, limits.max]
    return np.array(some if kind.kind == "u" else [*some, -1, -2, -7, -100], kind.numpy)


def computed(gpu: vc.Runtime, code: str, given: list[Array], attribute: Any = None) -> Array:
    """What the device makes of arrays of one length, element by element; bools travel as uint8."""
    function = ir.Function(code)
    builder = ir.Builder(function)
    me, args = builder.builtin("global_id"), []
    for position, array in enumerate(given):
        held = function.buffer(f"in{position}", ir.SCALARS[as_bytes(array).dtype.name])
        value = builder.load(held, me)
        args.append(builder.cast(value, ir.BOOL) if array.dtype == bool else value)
    maker: Any = {"cast": builder.cast, "bitcast": builder.bitcast}.get(code)
    result = maker(args[0], attribute) if maker else builder.compute(code, *args)
    assert isinstance(result.type, ir.Scalar)
    kind = ir.UINT8 if result.type is ir.BOOL else result.type
    out = function.buffer("out", kind)
    n = len(given[0])
    inside = builder.if_(builder.compute("lt", me, builder.const(n, ir.UINT32)))
    with inside.then:
        builder.store(out, me, builder.cast(result, kind))
    ir.verify(function)
    target, padding = target_of(gpu), np.zeros(-n % 4)
    arrays = [np.append(as_bytes(arg), padding.astype(as_bytes(arg).dtype)) for arg in given]
    bound = [gpu.array(each) for each in (*arrays, np.append(np.zeros(n), padding).astype(kind.numpy))]
    for at in ir.in_words(function, target):
        bound[at] = bound[at].view(np.uint32)
    for at, memory in enumerate(function.buffers):
        if memory.element.name in target.missing_types and memory.element.bits == 64:  # pairs of words
            bound[at] = bound[at].view(np.uint32).reshape(-1, 2)
    gpu.kernel(ir.lower(function, target).spirv, name=code)(*bound, grid=-(-n // 64))
    array = bound[-1].numpy().view(kind.numpy).reshape(-1)[:n]
    return array.astype(bool) if result.type is ir.BOOL else array


def as_bytes(array: Array) -> Array:
    return array.view(np.uint8) if array.dtype == bool else array


def agree(gpu: vc.Runtime, code: str, given: list[Array], attribute: Any = None, *, exact: bool = True) -> None:
    with skipped_where_missing():
        result = computed(gpu, code, given, attribute)
    expected = interpreter.compute(code, given, attribute)
    if exact:
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
    else:
        assert result.dtype == expected.dtype
        error = 2e-2 if result.dtype == np.float16 else 5e-4  # the sine of Vulkan may be wrong by 2**-11
        np.testing.assert_allclose(result, expected, rtol=error, atol=error)


def pairs(kind: ir.Scalar) -> list[Array]:
    numbers = samples(kind)
    return [np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))]


@pytest.mark.parametrize(("code", "kind"), combinations(2), ids=str)
def test_of_two(gpu: vc.Runtime, code: str, kind: ir.Scalar) -> None:
    if kind is ir.BOOL:
        one, other = (np.array(column, bool) for column in zip(*[(p, q) for p in (0, 1) for q in (0, 1)], strict=True))
    else:
        one, other = pairs(kind)
    if code == "div" or (code in ("rem", "mod") and kind.kind != "f"):
        good = (other > 0) & np.isfinite(one) & np.isfinite(other)  # else undefined where the quotient overflows
        one, other = one[good], other[good]
    elif code in ("shl", "shr"):
        other = np.abs(other % kind.bits).astype(kind.numpy)
    elif code in ("min", "max", "atan2", "pow"):  # which of a number and NaN, or of two zeros, is the device's choice
        good = np.isfinite(one) & np.isfinite(other) & ((one > 0) | (code in ("min", "max")))
        one, other = one[good], other[good]
        one, other = one + 0, other + 0
    exact = kind.kind != "f" or code not in ("div", "pow", "atan2")
    agree(gpu, code, [one, other], exact=exact)


@pytest.mark.parametrize(("code", "kind"), combinations(1), ids=str)
def test_of_one(gpu: vc.Runtime, code: str, kind: ir.Scalar) -> None:
    numbers = samples(kind) if kind is not ir.BOOL else np.array([False, True])
    with np.errstate(all="ignore"):
        if kind.kind == "f" and code not in ("neg", "abs", "isnan", "isinf"):
            expected = interpreter.compute(code, [numbers])
            numbers = numbers[np.isfinite(numbers) & np.isfinite(expected) & (np.abs(numbers) < 8)]
    exact = ir.OPERATIONS[code].foldable is not None or code == "sign"
    agree(gpu, code, [numbers], exact=exact)


def spread(kind: ir.Scalar) -> Array:
    """Numbers of the type and of all sizes: near powers of two, and at random; of floats none is subnormal."""
    random = np.random.default_rng(7)
    if kind.kind == "f":
        sizes = 2.0 ** np.arange(np.finfo(kind.name).minexp, np.finfo(kind.name).maxexp).astype(kind.numpy)
        result = np.concatenate([sizes, np.nextafter(sizes, 0), sizes * random.uniform(1, 1.99, sizes.shape)])
        result = result[np.abs(result) >= np.finfo(kind.name).tiny]
        return np.concatenate([samples(kind), result, -result]).astype(kind.numpy)
    limits = np.iinfo(kind.name)
    near = [sign * 2**n + d for n in range(kind.bits) for sign in (1, 3, -1, -3) for d in range(-2, 3)]
    near = [item for item in near if limits.min <= item <= limits.max]
    wild = random.integers(limits.min, limits.max, 2000, dtype=kind.name, endpoint=True)
    return np.concatenate([samples(kind), np.array(near, kind.numpy), wild, wild >> kind.bits // 3])


@pytest.mark.parametrize("source", [ir.BOOL, *NUMBERS], ids=str)
@pytest.mark.parametrize("target", [ir.BOOL, *NUMBERS], ids=str)
def test_casts(gpu: vc.Runtime, source: ir.Scalar, target: ir.Scalar) -> None:
    numbers = np.array([False, True]) if source is ir.BOOL else spread(source)
    if source.kind == "f" and target.kind in "iu":  # what does not fit is undefined
        whole, limits = np.trunc(numbers.astype(np.longdouble)), np.iinfo(target.name)
        numbers = numbers[np.isfinite(numbers) & (whole >= limits.min) & (whole <= limits.max)]
    if source.kind == target.kind == "f":  # subnormals may be flushed
        with np.errstate(all="ignore"):
            numbers = numbers[(numbers == 0) | ~(np.abs(numbers.astype(target.numpy)) < np.finfo(target.name).tiny)]
    agree(gpu, "cast", [numbers], target)


def test_a_cast_back_from_a_wider_integer_is_the_number() -> None:
    builder = ir.Builder(ir.Function("f"))
    number = builder.bitcast(builder.builtin("global_id"), ir.INT32)
    for wide in (ir.INT64, ir.UINT64):
        assert builder.cast(builder.cast(number, wide), ir.INT32) is number
    for other in (ir.INT16, ir.UINT32, ir.FLOAT64):
        assert builder.cast(builder.cast(number, other), ir.INT32) is not number


@pytest.mark.parametrize(("source", "target"), [("float32", "int32"), ("uint32", "float32"), ("int64", "float64")])
def test_bitcasts(gpu: vc.Runtime, source: str, target: str) -> None:
    numbers = samples(ir.SCALARS[source])
    numbers = numbers[~np.isnan(numbers.view(target))] if target[0] == "f" else numbers[~np.isnan(numbers)]
    numbers = np.array([7, 1 << 23, 0x3FC00000], source) if source == "uint32" else numbers
    agree(gpu, "bitcast", [numbers], ir.SCALARS[target])
