"""Arithmetic on floats is numpy's to the bit: no driver contracts or reassociates it, but for fast_math and vc.fma."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute import ir
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.frontend.source import definition_of
from vkcompute.jit.compilation.build import specialize
from vkcompute.spirv import opcodes as spv
from vkcompute.spirv.enums import Decoration
from vkcompute.spirv.module import Module

Array = np.ndarray[Any, Any]
KINDS = pytest.mark.parametrize("kind", ["float32", "float64"])


@vc.kernel
def cancelled(x, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = (x[i] + 1e8) - 1e8


def by_kernel(gpu: vc.Runtime, x: vc.Array) -> Array:
    out = gpu.zeros(x.shape, x.dtype)
    cancelled(x, out)
    return out.numpy()


FORMS: dict[str, Callable[[vc.Runtime, vc.Array], Array]] = {
    "kernel": by_kernel,
    "elementwise": lambda gpu, x: vc.elementwise("(x + 1e8) - 1e8")(x).numpy(),
    "vectorize": lambda gpu, x: vc.vectorize(lambda x: (x + 1e8) - 1e8)(x).numpy(),
    "map": lambda gpu, x: vc.reduce(lambda a, b: a + b, 0, map="(x + 1e8) - 1e8")(x.reshape(-1, 1), axis=1).numpy(),
    "reduce": lambda gpu, x: vc.reduce(lambda a, b: (a + b + 1e8) - 1e8, 0)(x.reshape(-1, 1), axis=1).numpy(),
}


def or_skip(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))


@KINDS
@pytest.mark.parametrize("form", FORMS)
def test_sums_are_not_reassociated(gpu: vc.Runtime, kind: str, form: str) -> None:
    x = np.array([1e-9, 1, 3.75, -2.5, 1e7], kind)
    big = x.dtype.type(1e8)
    result = or_skip(lambda: FORMS[form](gpu, gpu.array(x)))
    assert result.tobytes() == ((x + big) - big).tobytes()


def combined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions of expressions, among them those that drivers simplify: (a - b) + b, a * a, (a * 3) / 3."""
    operands = parts | st.sampled_from(["1.0", "-1.0", "2.0", "0.5", "1e8", "-1e8", "3.0", "0.1"])
    signs = st.sampled_from("+-*/")
    return st.one_of(
        st.builds("({} {} {})".format, parts, signs, operands),
        st.builds("({} {} {})".format, operands, signs, parts),
        st.builds("(({0} {1} {2}) {3} {2})".format, parts, signs, operands, signs),
        st.builds("({0} * {0})".format, parts),
        st.builds("(-{})".format, parts),
        st.builds("{}({})".format, st.sampled_from(["sqrt", "abs"]), parts),
        st.builds("{}({}, {})".format, st.sampled_from(["minimum", "maximum"]), parts, parts),
        st.builds("where({} {} {}, {}, {})".format, parts, st.sampled_from(["<", ">=", "=="]), parts, parts, parts),
    )


EXPRESSIONS = st.recursive(st.sampled_from(["x", "y", "z"]), combined, max_leaves=8)
NAMES = {"sqrt": np.sqrt, "abs": np.abs, "minimum": np.minimum, "maximum": np.maximum, "where": np.where}


@KINDS
@given(texts=st.lists(EXPRESSIONS, min_size=4, max_size=8), seed=st.integers(0, 1000))
def test_random_expressions(gpu: vc.Runtime, kind: str, texts: list[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    arrays = (random.standard_normal((3, 256)) * 2.0 ** random.integers(-3, 4, (3, 256))).astype(kind)
    function = vc.elementwise(", ".join([*texts, "x", "y", "z"]), "x, y, z")
    results = or_skip(lambda: function(*map(gpu.array, arrays)))
    tiny = np.finfo(kind).tiny
    with np.errstate(all="ignore"):
        for text, result in zip(texts, results, strict=False):
            expected, computed = eval(text, NAMES | dict(zip("xyz", arrays, strict=True))), result.numpy()
            # A device may flush subnormals, and choose between zeros of both signs.
            both = [np.where(np.abs(item) < tiny, 0, item) + 0 for item in (computed, expected)]
            np.testing.assert_array_equal(*both, text)


def test_what_is_infinite_or_nan_stays_so(gpu: vc.Runtime) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1], np.float32)
    result = vc.elementwise("x - x, x / x, (x + 1) - x, x * 2 - x, -(-x)")(gpu.array(x))
    with np.errstate(all="ignore"):
        for array, expected in zip(result, (x - x, x / x, (x + 1) - x, x * 2 - x, x), strict=True):
            np.testing.assert_array_equal(array.numpy(), expected)


@KINDS
def test_fma_rounds_once_or_twice(gpu: vc.Runtime, kind: str) -> None:
    random = np.random.default_rng(5)
    x, y = random.standard_normal((2, 200)).astype(kind)
    z = -x * y * random.choice([1, 1 + np.finfo(kind).eps, 2], 200).astype(kind)
    result = or_skip(lambda: vc.vectorize(lambda x, y, z: vc.fma(x, y, z))(*map(gpu.array, (x, y, z)))).numpy()
    exact = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(x, y, z, strict=True)]
    assert np.all((result == x * y + z) | (result == np.array([float(item) for item in exact], kind)))


@vc.kernel
def of_all_kinds(x, n, out):
    i = vc.global_id(0)
    if i < out.size:
        v = vc.fma(vc.float32x2(x[i], 1), 2, n)
        out[i] = v.x + 10 * v.y + vc.fma(2, 3, 4) + vc.fma(n, n, x[i])


def test_fma_of_vectors_and_numbers(gpu: vc.Runtime) -> None:
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    expected = (x * 2 + 3) + 10 * 5 + 10 + (9 + x)
    of_all_kinds.simulate(x, 3, out)
    assert out.tolist() == expected.tolist()
    on_device = gpu.zeros(4)
    of_all_kinds(gpu.array(x), 3, on_device)
    assert on_device.numpy().tolist() == expected.tolist()
    assert vc.fma(2.0, 3.0, 4.0) == 10.0


@pytest.mark.pure
def test_only_fast_math_leaves_it_to_the_driver() -> None:
    def written(x: Any, out: Any) -> None:
        i = vc.global_id(0)
        out[i] = vc.fma(x[i], x[i], -x[i]) if x[i] * 2 + 1 < 3 else math.sqrt(x[i]) / abs(x[i]) - 1

    def decorated(fast_math: bool) -> int:
        kernel: Any = written
        options = CompileOptions(fast_math=fast_math, target=ir.Target(divides_exactly=True))
        spirv = specialize(definition_of(kernel), (("f", 1), ("f", 1)), options).spirv
        annotations = Module.parse(spirv).annotations
        return sum(
            instruction.opcode == spv.OpDecorate and instruction.operands[1] == Decoration.NoContraction
            for instruction in annotations
        )

    assert decorated(False) == 8, "two multiplications and additions, neg, lt, sqrt, div, abs, sub; not the fma"
    assert decorated(True) == 0
