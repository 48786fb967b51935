"""PyShader's functions against numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from run_shader import run

import vkcompute as vc
from vkcompute.compat.pyshader import Array, f32, i32, ivec3, ivec4, stdlib, vec2, vec3

INDEX = ("input", "GlobalInvocationId", ivec3)
FLOATS, INTS = Array(f32), Array(i32)
N = 10


X = np.linspace(-0.9, 0.9, N).astype(np.float32)
ONE: dict[str, Any] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "exp": np.exp, "exp2": np.exp2,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "round_even": np.rint, "abs": np.abs,
    "sign": np.sign, "fract": lambda x: x - np.floor(x), "radians": np.radians, "degrees": np.degrees,
}  # fmt: skip
POSITIVE: dict[str, Any] = {
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "acosh": lambda x: np.arccosh(x + 2),
    "atanh": lambda x: np.arctanh(x / 8),
}


def functions_compute(index=INDEX, a=("buffer", 0, Array(vec2)), out=("buffer", 1, Array(vec2))):
    x = a[index.x]
    n = index.y
    k = index.x * 22 + n
    value = x
    if n == 0:
        value = sin(x)
    elif n == 1:
        value = cos(x)
    elif n == 2:
        value = tan(x)
    elif n == 3:
        value = asin(x)
    elif n == 4:
        value = acos(x)
    elif n == 5:
        value = atan(x)
    elif n == 6:
        value = sinh(x)
    elif n == 7:
        value = cosh(x)
    elif n == 8:
        value = tanh(x)
    elif n == 9:
        value = asinh(x)
    elif n == 10:
        value = math.exp(x)
    elif n == 11:
        value = stdlib.exp2(x)
    elif n == 12:
        value = math.floor(x)
    elif n == 13:
        value = ceil(x)
    elif n == 14:
        value = trunc(x)
    elif n == 15:
        value = round(x)
    elif n == 16:
        value = round_even(x)
    elif n == 17:
        value = abs(x)
    elif n == 18:
        value = sign(x)
    elif n == 19:
        value = fract(x)
    elif n == 20:
        value = radians(x)
    elif n == 21:
        value = degrees(x)
    out[k] = value


def test_functions_of_one_number(gpu: vc.Runtime) -> None:
    a = np.stack([X, X * 3 / 4], axis=1)
    out = run(gpu, functions_compute, a, np.zeros((N * 22, 2), np.float32), grid=(N, 22))[1].reshape(N, 22, 2)
    for n, (name, function) in enumerate(ONE.items()):
        np.testing.assert_allclose(out[:, n], function(a.astype(np.float64)), rtol=1e-3, atol=1e-4, err_msg=name)


def positive_compute(index=INDEX, a=("buffer", 0, FLOATS), out=("buffer", 1, FLOATS)):
    x, k = a[index.x], index.x * 5
    out[k] = log(x)
    out[k + 1] = log2(x)
    out[k + 2] = sqrt(x)
    out[k + 3] = acosh(x + 2.0)
    out[k + 4] = atanh(x / 8.0)


def test_functions_of_positive_numbers(gpu: vc.Runtime) -> None:
    a = np.linspace(0.1, 5, N).astype(np.float32)
    out = run(gpu, positive_compute, a, np.zeros(N * 5, np.float32), grid=N)[1].reshape(N, 5)
    for n, (name, function) in enumerate(POSITIVE.items()):
        np.testing.assert_allclose(out[:, n], function(a.astype(np.float64)), rtol=1e-4, atol=1e-5, err_msg=name)


def several_compute(index=INDEX, a=("buffer", 0, Array(vec3)), out=("buffer", 1, Array(vec3))):
    v, k = a[index.x], index.x * 7
    out[k] = min(v, 0.25) + max(v, v.zyx)
    out[k + 1] = clamp(v, -0.5, 0.5)
    out[k + 2] = mix(v, v.yzx, 0.25) + mix(v, v.yzx, v)
    out[k + 3] = step(0.1, v)
    out[k + 4] = smooth_step(-0.5, 0.75, v)
    out[k + 5] = atan2(v, v.yxz)
    out[k + 6] = nmin(v, 0.1) + nmax(v, 0.2) + nclamp(v, 0.0, 0.5) + pow(v * v, 1.5)


def test_functions_of_several_numbers(gpu: vc.Runtime) -> None:
    v = np.random.default_rng(1).uniform(-1, 1, (N, 3)).astype(np.float32)
    out = run(gpu, several_compute, v, np.zeros((N * 7, 3), np.float32), grid=N)[1].reshape(N, 7, 3)
    other = v[:, [1, 2, 0]]
    t = np.clip((v + 0.5) / 1.25, 0, 1)
    expected = [
        np.minimum(v, 0.25) + np.maximum(v, v[:, ::-1]),
        np.clip(v, -0.5, 0.5),
        0.75 * v + 0.25 * other + v * (1 - v) + other * v,
        (v >= 0.1) * 1.0,
        t * t * (3 - 2 * t),
        np.arctan2(v, v[:, [1, 0, 2]]),
        np.minimum(v, 0.1) + np.maximum(v, 0.2) + np.clip(v, 0, 0.5) + np.abs(v) ** 3,
    ]
    for n, each in enumerate(expected):
        np.testing.assert_allclose(out[:, n], each, rtol=1e-3, atol=1e-4, err_msg=str(n))


def geometry_compute(index=INDEX, a=("buffer", 0, Array(vec3)), out=("buffer", 1, Array(vec3))):
    p, q, k = a[index.x], a[index.x + 1], index.x * 5
    out[k] = vec3(length(p), distance(p, q), length(p.xy))
    out[k + 1] = cross(p, q)
    out[k + 2] = normalize(p)
    out[k + 3] = face_forward(p, q, p)
    out[k + 4] = reflect(p, normalize(q))


def test_geometry(gpu: vc.Runtime) -> None:
    a = np.random.default_rng(2).uniform(-1, 1, (N + 1, 3)).astype(np.float32)
    out = run(gpu, geometry_compute, a, np.zeros((N * 5, 3), np.float32), grid=N)[1].reshape(N, 5, 3)
    p, q = a[:-1], a[1:]
    norm = np.linalg.norm
    unit = q / norm(q, axis=1, keepdims=True)
    np.testing.assert_allclose(
        out[:, 0], np.stack([norm(p, axis=1), norm(p - q, axis=1), norm(p[:, :2], axis=1)], 1), rtol=1e-4
    )
    np.testing.assert_allclose(out[:, 1], np.cross(p, q), atol=1e-5)
    np.testing.assert_allclose(out[:, 2], p / norm(p, axis=1, keepdims=True), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(out[:, 3], np.where((p * q).sum(1, keepdims=True) < 0, p, -p))
    np.testing.assert_allclose(out[:, 4], p - 2 * (unit * p).sum(1, keepdims=True) * unit, atol=1e-4)


def integer_functions_compute(index=INDEX, a=("buffer", 0, INTS), out=("buffer", 1, Array(ivec4))):
    x = a[index.x]
    out[index.x] = ivec4(abs(x), sign(x), min(x, 3), clamp(x, -2, 2))


def test_functions_of_integers(gpu: vc.Runtime) -> None:
    a = np.arange(-5, 5, dtype=np.int32)
    out = run(gpu, integer_functions_compute, a, np.zeros((N, 4), np.int32), grid=N)[1]
    expected = np.stack([np.abs(a), np.sign(a), np.minimum(a, 3), np.clip(a, -2, 2)], 1)
    np.testing.assert_array_equal(out, expected)
