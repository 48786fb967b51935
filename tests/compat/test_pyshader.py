"""PyShader's language against numpy: each construct of a shader."""

from __future__ import annotations

import itertools
import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_shader import run

import vkcompute as vc
from vkcompute.compat.pyshader import (
    Array,
    ShaderError,
    Vector,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    ivec2,
    ivec3,
    ivec4,
    python2shader,
    u8,
    u32,
    vec2,
    vec3,
    vec4,
)
from vkcompute.compat.pyshader.stdlib import exp, log

INDEX = ("input", "GlobalInvocationId", ivec3)
N = 10
FLOATS, INTS = Array(f32), Array(i32)


def floats(gpu: vc.Runtime, shader: Any) -> list[float]:
    """Runs N invocations of a shader; returns its only buffer, binding 1."""
    return run(gpu, shader, np.full(N, -1, np.float32), grid=N)[0].tolist()


def of_index(work: Any) -> list[float]:
    return [float(work(i)) for i in range(N)]


# -- control flow -----------------------------------------------------------------------------------------------------


def branches_compute(index=INDEX, out=("buffer", 1, FLOATS)):
    i = index.x
    if i < 2:
        if i == 0:
            out[i] = 10.0
        else:
            out[i] = 11.0
    elif i < 4:
        out[i] = 12.0
        if i > 2:
            out[i] = 13.0
    elif i < 8 and i != 5:
        out[i] = 14.0
    elif not (i < 9) or i == 5:
        out[i] = 15.0


def test_branches(gpu: vc.Runtime) -> None:
    assert floats(gpu, branches_compute) == [10, 11, 12, 13, 14, 15, 14, 14, -1, 15]


def variables_compute(index=INDEX, out=("buffer", 1, FLOATS)):
    i, result = index.x, False
    a = f32(i)
    v = vec2(a, 1.0)
    if i < 2:
        a = 100.0
    elif i < 8:
        a = a + 10.0
        result = True
        v = v * 2.0
    else:
        v = vec2(0.0, 0.0)
    if result:
        a -= v.x + v.y
    out[i] = a


def test_variables_that_change_in_branches(gpu: vc.Runtime) -> None:
    assert floats(gpu, variables_compute) == of_index(
        lambda i: 100 if i < 2 else i + 10 - 2 * i - 2 if i < 8 else i,
    )


def conditional_compute(index=INDEX, out=("buffer", 1, FLOATS)):
    i = index.x
    out[i] = (
        (10.0 * 4.0)
        if i == 0
        else ((39.0 + 2.0) if i == 1 else out[i] - 8.0 if (i == 3 or i > 7) else vec2(6.0, 7.0).y)
    )


def test_conditional_expressions(gpu: vc.Runtime) -> None:
    assert floats(gpu, conditional_compute) == [40, 41, 7, -9, 7, 7, 7, 7, -9, -9]


def loops_compute(index=INDEX, out=("buffer", 1, FLOATS)):
    value = 0.0
    for i in range(index.x):
        if i == 2:
            continue
        elif i == 7:
            break
        for j in range(3):
            value = value + 10.0
            for k in range(1, 8, 3):
                value += f32(k)
        for k in range(10):
            value = value - (1.0 if k < 5 else 2.0)
    n = -1
    while n < index.x - 1:
        n = n + 1
        if n == 4:
            break
        value += 0.25
    out[index.x] = value


def test_loops(gpu: vc.Runtime) -> None:
    def expected(index: int) -> float:
        trips = len([i for i in range(min(index, 7)) if i != 2])
        return trips * (30 + 3 * (1 + 4 + 7) - 15) + 0.25 * min(index, 4)

    assert floats(gpu, loops_compute) == of_index(expected)


def returns_compute(index=INDEX, out=("buffer", 1, FLOATS)):
    if index.x > 3:
        return
    out[index.x] = 0.0


def test_an_early_return(gpu: vc.Runtime) -> None:
    assert floats(gpu, returns_compute) == [0] * 4 + [-1] * 6


# -- numbers ----------------------------------------------------------------------------------------------------------

LEFT = np.array([-999999, -7, -4, -1, 0, 1, 5, 7, 2**31 - 1, -(2**31)], np.int32)
RIGHT = np.array([7, 2, -3, 4, 5, -6, 3, -2, 10, 3], np.int32)


def integers_compute(index=INDEX, a=("buffer", 0, INTS), b=("buffer", 1, INTS), out=("buffer", 2, Array(ivec4))):
    i = index.x
    out[i] = ivec4(a[i] // b[i], a[i] % b[i], a[i] * b[i] + -b[i], a[i] - 1)


def test_integers(gpu: vc.Runtime) -> None:
    """Division rounds towards zero, the remainder has the divisor's sign, and products wrap."""
    out = run(gpu, integers_compute, LEFT, RIGHT, np.zeros((N, 4), np.int32), grid=N)[2]
    with np.errstate(over="ignore"):
        quotient = np.trunc(LEFT / RIGHT).astype(np.int32)
        expected = np.stack([quotient, np.mod(LEFT, RIGHT), LEFT * RIGHT - RIGHT, LEFT - np.int32(1)], axis=1)
    np.testing.assert_array_equal(out, expected)


def arithmetic_compute(index=INDEX, a=("buffer", 0, FLOATS), b=("buffer", 1, FLOATS), out=("buffer", 2, Array(vec4))):
    i = index.x
    x, y = a[i], b[i]
    out[i] = vec4(x + y - 0.5, -x * y, x / y, x % y)


def test_floats(gpu: vc.Runtime) -> None:
    a, b = np.float32([1, -2, 3.5, -7, 0.125, 9, 1e6, -3, 0, 1]), np.float32([2, 3, -1.5, -2, 4, 0.5, 7, 7, 1, -1])
    out = run(gpu, arithmetic_compute, a, b, np.zeros((N, 4), np.float32), grid=N)[2]
    expected = np.stack([a + b - np.float32(0.5), -a * b, a / b, a - b * np.floor(a / b)], axis=1)
    np.testing.assert_allclose(out, expected, rtol=3e-6, atol=1e-6)


def powers_compute(index=INDEX, a=("buffer", 0, FLOATS), out=("buffer", 1, Array(vec4))):
    x = a[index.x]
    out[index.x] = vec4(x**2, x**0.5, x**x, pow(x, 3.5))


def test_powers(gpu: vc.Runtime) -> None:
    a = np.linspace(0.25, 4, N, dtype=np.float32)
    out = run(gpu, powers_compute, a, np.zeros((N, 4), np.float32), grid=N)[1]
    np.testing.assert_allclose(out, np.stack([a**2, a**0.5, a**a, a**3.5], axis=1), rtol=2e-5)


def comparisons_compute(index=INDEX, a=("buffer", 0, INTS), b=("buffer", 1, INTS), out=("buffer", 2, Array(ivec3))):
    x, y = a[index.x], b[index.x]
    out[index.x] = ivec3(x < y, (x == y) == (x >= y), x != y and 0 <= x <= 5)


def test_comparisons(gpu: vc.Runtime) -> None:
    out = run(gpu, comparisons_compute, LEFT, RIGHT, np.zeros((N, 3), np.int32), grid=N)[2]
    x, y = LEFT, RIGHT
    expected = np.stack([x < y, (x == y) == (x >= y), (x != y) & (x >= 0) & (x <= 5)], axis=1)
    np.testing.assert_array_equal(out, expected)


def wide_compute(
    index=INDEX, a=("buffer", 0, Array(i64)), small=("buffer", 1, Array(i16)), b=("buffer", 2, Array(f64))
):
    small[index.x] = i16(a[index.x])
    b[index.x] = f64(a[index.x] + i64(3000000000)) * f64(0.1) + sqrt(b[index.x])


def bytes_compute(index=INDEX, a=("buffer", 0, Array(i8)), b=("buffer", 1, Array(u8)), c=("buffer", 2, Array(u32))):
    i = index.x
    b[i] = u8(a[i])
    c[i] = u32(b[i]) * u32(16843009)


def need(gpu: vc.Runtime, *features: str) -> None:
    missing = [feature for feature in features if feature not in gpu.device.features]
    if missing:
        pytest.skip(f"the device has no {missing}")


def test_other_widths(gpu: vc.Runtime) -> None:
    need(gpu, "shaderInt64", "shaderFloat64", "shaderInt16", "storageBuffer16BitAccess")
    a = np.array([-999999, -100, -4, 0, 4, 100, 32767, 32768, 999999, 2**40 + 5])
    b = np.arange(N, dtype=np.float64)
    _, small, result = run(gpu, wide_compute, a, np.zeros(N, np.int16), b, grid=N)
    np.testing.assert_array_equal(small, a.astype(np.int16))
    np.testing.assert_allclose(result, (a + 3000000000) * 0.1 + np.sqrt(b), rtol=1e-15)


def test_bytes(gpu: vc.Runtime) -> None:
    need(gpu, "storageBuffer8BitAccess", "shaderInt8")
    a = np.array([-128, -3, -2, -1, 0, 1, 2, 3, 126, 127], np.int8)
    _, b, c = run(gpu, bytes_compute, a, np.zeros(N, np.uint8), np.zeros(N, np.uint32), grid=N)
    np.testing.assert_array_equal(b, a.astype(np.uint8))
    np.testing.assert_array_equal(c, a.astype(np.uint8).astype(np.uint32) * np.uint32(0x1010101))


# -- vectors ----------------------------------------------------------------------------------------------------------


def casts_compute(
    index=INDEX, a=("buffer", 0, Array(ivec2)), b=("buffer", 1, Array(vec2)), out=("buffer", 2, Array(vec4))
):
    i = index.x
    b[i] = vec2(a[i])
    out[i] = vec4(7.5, 3, ivec2(False, 2.7)) + vec4(ivec2(bvec2(a[i])), vec2(f32(True), 0.0))


def test_casts(gpu: vc.Runtime) -> None:
    a = np.array([[-999999, -100], [0, 1], [4, 0], [32767, 0], [0, 0]], np.int32)
    _, b, out = run(gpu, casts_compute, a, np.zeros((5, 2), np.float32), np.zeros((5, 4), np.float32), grid=5)
    np.testing.assert_array_equal(b, a)
    np.testing.assert_array_equal(out, np.float32([7.5, 3, 1, 2]) + np.c_[a != 0, np.zeros((5, 2))])


def triples_compute(index=INDEX, a=("buffer", 0, Array(ivec3)), b=("buffer", 1, Array(vec3))):
    i = index.x
    b[i] = vec3(a[i]).zxy * a[i][2 - 1] if False else vec3(a[i]).zxy * f32(a[i][1])


def test_vectors_of_three_lie_side_by_side(gpu: vc.Runtime) -> None:
    a = np.arange(-7, 8, dtype=np.int32).reshape(5, 3)
    out = run(gpu, triples_compute, a, np.zeros((5, 3), np.float32), grid=5)[1]
    np.testing.assert_array_equal(out, a[:, [2, 0, 1]] * a[:, 1:2])


def elements_compute(index=INDEX, a=("buffer", 0, Array(vec4)), out=("buffer", 1, Array(vec4))):
    v = a[index.x]
    swapped = vec4(v.wz, v[0], v.g)
    result = 0.0
    for k in range(4):
        result += v[k] * f32(k)
    out[index.x] = swapped.xxyw + vec4(v.rgb.b, v.stpq.q, result, a[index.x].y)


def test_elements(gpu: vc.Runtime) -> None:
    a = np.arange(20, dtype=np.float32).reshape(5, 4) ** 2
    _, y, z, w = a.T
    expected = np.stack([w + z, w + w, z + (y + 2 * z + 3 * w), y + y], axis=1)
    out = run(gpu, elements_compute, a, np.zeros((5, 4), np.float32), grid=5)[1]
    np.testing.assert_array_equal(out, expected)


def vectors_compute(
    index=INDEX, a=("buffer", 0, Array(vec3)), b=("buffer", 1, Array(vec3)), out=("buffer", 2, Array(vec3))
):
    u, v = a[index.x], b[index.x]
    w = -(u + v * 2.0) / v - 1.0
    w += 3.0 * (u @ v) + 1.0 / u
    w = w * vec3(u < v) + u % v
    w *= u if u.x < v.x else v
    out[index.x] = w


def test_arithmetic_of_vectors(gpu: vc.Runtime) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.uniform(0.5, 2, (2, 6, 3)).astype(np.float32)
    w = -(a + b * 2) / b - 1
    w += 3 * (a * b).sum(1, keepdims=True) + 1 / a
    w = w * (a < b) + np.mod(a, b)
    w *= np.where(a[:, :1] < b[:, :1], a, b)
    out = run(gpu, vectors_compute, a, b, np.zeros_like(a), grid=6)[2]
    np.testing.assert_allclose(out, w, rtol=2e-5)


def made_compute(index=INDEX, out=("buffer", 0, "Array(Vector(2, i32))")):
    out[index.x] = Vector(2, i32)(index.x, 9)


def test_types_made_where_they_are_used_and_named_by_texts(gpu: vc.Runtime) -> None:
    out = run(gpu, made_compute, np.zeros((3, 2), np.int32), grid=3)[0]
    np.testing.assert_array_equal(out, [[0, 9], [1, 9], [2, 9]])


SCALE = 2.5


def scaled(v: Any) -> Any:
    return v * SCALE


def helper_compute(index=INDEX, out=("buffer", 1, FLOATS)):
    out[index.x] = scaled(vec2(f32(index.x), 1.0)).x + math.fmod(-7.0, 4.0) + math.pi


def test_helpers_and_constants_from_outside(gpu: vc.Runtime) -> None:
    np.testing.assert_allclose(floats(gpu, helper_compute), of_index(lambda i: 2.5 * i - 3 + math.pi), rtol=1e-6)


def counting_compute(out=("buffer", 0, INTS)):
    n = vc.atomic.add(out, 0, 1)
    if any(ivec2(n, n) < ivec2(3, 2)):
        out[vc.global_id(0) + 1] = sum(ivec3(n, 1, 1)) - n


def test_what_kernels_have_besides(gpu: vc.Runtime) -> None:
    out = run(gpu, counting_compute, np.zeros(8, np.int32), grid=6)[0]
    assert out[0] == 6
    assert sorted(out[1:]) == [0, 0, 0, 0, 2, 2, 2]


def reporting_compute(index=INDEX, out=("buffer", 0, FLOATS)):
    out[0] = 1.0
    print(out[0])


def test_a_shader_reports_nothing() -> None:
    with pytest.raises(ShaderError, match="write values to an array"):
        python2shader(reporting_compute)


def lists_compute(index=INDEX, x=("buffer", 0, FLOATS), out=("buffer", 1, Array(vec3))):
    weights = [0.25, 0.5, 0.125]
    places = [vec2(1.0, 2.0), vec2(f32(index.x), 3.0)]
    result = 0.0
    for k in range(3):
        result += weights[k] * x[index.x + k]
    out[index.x] = vec3(places[index.x % 2], result + weights[1])


def test_lists(gpu: vc.Runtime) -> None:
    x = np.arange(7, dtype=np.float32) ** 2
    out = run(gpu, lists_compute, x, np.zeros((5, 3), np.float32), grid=5)[1]
    i = np.arange(5)
    sums = 0.25 * x[:5] + 0.5 * x[1:6] + 0.125 * x[2:] + 0.5
    np.testing.assert_array_equal(out, np.stack([np.where(i % 2, i, 1), 2 + i % 2, sums], axis=1))


def nested_lists_compute(index=INDEX, out=("buffer", 1, FLOATS)):
    i = index.x
    offsets = [[0, 4], [1, 5], [2, 7]]
    cubes = [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]]]
    row = offsets[i % 3]
    if i > 4:
        row = [10, 20]
    for k in range(i % 4):
        row = [row[1], row[0]]
    total = row[i % 2] + offsets[1][i % 2] + (offsets[0] if i > 2 else offsets[2])[1]
    out[i] = f32(total) + cubes[i % 2][i // 2 % 2][i % 2]


def by_python(i: int) -> float:
    """Computes element i of `nested_lists_compute` in Python."""
    offsets = [[0, 4], [1, 5], [2, 7]]
    row = [10, 20] if i > 4 else offsets[i % 3]
    row = row[::-1] if i % 4 % 2 else row
    total = row[i % 2] + offsets[1][i % 2] + offsets[0 if i > 2 else 2][1]
    return total + 4 * (i % 2) + 2 * (i // 2 % 2) + i % 2


def test_nested_lists(gpu: vc.Runtime) -> None:
    """Runtime indices select rows; rows are assigned in branches and loops."""
    assert floats(gpu, nested_lists_compute) == of_index(by_python)


LITERALS = (
    "[0, 4]", "[[0, 4], [1, 5]]", "[[0, 4], [1]]", "[[0.5, 1.0], [1, 5]]", "[[], []]", "[v, v]", "[[v, v], [v, v]]",
    "[(0, 4), (1, 5)]", "([0, 4], [1, 5])", "((0, 4), (1, 5))", "[x, x]", "[x[0], x[1]]", "[math, math]",
    "[True, False]", "['a', 'b']", "[None, None]", "index", "v",
)  # fmt: skip
USES = (
    "t[i]", "t[i][1]", "t[i][i]", "t[1][i]", "t[i, 1]", "t[i].x", "t[x[0]]", "t[v]", "t[i > 1]", "t[0:1][i]", "t[i:]",
    "(t if i > 1 else t)[1]", "(t, t)[i][1]", "t == t", "i in t", "t + t", "-t", "not t", "t and t", "len(t)", "max(t)",
    "sum(t)", "t @ t", "x[t]", "t()", "t[t]", "sqrt(t)", "f32(t)", "vec3(t)", "t[i] if i > 1 else t[0]",
)  # fmt: skip


def test_each_use_of_a_list_compiles_or_is_refused(tmp_path: Path) -> None:
    """No other exception leaves the compiler."""
    pairs = list(itertools.product(LITERALS, USES))
    lines = ["import math"]
    for n, (literal, use) in enumerate(pairs):
        lines += [f"def case{n}_compute(index, x, w):", "    i, v = index.x, w[0]", f"    t = {literal}"]
        lines += [f"    y = {use}", "    if i > 2:", f"        t = {use}"]
    path = tmp_path / "shaders.py"
    path.write_text("\n".join(lines))
    shaders = runpy.run_path(str(path))
    n_compiled = 0
    for n, pair in enumerate(pairs):
        shader = shaders[f"case{n}_compute"]
        shader.__defaults__ = INDEX, ("buffer", 0, FLOATS), ("buffer", 1, Array(vec3))
        try:
            python2shader(shader)
            n_compiled += 1
        except ShaderError:
            pass
        except Exception as error:
            raise AssertionError(pair) from error
    assert 50 < n_compiled < len(pairs)


# -- parameters -------------------------------------------------------------------------------------------------------


def slots_compute(
    index=INDEX, out=("buffer", (1, 0), FLOATS), a=("buffer", 5, FLOATS), b=("buffer", (0, 2), Array(4, f32))
):
    out[index.x] = a[index.x] - b[index.x]


def test_slots_are_honoured(gpu: vc.Runtime) -> None:
    """Tensors are passed in the order of set and binding, not of the parameters; bindings have gaps."""
    a, b = np.float32([5, 6, 7, 8]), np.float32([1, 1, 2, 2])
    module = python2shader(slots_compute)
    assert [(binding.set, binding.binding) for binding in gpu.kernel(module.to_spirv()).bindings] == [
        (0, 2),
        (0, 5),
        (1, 0),
    ]
    np.testing.assert_array_equal(run(gpu, module, b, a, np.zeros(4, np.float32), grid=4)[2], a - b)


def ids_compute(
    index=INDEX,
    group: ("input", "WorkgroupId", ivec2) = None,  # noqa: UP037
    n_groups=("input", "NumWorkgroups", ivec3),
    local=("input", "LocalInvocationId", ivec3),
    number=("input", "LocalInvocationIndex", i32),
    flat=("input", "GlobalInvocationId", i32),
    out: np.ndarray = ("BUFFER", 0, Array(ivec4)),
):
    """Writes the built-in inputs.

    A docstring is not compiled.
    """
    i = group.x * n_groups.y + group.y
    out[i] = ivec4(index.x, index.y, flat + 100 * number, local.x + local.y + local.z)


def test_inputs(gpu: vc.Runtime) -> None:
    out = run(gpu, ids_compute, np.zeros((4, 3, 4), np.int32), grid=(4, 3))[0]
    x, y = np.indices((4, 3))
    np.testing.assert_array_equal(out, np.stack([x, y, x, 0 * x], axis=2))


def test_a_module_says_what_it_is() -> None:
    module = python2shader(slots_compute)
    assert module.input is slots_compute
    assert module.description == "shader from slots_compute"
    assert module.to_spirv() == python2shader(slots_compute).to_spirv()
    assert exp is math.exp
    assert log is math.log
