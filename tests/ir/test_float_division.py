"""Quotients and square roots where the device's are estimates: rounded to the nearest for all operands.

Devices without a fused multiply-add take the path of integers. That of fma runs on a model of a GPU, in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import interpreter
import numpy as np
import pytest
from runtimes import skipped_where_missing

import vkcompute as vc
from vkcompute import ir
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.compiled.target import target_of
from vkcompute.frontend.source import definition_of
from vkcompute.ir.float_division import expand_divisions
from vkcompute.ir.function import Constant, Function, Region, Value, walk
from vkcompute.jit.compilation.build import build, optimized
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.library.math_lowering import lower_math

Array = np.ndarray[Any, Any]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 3.0, 0.5, np.inf, -np.inf, np.nan, -2.0, 1e9]
RANDOM = np.random.default_rng(0)


def numbers(kind: ir.Scalar, n: int) -> Array:
    """Random bits, subnormal numbers, and numbers of one binade."""
    width, fraction = kind.bits, np.finfo(kind.name).nmant
    word = f"u{width // 8}"
    one = int(np.ones(1, kind.numpy).view(word)[0])
    some = RANDOM.integers(0, 1 << width, 2 * n, word if width < 64 else None)
    small, near = (RANDOM.integers(first, first + (2 << fraction), n, word) for first in (0, one))
    return RANDOM.permutation(np.concatenate([some, small, near]).view(kind.numpy))


def operands(code: str, kind: ir.Scalar, n: int) -> list[Array]:
    limits = np.finfo(kind.name)
    ends = [limits.max, limits.tiny, limits.smallest_subnormal, np.nextafter(limits.tiny, limits.dtype.type(0))]
    with np.errstate(over="ignore"):
        special = np.array([*SPECIAL, *ends, *[-end for end in ends]], kind.numpy)
    if code == "sqrt":
        return [np.concatenate([special, numbers(kind, n)])]
    pairs = np.repeat(special, special.size), np.tile(special, special.size)
    return [np.concatenate([pair, numbers(kind, n)]) for pair in pairs]


def exact(code: str, given: list[Array]) -> Array:
    with np.errstate(all="ignore"):
        result: Array = np.divide(*given) if code == "div" else np.sqrt(*given)
    return result


def same(result: Array, expected: Array, *given: Any) -> None:
    """Asserts that numbers have the same bits, or are both NaN."""
    word = f"u{expected.dtype.itemsize}"
    wrong = (result.view(word) != expected.view(word)) & ~(np.isnan(result) & np.isnan(expected))
    first = np.flatnonzero(wrong)[:5]
    assert not wrong.any(), (wrong.sum(), [(*[x[at] for x in given], result[at], expected[at]) for at in first])


# -- on devices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ir.FLOAT16, ir.FLOAT32], ids=str)
@pytest.mark.parametrize("code", ["div", "sqrt"])
def test_on_devices_whose_results_are_estimates(gpu: vc.Runtime, code: str, kind: ir.Scalar) -> None:
    given = operands(code, kind, 1 << 16)
    if kind.name in target_of(gpu).missing_types:
        pytest.skip("the device has no such type")
    n = given[0].size // 64 * 64
    function = ir.Function(code)
    builder = ir.Builder(function)
    me = builder.builtin("global_id")
    held = [function.buffer(f"in{at}", kind) for at, _ in enumerate(given)]
    out = function.buffer("out", kind)
    builder.store(out, me, builder.rounded(code, *[builder.load(item, me) for item in held]))
    arrays = [gpu.array(arg[:n]) for arg in given]
    result = gpu.zeros(n, kind.name)
    module = ir.lower(function, ir.Target(preserved_floats=(16, 32)))
    with skipped_where_missing():
        gpu.kernel(module.spirv, name=code)(*arrays, result, grid=n // 64)
    same(result.numpy(), exact(code, [arg[:n] for arg in given]), *given)


# -- on a model -------------------------------------------------------------------------------------------------------


def fused(x: Array, y: Array, z: Array) -> Array:
    """x * y + z of float32, rounded once: the sum in float64 is rounded to odd first."""
    product, z = x.astype(float) * y, z.astype(float)  # exact
    total = product + z
    added = total - product
    error = (product - (total - added)) + (z - added)
    bits = np.atleast_1d(total).view(np.int64)
    moved = np.where((error > 0) == (total > 0), 1, -1) * ((error != 0) & (bits & 1 == 0))
    return (bits + moved).view(float).astype(np.float32)


class Model:
    """A GPU whose estimates are some units in the last place off, and which takes subnormal numbers for zero.

    Args:
        ulp: by how many units estimates are off.
        fma: how it computes an fma.
    """

    def __init__(self, ulp: int = 0, fma: Callable[..., Array] = fused) -> None:
        self._ulp, self._fma = ulp, fma

    def __call__(self, function: Function, given: list[Array]) -> Array:
        loads = [op for op in function.body.ops if op.code == "load"]
        env = dict[Value, Any](zip(loads, given, strict=True))
        with np.errstate(all="ignore"):
            self._region(function.body, env)
        return next(env[op.args[1]] for op in function.body.ops if op.code == "store")

    def _region(self, region: Region, env: dict[Value, Any]) -> list[Any]:
        for op in region.ops:
            args = [arg.value if isinstance(arg, Constant) else env[arg] for arg in op.args]
            if op.code == "if":
                sides = [self._region(inner, env) for inner in op.regions]
                env.update((result, np.where(args[0], *both)) for result, *both in zip(op.results, *sides, strict=True))
            elif op.code == "yield":
                return args
            elif op.has_result and op not in env:
                env[op] = self._value(op.code, args, op.attribute)
        return []

    def _value(self, code: str, args: list[Any], attribute: Any) -> Any:
        if code == "fma":
            return self._fma(*args)
        if code in ("mul", "div", "add", "sub") and args[0].dtype == np.float32:
            return self._flushed(interpreter.compute(code, [self._flushed(arg) for arg in args]), code == "div")
        if code in ("eq", "ne", "lt", "le", "gt", "ge") and args[0].dtype == np.float32:
            args = [self._flushed(arg) for arg in args]
        if code in ("sqrt", "rsqrt"):
            return self._flushed(interpreter.compute(code, [self._flushed(args[0])]), True)
        return interpreter.compute(code, args, attribute)

    def _flushed(self, x: Array, is_estimate: bool = False) -> Array:
        bits = np.asarray(x, np.float32).view(np.int32)
        size = bits & 0x7FFFFFFF
        kept = np.where(size < 1 << 23, bits & -1 << 31, bits)
        ordinary = (size >= 1 << 23) & (size < 0xFF << 23) & is_estimate
        return np.where(ordinary, kept + self._ulp, kept).astype(np.int32).view(np.float32)


def expanded(code: str, kind: ir.Scalar = ir.FLOAT32, constants: tuple[float, ...] = ()) -> Function:
    """A function that stores one quotient or root of numbers that are loaded, and of numbers that are known."""
    function = ir.Function(code)
    builder = ir.Builder(function)
    zero = builder.const(0, ir.UINT32)
    n = (2 if code == "div" else 1) - len(constants)
    given = [builder.load(function.buffer(f"in{at}", kind), zero) for at in range(n)]
    args = [*given, *[builder.const(constant, kind) for constant in constants]]
    out = function.buffer("out", kind)
    builder.store(out, zero, builder.rounded(code, *args))
    ir.verify(expand_divisions(function))
    return function


def hard_quotients() -> list[Array]:
    """Operands whose quotients are as near to a tie as any: M * Y - 2**s * X is 1, 3 or 5 for an odd M = 2 * n + 1."""
    results = []
    divisors = [*range((1 << 24) - 999, 1 << 24, 2), *(RANDOM.integers(1 << 22, 1 << 23, 4000) * 2 + 1).tolist()]
    for y in divisors:
        for s in (24, 25):
            for rest in (-5, -3, -1, 1, 3, 5):
                m = pow(y, -1, 1 << s) * rest % (1 << s)
                for odd in range(m, 1 << 25, 1 << s):
                    x = odd * y - rest >> s
                    if odd >= 1 << 24 and 1 << 23 <= x < 1 << 24:
                        results.append((x, y))
    return [np.array(column, np.float32) for column in zip(*results, strict=True)]


@pytest.mark.parametrize("ulp", range(-3, 4))
def test_quotients_next_to_ties(ulp: int) -> None:
    given = hard_quotients()
    assert given[0].size > 1000
    for exponents in ((0, 0), (-90, -60), (50, -20), (3, 20)):
        scaled = [np.ldexp(arg, exponent).astype(np.float32) for arg, exponent in zip(given, exponents, strict=True)]
        same(Model(ulp)(expanded("div"), scaled), exact("div", scaled), *scaled)


@pytest.mark.parametrize("ulp", [-2, 0, 2])
@pytest.mark.parametrize("kind", [ir.FLOAT16, ir.FLOAT32], ids=str)
@pytest.mark.parametrize("code", ["div", "sqrt"])
def test_any_numbers(code: str, kind: ir.Scalar, ulp: int) -> None:
    given = operands(code, kind, 1 << 15)
    model = Model(ulp)
    same(model(expanded(code, kind), given), exact(code, given), *given)


@pytest.mark.parametrize("code", ["div", "sqrt"])
def test_an_fma_that_rounds_twice_is_not_used(code: str) -> None:
    given = operands(code, ir.FLOAT32, 1 << 15)
    same(Model(2, lambda x, y, z: x * y + z)(expanded(code), given), exact(code, given), *given)


@pytest.mark.parametrize("ulp", range(-3, 4))
def test_all_roots_of_float16(ulp: int) -> None:
    x = np.arange(1 << 16).astype(np.uint16).view(np.float16)
    same(Model(ulp)(expanded("sqrt", ir.FLOAT16), [x]), exact("sqrt", [x]), x)


@pytest.mark.parametrize("ulp", range(-3, 4))
def test_roots_next_to_ties(ulp: int) -> None:
    """Numbers around the squares of all that are halfway between two floats; all roots were tried once."""
    middle = (RANDOM.integers(1 << 23, 1 << 24, 1 << 16) + 0.5) * 2.0**-23
    middle = np.append(middle, np.append(np.arange(1, 1 << 12), np.arange((1 << 24) - (1 << 12), 1 << 24)) * 2.0**-23)
    middle = middle[(middle >= 1) & (middle < 2)]
    x = np.concatenate([(middle * middle).astype(np.float32)] * 3)
    x.view(np.int32)[:] += np.repeat([-1, 0, 1], middle.size)
    same(Model(ulp)(expanded("sqrt"), [x]), np.sqrt(x), x)


@pytest.mark.parametrize("by", [3.0, -0.1, 2.0**-10, -(2.0**100), 3.4e38, 1e-40, 0.0, np.inf, np.nan, 1.9999999])
def test_constant_divisors(by: float) -> None:
    x = operands("sqrt", ir.FLOAT32, 1 << 14)[0]
    x = x[~(np.abs(x) < 2.0**-20) | (x == 0)]  # subnormal results of products are the device's
    y = np.full_like(x, by)
    expected = exact("div", [x, y])
    function = expanded("div", constants=(by,))
    is_product = [op.code for op in walk(function.body)].count("mul") == 1
    kept = np.isnan(expected) | (expected == 0) | (np.abs(expected) >= 2.0**-126) if is_product else slice(None)
    same(Model(2)(function, [x])[kept], expected[kept], x[kept])


# -- the code ---------------------------------------------------------------------------------------------------------


def quotients(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    a, b = x[i], x[i + 1]
    out[i] = a / b + a / (b + 1)


def lowered(*, fast_math: bool = False, exactly: bool = False) -> tuple[Function, bytes]:
    options = CompileOptions(fast_math=fast_math, target=ir.Target(divides_exactly=exactly))
    function = optimized(build(Compiler, definition_of(quotients), (("f", 1), ("f", 1)), options).function, options)
    return function, ir.lower(function, options.target).spirv


def test_divisions_are_left_to_devices_that_divide_exactly_and_to_fast_math() -> None:
    for options in ({"fast_math": True}, {"exactly": True}):
        codes = [op.code for op in walk(lowered(**options)[0].body)]
        assert (codes.count("div"), "fma" in codes, "if" in codes) == (2, False, False)
    assert lowered(exactly=True)[1] != lowered()[1]


def test_functions_share_routines_that_stay_unchanged() -> None:
    routines = []
    for _ in range(2):
        function = ir.Function("several")
        b, out = ir.Builder(function), function.buffer("out", ir.FLOAT32)
        for at in range(3):
            b.store(out, b.const(at, ir.UINT32), b.compute("cbrt", function.push(f"x{at}", ir.FLOAT32)))
        [routine] = lower_math(ir.optimize(function), fast=False).routines.values()
        routines.append([op.code for op in walk(routine.body)])
        ir.lower(function)
        [routine] = function.routines.values()
        assert "if" in [op.code for op in walk(routine.body)]
    assert routines[0] == routines[1]
    assert "div" in routines[0]


def test_vectors_and_known_numbers() -> None:
    function = ir.Function("vectors")
    b, out = ir.Builder(function), function.buffer("out", ir.FLOAT32)
    x, y = (function.push(name, ir.FLOAT32) for name in "xy")
    quotient = b.rounded("div", b.vector(x, y), b.vector(y, b.const(2, ir.FLOAT32)))
    known = b.rounded("div", b.const(1, ir.FLOAT32), b.const(3, ir.FLOAT32))
    zero = b.const(0, ir.UINT32)
    b.store(out, zero, b.rounded("add", b.extract(quotient, 0), known))
    ir.verify(expand_divisions(function))
    assert b.const(np.float32(1) / np.float32(3), ir.FLOAT32) in [arg for op in walk(function.body) for arg in op.args]
    ir.lower(function)
