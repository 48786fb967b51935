"""Vectors in Python kernels: each operation on all elements, numpy being the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import module
from test_kernel_errors import compiled

import vkcompute as vc
from vkcompute.errors import KernelError, MissingFeature
from vkcompute.jit.compilation import fingerprint

ROWS = 5
TYPES = "float16 float32 float64 int32 uint32".split()
Array = np.ndarray[Any, Any]


def result(gpu: vc.Runtime, kernel: Any, *args: Any, shape: tuple[int, ...], dtype: str = "float32") -> Array:
    """What a kernel with an invocation per row writes to its last argument."""
    out = gpu.zeros(shape, dtype)
    try:
        kernel[1, ROWS](*[gpu.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args], out)
    except MissingFeature as missing:
        pytest.skip(str(missing))
    return out.numpy()


def numbers(dtype: str, n: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    low = {"f": -8, "i": -100, "u": 1}[kind]
    return rng.integers(low, 9 if kind == "f" else 100, (ROWS, n)).astype(dtype)


OPERATORS = {
    "a + b": lambda a, b: a + b,
    "a - b * a": lambda a, b: a - b * a,
    "a * 3 - 2": lambda a, b: a * 3 - 2,
    "7 - a": lambda a, b: 7 - a,
    "a * b[0]": lambda a, b: a * b[:, :1],
    "-a": lambda a, b: -a,
    "min(a, b) + max(a, 2)": lambda a, b: np.minimum(a, b) + np.maximum(a, 2),
    "abs(a)": lambda a, b: np.abs(a),
    "np.where(a < b, a, b + 1)": lambda a, b: np.where(a < b, a, b + 1),
    "np.where(a == b, 1, a)": lambda a, b: np.where(a == b, 1, a),
    "a if a[0] < b[0] else b": lambda a, b: np.where(a[:, :1] < b[:, :1], a, b),
    "a[::-1]": lambda a, b: a[:, ::-1],
    "a ** 2": lambda a, b: a**2,
}
MODULE = """
import math
import numpy as np
import vkcompute as vc
def kernel(x, y, out):
    i = vc.global_id(0)
    a, b = vc.{type}({x}), vc.{type}({y})
    c = {expression}
    {stores}
"""


def written(kind: str, n: int, expression: str) -> Any:
    x, y = (", ".join(f"{name}[i, {k}]" for k in range(n)) for name in "xy")
    stores = "; ".join(f"out[i, {k}] = c[{k}]" for k in range(n))
    text = MODULE.format(type=f"{kind}x{n}", x=x, y=y, expression=expression, stores=stores)
    return vc.kernel(module(text).kernel)


@pytest.mark.parametrize("expression", OPERATORS)
@pytest.mark.parametrize("dtype", TYPES)
def test_operators_work_on_each_element(gpu: vc.Runtime, dtype: str, expression: str) -> None:
    for n in (2, 3, 4):
        x, y = numbers(dtype, n), numbers(dtype, n, 1)
        kernel = written(dtype, n, expression)
        expected = OPERATORS[expression](x, y).astype(dtype)
        assert np.array_equal(result(gpu, kernel, x, y, shape=x.shape, dtype=dtype), expected)


@pytest.mark.parametrize("expression", ["a // b", "a % b", "a & b", "a | 3", "a ^ b", "~a", "a << 2", "a >> 1"])
@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_operators_of_integers(gpu: vc.Runtime, dtype: str, expression: str) -> None:
    x, y = numbers(dtype, 3), np.abs(numbers(dtype, 3, 1)) + 1
    y = y.astype(dtype)
    expected = eval(expression, {"a": x, "b": y})
    kernel = written(dtype, 3, expression)
    assert np.array_equal(result(gpu, kernel, x, y, shape=x.shape, dtype=dtype), expected)


@vc.kernel
def parts(x, k, out):
    i = vc.global_id(0)
    v = vc.float32x4(x[i, 0], x[i, 1], x[i, 2], x[i, 3])
    w = vc.float32x4(v.zy, v[1:3])
    for n in range(len(w)):
        out[i, n] = w[n]
    out[i, 4], out[i, 5], out[i, 6] = v.x, v.a, v[-1]
    c, d = v.wx
    out[i, 7], out[i, 8] = c, d
    out[i, 9] = v[k]
    out[i, 10], out[i, 11] = sum(v), min(v) + 10 * max(v)
    out[i, 12] = any(v > 3) + 2 * all(v.xyz > -100) + 4 * all(v > 3)
    e = vc.float32x2(7).yx + vc.float32x2((1, 2))
    out[i, 13], out[i, 14] = e
    f = vc.int32x2(v.xy)
    out[i, 15] = f.x / f.y if f.y != 0 else 0


def test_parts_of_vectors(gpu: vc.Runtime) -> None:
    x = numbers("float32", 4, 3)
    computed = result(gpu, parts, x, 2, shape=(ROWS, 16))
    a, b, c, d = x.T
    assert np.array_equal(computed[:, :9], np.stack([c, b, b, c, a, d, d, d, a], 1))
    assert np.array_equal(computed[:, 9:12], np.stack([c, x.sum(1), x.min(1) + 10 * x.max(1)], 1))
    assert np.array_equal(computed[:, 12], np.any(x > 3, 1) + 2 + 4 * np.all(x > 3, 1))
    assert np.array_equal(computed[:, 13:15], np.tile(np.float32([8, 9]), (ROWS, 1)))
    quotient = np.divide(a, b, out=np.zeros_like(a), where=b != 0)
    assert np.array_equal(computed[:, 15], quotient)


@vc.kernel
def geometry(x, y, out):
    i = vc.global_id(0)
    a, b = vc.float32x3(x[i, 0], x[i, 1], x[i, 2]), vc.float32x3(y[i, 0], y[i, 1], y[i, 2])
    out[i, 0], out[i, 1], out[i, 2] = a @ b, vc.vector.dot(a, b), np.dot(a.xy, b.yz)
    out[i, 3], out[i, 4] = vc.vector.length(a), np.linalg.norm(b)
    out[i, 5], out[i, 6], out[i, 7] = vc.vector.normalize(a)
    out[i, 8], out[i, 9], out[i, 10] = vc.vector.cross(a, b)
    out[i, 11] = np.cross(a, y[i]).x
    out[i, 12], out[i, 13], out[i, 14] = np.sqrt(abs(a))


def test_geometry(gpu: vc.Runtime) -> None:
    x, y = numbers("float32", 3, 4) + np.float32(0.5), numbers("float32", 3, 5) + np.float32(0.25)
    computed = result(gpu, geometry, x, y, shape=(ROWS, 15))
    dot, cross = (x * y).sum(1), np.cross(x, y)
    lengths = np.linalg.norm(x, axis=1)
    expected = [dot, dot, (x[:, :2] * y[:, 1:]).sum(1), lengths, np.linalg.norm(y, axis=1), *(x.T / lengths)]
    expected += [*cross.T, cross[:, 0], *np.sqrt(np.abs(x)).T]
    assert np.allclose(computed, np.stack(expected, 1), rtol=1e-6, atol=1e-4)


@vc.kernel
def walks(x, n, out):
    """A vector that changes in branches and loops, and grows from int32 to float32."""
    i = vc.global_id(0)
    v, steps = vc.int32x2(i, 1), 0
    for k in range(n):
        if x[i, 0] > k:
            v = v + vc.float32x2(k, 0.5)
        elif x[i, 0] == k:
            v += 1
        else:
            break
        steps += 1
    out[i, 0], out[i, 1] = swapped(v, steps > 2)


@vc.kernel
def among(x, out):
    i = vc.global_id(0)
    v = vc.float32x3(x[0], 2, 5)
    if x[i] in v:
        out[i] += 1
    if x[i] not in v.xy:
        out[i] += 2


def test_whether_a_number_is_an_element(gpu: vc.Runtime) -> None:
    x, out = gpu.array(np.array([7, 2, 5, 3], np.float32)), gpu.zeros(4)
    among[1, 4](x, out)
    assert out.numpy().tolist() == [1, 1, 3, 2]


def swapped(v, swap):
    if swap:
        return v.yx
    return v


@given(st.lists(st.integers(-1, 6), min_size=ROWS, max_size=ROWS), st.integers(0, 5))
def test_vectors_that_change(gpu: vc.Runtime, limits: list[int], n: int) -> None:
    computed = result(gpu, walks, np.array(limits, np.float32)[:, None], n, shape=(ROWS, 2))
    for i, limit in enumerate(limits):
        v, steps = [float(i), 1.0], 0
        for k in range(n):
            if limit < k:
                break
            v = [v[0] + k, v[1] + 0.5] if limit > k else [v[0] + 1, v[1] + 1]
            steps += 1
        assert computed[i].tolist() == (v[::-1] if steps > 2 else v)


@vc.kernel
def sums(x, out):
    i = vc.global_id(0)
    v = vc.int32x2(x[i, 0], x[i, 1])
    total = vc.subgroup.add(v)
    first = vc.subgroup.shuffle(v, 0)
    if i == 0:
        out[0, 0], out[0, 1] = total
        out[1, 0], out[1, 1] = first


def test_subgroups_of_vectors(gpu: vc.Runtime) -> None:
    physical = gpu.device.physical
    n = physical.subgroup_size
    if not physical.subgroup_operations >= {"arithmetic", "shuffle"}:
        pytest.skip("the device lacks these operations of subgroups")
    x, out = np.arange(2 * n, dtype=np.int32).reshape(n, 2), gpu.zeros((2, 2), np.int32)
    sums[1, n](gpu.array(x), out)
    assert out.numpy().tolist() == [x.sum(0).tolist(), x[0].tolist()]


@vc.kernel
def rows(x, y, out):
    i = vc.global_id(0)
    tile = vc.shared((5, 3), vc.float32)
    v = vc.float32x3(x[i])
    tile[vc.local_id(0)] = v * 2
    vc.barrier()
    out[i, 0] = vc.float32x4(x[i], 7) - (1 if i > 2 else 2)
    row = y[-1, i]
    out[i, 1] = vc.float32x4(1, row)
    out[i, 1, 0] += row[2]
    out[i, 1] += 0.5 * vc.float32x4(tile[4 - i, :], len(row))
    out[i, 2] = tuple4(v - x[4 - i])
    out[i, 2, 3] += v @ y[0, i]


def tuple4(v):
    return v.x, v.y, v.z, 1


def test_rows(gpu: vc.Runtime) -> None:
    x, y = numbers("float32", 3, 6), np.stack([numbers("float32", 3, 7), numbers("float32", 3, 8)])
    out = gpu.zeros((ROWS, 3, 4))
    rows[1, ROWS](gpu.array(x), gpu.array(y), out)
    result = out.numpy()
    less = np.where(np.arange(ROWS) > 2, 1, 2)[:, None]
    assert np.array_equal(result[:, 0], np.c_[x, np.full(ROWS, 7)] - less)
    assert np.array_equal(result[:, 1], np.c_[1 + y[1][:, 2], y[1]] + 0.5 * np.c_[2 * x[::-1], np.full(ROWS, 3)])
    assert np.array_equal(result[:, 2], np.c_[x - x[::-1], 1 + (x * y[0]).sum(1)])


RANDOM = """
import numpy as np
import vkcompute as vc
def kernel(x, out):
    i = vc.global_id(0)
    a, b, k = vc.int32x4(x[i, 0], x[i, 1], x[i, 2], x[i, 3]), vc.int32x4(x[i, 4], x[i, 5], x[i, 6], x[i, 7]), x[i, 8]
    c = {expression}
    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = c
"""
_SCALARS = st.sampled_from(["k", "3", "-7", "a[1]", "b[-1]", "(k & 15)", "np.int32(65537)"])
_VECTORS = st.recursive(
    st.sampled_from(["a", "b", "a[::-1]", "b[::-1]"]),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*&|^"), inner | _SCALARS),
        st.builds("({} {} {})".format, _SCALARS, st.sampled_from("+-*&|^"), inner),
        st.builds("np.where({} < {}, {}, {})".format, inner, inner | _SCALARS, inner, inner | _SCALARS),
        st.builds("({} if {} else {})".format, inner, st.sampled_from(["k > 3", "a[0] < b[1]"]), inner),
        st.builds("np.minimum({}, {})".format, inner, inner | _SCALARS),
        st.builds("({} // (({} & 7) + 1))".format, inner, inner),
        st.builds("(-{})".format, inner),
        st.builds("(~{})".format, inner),
    ),
    max_leaves=8,
)


@given(_VECTORS, st.integers(0, 2**32))
def test_random_expressions(gpu: vc.Runtime, expression: str, seed: int) -> None:
    """Numpy's arrays have the same operators: the same text is the oracle."""
    kernel = vc.kernel(module(RANDOM.format(expression=expression)).kernel)
    x = np.random.default_rng(seed).integers(-(2**31), 2**31, (ROWS, 9)).astype(np.int32)
    x[::2] %= 9
    with np.errstate(all="ignore"):
        expected = [eval(expression, {"np": np, "a": row[:4], "b": row[4:8], "k": row[8]}) for row in x]
    assert np.array_equal(result(gpu, kernel, x, shape=(ROWS, 4), dtype="int32"), np.array(expected, np.int32))


SMALL = """
import math
import numpy as np
import vkcompute as vc
def kernel(x, c, n, m):
    i = vc.global_id(0)
    v, w = vc.float32x3(1, n, 2), vc.int32x2(i, n)
    {statement}
"""
REFUSED = [
    ("vc.float32x3(1, 2)", "float32x3 takes 3 numbers, or one for all; got 2 (a Python int, a Python int)"),
    ("vc.float32x2(v)", "float32x2 takes 2 numbers, or one for all; got 3 (float32x3)"),
    ("vc.float32x2(x, 1)", "this takes numbers; got the array x"),
    ("v + w", "operands are vectors of one length; got float32x3 and int32x2; take parts, as v.xy"),
    ("v + (1, 2, 3)", "tuples have + of two tuples, and * of an int known at compile time; got float32 + a tuple of 3"),
    ("v.q", "float32x3 has no attribute q; it has up to four letters of xyz or rgb, as v.xy"),
    ("v.w", "float32x3 has no attribute w"),
    ("w.xg", "int32x2 has no attribute xg"),
    ("v[3]", "float32x3 is indexed by a constant in range; got 3"),
    ("v[x[i]]", "an index is an integer; got float32"),
    ("v[n:2]", "the bounds of a slice are constants"),
    ("v[2:]", "a vector has 2 to 4 elements; this slice has 1; write v[i] for one"),
    ("v[::0]", "the step of a slice is not 0"),
    ("v[0] = 1", "the elements of a vector cannot be assigned; make another vector"),
    ("v.x = 1", "a kernel assigns to variables and to elements of arrays; vectors are immutable"),
    ("x[i] = v", "this takes numbers; got float32x3; take an element, as v.x"),
    ("v @ 2", "@ takes two vectors; got float32x3 and a Python int"),
    ("v @ w", "operands are vectors of one length"),
    ("vc.vector.dot(v, 2.0)", "dot takes vectors; got float32x3 and a Python float; make vectors"),
    ("np.linalg.norm(x)", "norm takes vectors; got the array x (float32, 1-D); make vectors, as vc.float32x3(x"),
    ("x @ x", "@ takes two vectors; got the array x"),
    ("v & v", "& takes integers; got float32 and float32; write 'and' between"),
    ("float(v)", "this takes numbers; got float32x3; take an element, as v.x"),
    ("x[v] = 1", "x takes 1 indices, one per axis; got 3"),
    ("if v > 1: x[i] = 1", "boolx3 has no truth value; write any(v) or all(v)"),
    ("if n > 1: v = w\n    x[0] = v.x", "v has no value that can be used here"),
    ("sum(n)", "this takes a vector or a tuple; got a Python int; combine elements in a for loop"),
    (
        "x[0] = m[i] + 1",
        "this takes numbers; got a row of the array m (float32, 2-D); give it a length, as vc.float32x3(m",
    ),
    ("x[0] = m[i] @ m[0]", "@ takes two vectors; got a row of the array m"),
    (
        "vc.float32x4(m[i], m[0])",
        "float32x4 takes one row, and numbers for 4 elements in all; make vectors of the other rows",
    ),
    ("vc.float32x2(1, 2, m[0])", "float32x2 takes one row"),
    ("m[i, 0, 0] = 1", "m takes 2 indices, one per axis; got 3; write m[i, j]"),
    ("vc.local(4, vc.float32)[1:] = w", "an axis of 3 elements takes as many, or 1; got 2"),
    ("t = vc.shared((2, 4), vc.float32); t[0] = v", "rows of the shared array t (float32, 2-D) have 4 elements; got 3"),
    ("m[i][0][0] = 1", "only arrays, vectors and tuples are indexed; got float32"),
    ("vc.vector.cross(w, w)", "int32x2 has no attribute yzx"),
]


@pytest.mark.pure
@pytest.mark.parametrize(("statement", "message"), REFUSED, ids=[item[0] for item in REFUSED])
def test_what_is_refused(statement: str, message: str) -> None:
    kernel = module(SMALL.format(statement=statement)).kernel
    with pytest.raises(KernelError) as raised:
        compiled(kernel, ("f", 1), ("i", 1), int, ("f", 2))
    first, _, caret, *_ = str(raised.value).split("\n")
    assert message in first
    assert "^" in caret
    assert "mine.py" in first


@pytest.mark.pure
def test_the_types_are_told_apart_on_disk() -> None:
    texts = [fingerprint.value(getattr(vc, f"{element}x{n}")) for element in TYPES for n in (2, 3, 4)]
    assert None not in texts
    assert len(set(texts)) == 15


@pytest.mark.pure
def test_the_types_mean_nothing_outside() -> None:
    for name in [f"{element}x{n}" for element in TYPES for n in (2, 3, 4)]:
        with pytest.raises(KernelError, match=rf"vc.{name}\(…\) has a value inside"):
            getattr(vc, name)(1)
        assert repr(getattr(vc, name)) == f"vkcompute.{name}"
