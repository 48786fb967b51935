"""Complex numbers in block programs, beside NumPy's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_programs import check_error, run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as triton_language
from vkcompute import KernelError
from vkcompute.blocks import language as tl
from vkcompute.blocks.language import libdevice
from vkcompute.blocks.launching.program import complex_program

N = 64
COMPLEX = np.complex64, np.complex128
_EDGES = 0.0, -0.0, 1.5, -0.5, np.inf, -np.inf, np.nan
EDGES = np.array([complex(x, y) for x in _EDGES for y in _EDGES] + [0j] * (N - len(_EDGES) ** 2))


def numbers(dtype: Any, seed: int, n: int = N) -> np.ndarray[Any, Any]:
    """Returns random numbers around 0."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=n) + 1j * rng.normal(size=n)).astype(dtype)


def tolerance(dtype: Any) -> float:
    """Returns the greatest error of a few operations on numbers around 1."""
    return float(32 * np.finfo(dtype).eps)


def check_equal(given: Any, wanted: Any) -> None:
    """Checks equal parts: NaN equals NaN, and zeros have their signs."""
    for one, other in ((given.real, wanted.real), (given.imag, wanted.imag)):
        np.testing.assert_array_equal(one, other)
        is_zero = other == 0
        np.testing.assert_array_equal(np.signbit(one)[is_zero], np.signbit(other)[is_zero])


@complex_program
def computing(x_ptr, y_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at, mask=at < n, other=1 + 2j)
    y = tl.load(y_ptr + at)
    z = x * y + 1j * x - y / x
    z *= 2.0
    z -= at
    tl.store(out_ptr + at, -z.conj() + z.real * 3 + y.imag, mask=at != 3)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_operators(machine: vkcompute.Runtime | None, dtype: Any) -> None:
    x, y = numbers(dtype, 1), numbers(dtype, 2)
    out = np.full(N, 7, dtype)
    given = run(machine, computing, (1,), (x, y, out, 50), N=N)[2]
    x[50:] = 1 + 2j
    z = (x * y + 1j * x - y / x) * 2 - np.arange(N)
    wanted = -z.conj() + z.real * 3 + y.imag
    wanted[3] = 7
    np.testing.assert_allclose(given, wanted, rtol=tolerance(dtype), atol=N * tolerance(dtype))


@complex_program
def edges(x_ptr, y_ptr, out_ptr, equal_ptr, N: tl.constexpr):
    i = tl.arange(0, N)[:, None]
    j = tl.arange(0, N)[None, :]
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + j)
    out_ptr += i * N + j
    tl.store(out_ptr, x + y)
    tl.store(out_ptr + N * N, x - y)
    tl.store(out_ptr + 2 * N * N, x * y)
    tl.store(out_ptr + 3 * N * N, -x + y * 0)
    tl.store(out_ptr + 4 * N * N, tl.where(x == y, x.conj(), y))
    tl.store(equal_ptr + i * N + j, (x != y).to(tl.int8))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_special_values(machine: vkcompute.Runtime | None, dtype: Any) -> None:
    x = EDGES.astype(dtype)
    out, unequal = np.zeros((5, N, N), dtype), np.zeros((N, N), np.int8)
    given, unequal = run(machine, edges, (1,), (x, x, out, unequal), N=N)[2:]
    one, other = x[:, None], x[None, :]
    with np.errstate(all="ignore"):
        re = one.real * other.real - one.imag * other.imag
        im = one.real * other.imag + one.imag * other.real
        check_equal(given[0], one + other)
        check_equal(given[1], one - other)
        np.testing.assert_array_equal(given[2].real, re)
        np.testing.assert_array_equal(given[2].imag, im)
        check_equal(given[4], np.where(one == other, one.conj(), other))
    np.testing.assert_array_equal(unequal, one != other)


@complex_program
def of_elements(x_ptr, out_ptr, real_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    results = tl.exp(x), tl.log(x), tl.sqrt(x), tl.sin(x), tl.cos(x), tl.conj(x), libdevice.tanh(x), -x
    for k in tl.static_range(8):
        tl.store(out_ptr + k * N + at, results[k])
    tl.store(real_ptr + at, tl.abs(x))


FUNCTIONS = np.exp, np.log, np.sqrt, np.sin, np.cos, np.conj, np.tanh, np.negative


@pytest.mark.rotates
def test_functions(machine: vkcompute.Runtime | None) -> None:
    x = numbers(np.complex64, 3)
    given, size = run(machine, of_elements, (1,), (x, np.zeros((8, N), x.dtype), np.zeros(N, np.float32)), N=N)[1:]
    wanted, error = np.array([function(x) for function in FUNCTIONS]), tolerance(x.dtype)
    np.testing.assert_allclose(given, wanted, rtol=error, atol=error)
    np.testing.assert_allclose(size, abs(x), rtol=error)


@complex_program
def few_of_elements(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr + tl.arange(0, N), tl.exp(x) + tl.sqrt(x) * tl.abs(x))


def test_functions_of_double_precision(machine: vkcompute.Runtime | None) -> None:
    x = numbers(np.complex128, 3)
    given = run(machine, few_of_elements, (1,), (x, np.zeros_like(x)), N=N)[1]
    np.testing.assert_allclose(given, np.exp(x) + np.sqrt(x) * abs(x), rtol=tolerance(x.dtype))


def test_functions_of_special_values(machine: vkcompute.Runtime | None) -> None:
    x = EDGES.astype(np.complex64)
    given, size = run(machine, of_elements, (1,), (x, np.zeros((8, N), x.dtype), np.zeros(N, np.float32)), N=N)[1:]
    with np.errstate(all="ignore"):
        for at, function in enumerate(FUNCTIONS):
            wanted = function(x.astype(np.complex128)).astype(np.complex64)
            for one, other in ((given[at].real, wanted.real), (given[at].imag, wanted.imag)):
                is_known = np.isfinite(other)
                np.testing.assert_allclose(one[is_known], other[is_known], rtol=1e-5, atol=1e-6)
                np.testing.assert_array_equal(np.isnan(one), np.isnan(other), function.__name__)
        np.testing.assert_allclose(size, abs(x), rtol=1e-6)


@complex_program
def powers(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x**2)
    tl.store(out_ptr + N + at, x ** (0.5 + 1j))
    tl.store(out_ptr + 2 * N + at, 2.0**x)
    tl.store(out_ptr + 3 * N + at, x.real**x + complex(x.imag, x.real))


def test_powers(machine: vkcompute.Runtime | None) -> None:
    dtype = np.complex64
    x = numbers(dtype, 4)
    given = run(machine, powers, (1,), (x, np.zeros((4, N), dtype)), N=N)[1]
    last = x.real.astype(dtype) ** x + (x.imag + 1j * x.real)
    wanted = np.array([x**2, x ** (0.5 + 1j), 2.0**x, last])
    np.testing.assert_allclose(given, wanted, rtol=8 * tolerance(dtype), atol=8 * tolerance(dtype))


@complex_program
def shaped(x_ptr, out_ptr, sums_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    turned = x.T.reshape(N * M)
    tl.store(out_ptr + tl.arange(0, M * N), turned)
    row = tl.sum(x, axis=0)
    tl.store(sums_ptr + tl.arange(0, N), row)
    wide = tl.broadcast_to(row[None, :], (M, N)) + tl.expand_dims(x.sum(1), 1)
    tl.store(out_ptr + M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], wide)
    tl.store(sums_ptr + N, tl.sum(x))
    even, odd = tl.split(x.reshape(M, N // 2, 2))
    tl.store(out_ptr + 2 * M * N + tl.arange(0, M * N), tl.ravel(tl.flip(tl.join(odd, even))))
    tl.store(out_ptr + 3 * M * N + tl.arange(0, M * N), tl.cumsum(tl.cat(turned, turned), 0).reshape(2, M * N).sum(0))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_shapes_and_sums(machine: vkcompute.Runtime | None, dtype: Any) -> None:
    x = numbers(dtype, 5, 32).reshape(4, 8)
    given, sums = run(machine, shaped, (1,), (x, np.zeros((4, 32), dtype), np.zeros(9, dtype)), M=4, N=8)[1:]
    exact = {"rtol": tolerance(dtype), "atol": 32 * tolerance(dtype)}
    np.testing.assert_array_equal(given[0], x.T.ravel())
    np.testing.assert_allclose(sums, [*x.sum(0), x.sum()], **exact)
    np.testing.assert_allclose(given[1], (x.sum(0)[None, :] + x.sum(1)[:, None]).ravel(), **exact)
    np.testing.assert_array_equal(given[2], x.ravel())
    twice = np.cumsum(np.concatenate([x.T.ravel()] * 2)).reshape(2, 32).sum(0)
    np.testing.assert_allclose(given[3], twice, **exact)


@complex_program
def product(a_ptr, b_ptr, out_ptr, K, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    acc = tl.zeros((M, N), tl.complex64)
    for k in range(0, K, M):
        a = tl.load(a_ptr + m * K + k + tl.arange(0, M)[None, :])
        acc = tl.dot(a, tl.load(b_ptr + (k + tl.arange(0, M)[:, None]) * N + n), acc)
    tl.store(out_ptr + m * N + n, acc)


def test_products(machine: vkcompute.Runtime | None) -> None:
    a, b = numbers(np.complex64, 6, 16 * 32).reshape(16, 32), numbers(np.complex64, 7, 32 * 8).reshape(32, 8)
    given = run(machine, product, (1,), (a, b, np.zeros((16, 8), a.dtype), 32), M=16, N=8)[2]
    np.testing.assert_allclose(given, a @ b, rtol=1e-4, atol=1e-4)


@complex_program
def in_turn(x_ptr, out_ptr, n):
    total = 0j
    for k in range(n):
        z = tl.load(x_ptr + k)
        if z.real > 0:
            total += z
        else:
            total = total * 1j
    tl.store(out_ptr, total)


def test_scalars_in_loops_and_branches(machine: vkcompute.Runtime | None) -> None:
    x, wanted = numbers(np.complex64, 8, 20), 0j
    for z in x:
        wanted = wanted + complex(z) if z.real > 0 else wanted * 1j
    given = run(machine, in_turn, (1,), (x, np.zeros(1, x.dtype), 20))[1]
    np.testing.assert_allclose(given[0], wanted, rtol=1e-5)


@complex_program
def windows(x_ptr, out_ptr, parts_ptr, n, N: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (n,), (1,), (3,), (N,), (0,))
    out = tl.make_tensor_descriptor(out_ptr, [n, 1], [1, 1], [N, 1])
    out.store([2, 0], tl.load(x, boundary_check=(0,))[:, None].to(tl.complex128))
    at = tl.arange(0, N)
    tl.store(parts_ptr.to(tl.pointer_type(tl.complex64)) + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)
    tl.atomic_add(x_ptr.to(tl.pointer_type(tl.float32)) + 2 * at + 1, 1.0, mask=at < n)


def test_windows_and_parts(machine: vkcompute.Runtime | None) -> None:
    x = numbers(np.complex64, 9, 13)
    arrays = x, np.zeros(13, np.complex128), np.zeros(26, np.float32)
    changed, out, parts = run(machine, windows, (1,), (*arrays, 13), N=16)
    np.testing.assert_array_equal(out, [0, 0, *x[3:], 0])
    np.testing.assert_array_equal(parts.view(np.complex64), x)
    np.testing.assert_allclose(changed, x + 1j, rtol=1e-6)


def test_views(gpu: vkcompute.Runtime) -> None:
    x, y = numbers(np.complex64, 10), numbers(np.complex64, 11)
    whole, out = gpu.array(x), gpu.array(np.zeros(N, x.dtype))
    computing[(1,)](whole[5:], gpu.array(y), out[32:], 8, N=16)
    z = np.where(np.arange(16) < 8, x[5:21], 1 + 2j)
    z, y = (z * y[:16] + 1j * z - y[:16] / z) * 2 - np.arange(16), y[:16]
    wanted = -z.conj() + z.real * 3 + y.imag
    wanted[3] = 0
    np.testing.assert_allclose(out.numpy()[32:48], wanted, rtol=1e-4, atol=1e-4)


def test_bounds(gpu: vkcompute.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros(50, np.complex64)
    with pytest.raises(KernelError, match="accesses element 100 of the parts of y_ptr, which has 100"):
        computing.interpret[(1,)](x, x.copy(), x.copy(), 50, N=N)
    monkeypatch.setenv("VKCOMPUTE_CHECK_BOUNDS", "1")
    with pytest.raises(KernelError, match="accesses element 50 of y_ptr, whose elements are 0 to 49"):
        computing[(1,)](*[gpu.array(x) for _ in range(3)], 50, N=N).result()
    view, out = gpu.array(np.zeros(100, x.dtype))[40:], gpu.array(np.zeros(N, x.dtype))
    with pytest.raises(KernelError, match="accesses element 60 of y_ptr, whose elements are 0 to 59"):
        computing[(1,)](gpu.array(x), view, out, 50, N=N).result()


REFUSED = [
    ("tl.store(x_ptr, z < z)", "complex numbers have no order; compare tl.abs(z), z.real or z.imag"),
    ("tl.store(x_ptr, z % z)", "% takes real numbers"),
    ("tl.sort(z)", "tl.sort takes no complex numbers; take the parts, z.real and z.imag"),
    ("tl.max(z, 0)", "tl.max takes no complex numbers"),
    ("tl.atomic_add(x_ptr, 1.0)", "atomic add takes real numbers; x_ptr has complex64; take the parts"),
    ("tl.atomic_add(x_ptr, z)", "tl.atomic_add takes no complex numbers"),
    ("tl.associative_scan(z, 0, tl.add)", "tl.associative_scan takes no complex numbers"),
    ("z.to(tl.float32)", "this takes real numbers; got a complex number whose parts are a block of fp32[16]"),
    ("tl.store(y_ptr + tl.arange(0, 16), z)", "this takes real numbers"),
    ("if z:\n        pass", "has no truth value"),
    ("z.size", "has no attribute size; it has real, imag"),
    ("tl.erf(z)", "tl.erf takes no complex numbers"),
    ("tl.load(y_ptr.to(tl.pointer_type(tl.complex128)))", "is one to an array of its parts"),
    ("a, b = z", "has no items; take its parts, z.real and z.imag"),
    ("tl.zeros((4,), tl.float32)[z]", "in brackets"),
    ("tl.device_print('z', z)", "tl.device_print takes no complex numbers"),
    ("x_ptr + z", "this takes numbers; got a pointer to x_ptr"),
    ("tl.arange(0, z)", "tl.arange takes no complex numbers"),
]


@pytest.mark.pure
@pytest.mark.parametrize(("statement", "message"), REFUSED)
def test_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, statement: str, message: str) -> None:
    path = tmp_path / "refused_complex.py"
    body = f"    z = tl.load(x_ptr + tl.arange(0, 16))\n    {statement}\n"
    header = "from vkcompute.blocks import language as tl\ndef program(x_ptr, y_ptr):\n"
    path.write_text(header + body)
    space: dict[str, Any] = {"__name__": "refused_complex"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    with pytest.raises(KernelError) as caught:
        complex_program(space["program"]).interpret[(1,)](np.zeros(16, np.complex64), np.zeros(16, np.float32))
    check_error(caught.value, message, statement.split("\n")[0])


@triton.jit
def of_triton(x_ptr, N: triton_language.constexpr):
    x = triton_language.load(x_ptr + triton_language.arange(0, N))
    triton_language.store(x_ptr + triton_language.arange(0, N), x * 1j)


def test_triton_has_none(machine: vkcompute.Runtime | None) -> None:
    assert not hasattr(triton_language, "complex64")
    with pytest.raises(TypeError, match=r"got an array of complex64; pass x.real and x.imag"):
        run(machine, of_triton, (1,), (np.zeros(16, np.complex64),), N=16)
    with pytest.raises(KernelError, match="1j; numbers are bools, ints and floats"):
        run(machine, of_triton, (1,), (np.zeros(16, np.float32),), N=16)
