"""Functions of floats in kernels, against numpy in a wider type: every one is right to 2 ulp, wherever it is computed.

Devices may take numbers below the smallest normal one for 0, and give 0 for such a result.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from runtimes import computes_by_words

import vkcompute as vc
from vkcompute import ir
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.frontend.source import definition_of
from vkcompute.ir.function import NO_CONTRACTION, walk
from vkcompute.jit.compilation.build import specialize
from vkcompute.jit.library import math_lowering
from vkcompute.operations import row_of
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.module import Module

Array = np.ndarray[Any, Any]
N = 1 << 16
BOUND = 2.0  # ulp
RANGES: dict[str, tuple[float, float]] = {
    "exp": (-90, 90), "exp2": (-128, 128), "expm1": (-20, 90), "log": (0, 3), "log2": (0, 3), "log10": (0, 3),
    "log1p": (-1, 3), "sin": (-100, 100), "cos": (-100, 100), "tan": (-100, 100), "arcsin": (-1, 1),
    "arccos": (-1, 1), "arctan": (-3, 3), "sinh": (-4, 4), "cosh": (-4, 4), "tanh": (-4, 4), "arcsinh": (-4, 4),
    "arccosh": (1, 4), "arctanh": (-1, 1), "sqrt": (0, 4), "cbrt": (-8, 8), "degrees": (-7, 7), "radians": (-400, 400),
}  # fmt: skip
PAIRS: dict[str, list[tuple[float, float]]] = {
    "power": [(0, 3), (-60, 60)], "arctan2": [(-1, 1), (-1, 1)], "hypot": [(-1, 1), (-1, 1)],
}  # fmt: skip


def spread(dtype: Any, n: int, seed: int) -> Array:
    """Numbers of all sizes alike, no subnormal ones."""
    unsigned = np.dtype(f"uint{np.dtype(dtype).itemsize * 8}")
    random = np.random.default_rng(seed).integers(0, np.iinfo(unsigned).max, n, unsigned, endpoint=True)
    result = random.view(dtype)
    numbers: Array = result[np.isfinite(result) & (abs(result) >= np.finfo(dtype).tiny)]
    return numbers


def special(dtype: Any) -> Array:
    limits, eps = np.finfo(dtype), np.finfo(dtype).eps
    sizes = [0.0, 1.0, 0.5, 2.0, 3.0, 0.25, 1 - eps, 1 + eps, 0.5 + eps, math.pi / 2, math.pi, 0.55, 1e4, 1e9, 1.5, 2.5]
    sizes += [limits.tiny, limits.max, limits.tiny * 4, math.sqrt(0.5), math.sqrt(2), math.inf, math.log(2) / 2]
    return np.array([*sizes, *[-x for x in sizes], math.nan]).astype(dtype)


def errors(result: Array, exact: Array) -> Array:
    """How far results are from what they should be, in units of the last place; infinity where they are no number."""
    limits, right = np.finfo(result.dtype), exact.astype(result.dtype)
    unit = np.spacing(np.maximum(abs(right), limits.tiny)).astype(exact.dtype)
    error = abs(result.astype(exact.dtype) - exact) / unit
    beyond = np.isinf(right) & (result == right)  # one of them may round to infinity, if it is that near
    beyond |= np.isinf(result) & (abs(exact) > limits.max * (1 - 2 * limits.eps)) & (result * exact > 0)
    small = (abs(exact) < limits.tiny) & (abs(result) <= limits.tiny)
    error[beyond | small | (np.isnan(result) & np.isnan(right))] = 0
    return np.where(np.isnan(error), np.inf, error)


def check(name: str, result: Array, args: list[Array], bound: float = BOUND) -> None:
    wide = {2: np.float64, 4: np.float64, 8: np.longdouble}[result.dtype.itemsize]
    exact = getattr(np, name)(*[x.astype(wide) for x in args])
    error = errors(result, exact)
    worst = int(np.argmax(error))
    got = f"{name}({', '.join(str(x[worst]) for x in args)}) gave {result[worst]}, not {exact[worst]}"
    assert error[worst] <= bound, f"{got}: {error[worst]:.2f} ulp"
    zero = (exact == 0) & (result == 0)
    assert not np.any(np.signbit(result[zero]) != np.signbit(exact[zero])), "the sign of 0"


def arguments(name: str, dtype: Any, n: int = N) -> list[Array]:
    """For one argument or two: numbers of all sizes, of the usual ones, and special ones."""
    random = np.random.default_rng(3)
    ranges, scale = PAIRS.get(name) or [RANGES[name]], 7.9 if dtype == np.float64 and name.startswith("exp") else 1
    near = [random.uniform(low * scale, high * scale, n).astype(dtype) for low, high in ranges]
    if len(ranges) == 1:
        return [np.concatenate([near[0], spread(dtype, n, 1), special(dtype)])]
    wide = [spread(dtype, n, 1), spread(dtype, n, 2)]
    m, grid = min(map(len, wide)), np.meshgrid(special(dtype), special(dtype))
    whole = [near[0] * (-1) ** np.arange(n), np.rint(near[1])] if name == "power" else near
    parts = zip(near, [x[:m] for x in wide], [x.ravel() for x in grid], whole, strict=True)
    return [np.concatenate(part).astype(dtype) for part in parts]


@functools.cache
def formula(name: str) -> Any:
    return vc.elementwise(f"{name}({'x, y' if name in PAIRS else 'x'})")


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def skip_slow(gpu: vc.Runtime, name: str, dtype: str) -> None:
    """Skips a test of several calls of a function that one call tests, too."""
    if computes_by_words(gpu, dtype) and name not in ("sqrt", "exp", "cbrt"):
        pytest.skip(f"the device computes {dtype} by words")


@pytest.mark.parametrize("name", [*RANGES, *PAIRS])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_functions_are_right_to_two_ulp(gpu: vc.Runtime, name: str, dtype: str) -> None:
    if dtype == "float64" and np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("numpy has no wider type here")
    args = arguments(name, np.dtype(dtype).type)
    try:
        result = formula(name)(*[gpu.array(x) for x in args]).numpy()
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    bound = row_of(name).most_ulp or 0.51  # float16 is rounded from float32
    check(name, result, args, 0.51 if dtype == "float16" else bound)


@pytest.mark.parametrize("name", [*RANGES, *PAIRS])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_function_of_several_numbers_at_once(gpu: vc.Runtime, name: str, dtype: str) -> None:
    """Then the module calls it."""
    skip_slow(gpu, name, dtype)
    if dtype == "float64" and np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("numpy has no wider type here")
    args = arguments(name, np.dtype(dtype).type, 1 << 12)
    rolled = [[np.roll(x, 100 * n) for x in args] for n in range(3)]
    names = [[f"{letter}{n}" for letter in "xy"[: len(args)]] for n in range(3)]
    several = vc.elementwise(", ".join(f"{name}({', '.join(each)})" for each in names))
    try:
        computed = several(*[gpu.array(x) for item in rolled for x in item])
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    for result, given in zip(computed, rolled, strict=True):
        check(name, result.numpy(), given, 0.51 if dtype == "float16" else BOUND)


@pytest.mark.pure
def test_many_calls_of_a_function_share_its_code() -> None:
    function = ir.Function("exps")
    b = ir.Builder(function)
    memory = function.buffer("x", ir.FLOAT32)
    for at in range(20):
        index = b.const(at, ir.UINT32)
        b.store(memory, index, b.compute("exp", b.load(memory, index)))
    spirv = ir.lower(math_lowering.lower_math(ir.optimize(function), fast=False)).spirv
    calls = [instruction for instruction in Module.parse(spirv).functions if instruction.opcode == op.OpFunctionCall]
    assert len(calls) == 20
    assert len({instruction.operands[2] for instruction in calls}) == 1


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_powers_with_constant_exponents(gpu: vc.Runtime, dtype: str) -> None:
    if dtype == "float64" and np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("numpy has no wider type here")
    skip_slow(gpu, "power", dtype)
    exponents = -50, -7, -2, -1, 2, 3, 4, 5, 16, 50
    x = np.concatenate([spread(np.dtype(dtype).type, 2000, 1), np.linspace(-2, 2, 2001), special(dtype)]).astype(dtype)
    try:
        powers = vc.elementwise(", ".join([f"x ** {each}" for each in exponents]))(gpu.array(x))
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    for exponent, result in zip(exponents, powers, strict=True):
        check("power", result.numpy(), [x, np.full_like(x, exponent)], 0.51 if dtype == "float16" else BOUND)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_powers_with_the_exponents_two_and_three(gpu: vc.Runtime, dtype: str) -> None:
    """Squares are products, to the bit, and cubes right to an ulp, also for exponents that no compiler knows."""
    if dtype == "float64" and np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("numpy has no wider type here")
    x = np.concatenate([spread(np.dtype(dtype).type, 20000, 1), np.arange(1, 4097), [-0.0, -3, 3479], special(dtype)])
    x = x.astype(dtype)
    try:
        powers = [vc.elementwise("x ** y")(gpu.array(x), gpu.array(np.full_like(x, n))).numpy() for n in (2, 3)]
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    normal = (np.abs(x * x) >= np.finfo(dtype).tiny) | (x == 0)
    assert np.array_equal(powers[0][normal], (x * x)[normal], equal_nan=True)
    assert np.array_equal(np.signbit(powers[1][x == 0]), np.signbit(x[x == 0]))
    check("power", powers[1], [x, np.full_like(x, 3)], 0.51 if dtype == "float16" else 1)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_arguments_near_multiples_of_half_pi(gpu: vc.Runtime, name: str) -> None:
    """The nearest of all floats, and of all doubles (Muller, Elementary Functions, section 11.3), and neighbours."""
    sizes = np.float32(16367173 * 2.0**72), np.float64(6381956970095103 * 2.0**797)
    for worst in sizes:
        near = np.nextafter(worst, [0, np.inf], dtype=worst.dtype)
        x = np.array([worst, -worst, *near, worst / 2, np.pi / 2, 98.96017, 25734.4], worst.dtype)
        try:
            result = formula(name)(gpu.array(x)).numpy()
        except vc.MissingFeature:
            continue
        check(name, result, [x])


def kernel_of(called: Any, n_arguments: int) -> Any:
    def of_two(x: Any, y: Any, out: Any) -> None:
        i = vc.global_id(0)
        out[i] = called(x[i], y[i])

    def of_one(x: Any, y: Any, out: Any) -> None:
        i = vc.global_id(0)
        out[i] = called(x[i])

    return vc.kernel(of_two if n_arguments == 2 else of_one)


@pytest.mark.parametrize("name", [*RANGES, *PAIRS])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_simulator_agrees_with_devices(gpu: vc.Runtime, name: str, dtype: str) -> None:
    used = [x[:: max(len(x) // 60, 1)].copy() for x in arguments(name, np.dtype(dtype).type, 2000)]
    out = np.zeros(len(used[0]), dtype)
    kernel_of(getattr(np, name), len(used)).simulate[len(out), 1](used[0], used[-1], out)
    check(name, out, used, BOUND if name in ("degrees", "radians") else 0.51)  # of those, numpy's is no nearer
    try:
        result = formula(name)(*[gpu.array(x) for x in used]).numpy()
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    for each in (out, result):
        each[abs(each) < np.finfo(dtype).tiny] = 0
    np.testing.assert_array_max_ulp(result, out, 2)


def test_subnormal_arguments_of_logarithms(gpu: vc.Runtime) -> None:
    x = np.array([1e-45, 1e-40, 1.1e-38], np.float32)
    for name in ("log", "log2", "log10"):
        result = formula(name)(gpu.array(x)).numpy()
        check(name, result, [x])


def test_what_many_call_at_once_is_computed_in_place(gpu: vc.Runtime) -> None:
    @vc.kernel
    def kernel(x, out):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        total = x[i] * 0
        for k in range(40):
            if k % 3 == 0:
                total += math.sin(x[i] * k) ** 2 + math.cos(x[i] * k) ** 2
            else:
                total += math.exp(-k * x[i] * x[i]) * np.hypot(3, 4)
        out[i] = total

    x = np.linspace(-3, 3, 64, dtype=np.float32)
    out = gpu.zeros(64, np.float32)
    kernel(gpu.array(x), out)
    expected = 14 + sum(5 * np.exp(-k * x.astype(float) ** 2) for k in range(40) if k % 3)
    np.testing.assert_allclose(out.numpy(), expected, 1e-6)


def test_fast_math_is_the_devices_own(gpu: vc.Runtime) -> None:
    def written(x: Any, out: Any) -> None:
        i = vc.global_id(0)
        out[i] = np.sin(x[i]) + np.expm1(x[i]) + x[i] ** 1.5

    x = np.linspace(0.5, 3, 64, dtype=np.float32)
    out = gpu.zeros(64, np.float32)
    vc.kernel(fast_math=True)(written)(gpu.array(x), out)
    np.testing.assert_allclose(out.numpy(), np.sin(x) + np.expm1(x) + x**1.5, 2e-3)
    kernel: Any = written
    signature: Any = ("f", 1), ("f", 1)
    fast, right = (
        specialize(definition_of(kernel), signature, CompileOptions(fast_math=item)) for item in (True, False)
    )
    assert len(fast.spirv) < len(right.spirv)


@pytest.mark.pure
@pytest.mark.parametrize("code", sorted(name for name, row in ir.OPERATIONS.items() if row.elementary))
@pytest.mark.parametrize("kind", [ir.FLOAT32, ir.FLOAT64])
def test_functions_become_operations_that_are_not_contracted(code: str, kind: ir.Scalar) -> None:
    function = ir.Function(code)
    b = ir.Builder(function)
    memory = function.buffer("x", kind)
    args = [b.load(memory, b.const(n, ir.UINT32)) for n in range(ir.OPERATIONS[code].arity or 0)]
    b.store(memory, b.const(0, ir.UINT32), b.compute(code, *args))
    ir.verify(math_lowering.lower_math(ir.optimize(function), fast=False))
    rounded = [op for op in walk(function.body) if op.code in ("add", "sub", "mul", "div")]
    assert all(item.attribute == NO_CONTRACTION for item in rounded if item.type is kind)
