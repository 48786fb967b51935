"""Complex arrays: numpy's values within a few roundings, C99's special values, views of parts, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from runtimes import computes_by_words, lacks

import vkcompute as vc
import vkcompute.numpy as vnp

pytestmark = pytest.mark.device_only

UNARY = {
    **dict.fromkeys(("negative", "conjugate", "positive"), 0),
    **dict.fromkeys(("absolute", "angle", "sign", "square", "sqrt", "reciprocal", "exp", "log", "log2", "log10"), 3),
    **dict.fromkeys(("sin", "cos", "sinh", "cosh", "tan", "tanh", "expm1", "log1p"), 6),
    **dict.fromkeys(("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"), 4),
}
"""Function -> error bound in units of eps, relative to |f(z)|.

A function of 2 ulp is called a few times, each with a factor of one rounding; sums of parts do not cancel in |f(z)|.
"""
BINARY = {"add": 1, "subtract": 1, "multiply": 2, "divide": 4}
DTYPES = "complex64", "complex128"
SLOW_BY_WORDS = {*UNARY} - {*"negative conjugate positive absolute sign square sqrt reciprocal exp".split()}
"""Functions that compile for 5 to 10 s by words on SwiftShader, where float64 functions have tests of their own."""


def numbers(n: int, dtype: str, seed: int = 0) -> np.ndarray:
    """Complex numbers of moduli between 1e-3 and 30, in all directions."""
    rng = np.random.default_rng(seed)
    size, angle = 10 ** rng.uniform(-3, 1.5, n), rng.uniform(-np.pi, np.pi, n)
    return (size * np.exp(1j * angle)).astype(dtype)


def skip_slow(gpu: vc.Runtime, name: str, dtype: str) -> None:
    if name in SLOW_BY_WORDS and computes_by_words(gpu, dtype):
        pytest.skip(f"the device computes {dtype} by words")


def needs_bools(gpu: vc.Runtime) -> None:
    if "storageBuffer8BitAccess" not in gpu.device.features:
        pytest.skip("kernels of the device have no bytes, of which bools are")


def check(result: Any, expected: Any, bound: float) -> None:
    """Compares with numpy's value: the error is at most `bound` times eps, relative to the modulus."""
    host = result.numpy()
    assert (host.dtype, host.shape) == (expected.dtype, expected.shape)
    eps = np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
    exact = np.asarray(expected).astype(np.complex128)
    assert np.all(np.abs(host - exact) <= bound * eps * np.abs(exact) + np.finfo(np.float32).tiny)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_a_number(gpu: vc.Runtime, name: str, dtype: str) -> None:
    skip_slow(gpu, name, dtype)
    z = numbers(500, dtype)
    expected = getattr(np, name)(z.astype(np.clongdouble)).astype(getattr(np, name)(z).dtype)
    check(getattr(vnp, name)(gpu.array(z)), expected, UNARY[name] + 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(gpu: vc.Runtime, name: str, dtype: str) -> None:
    z, w = numbers(500, dtype), numbers(500, dtype, 1)
    exact = getattr(np, name)(z.astype(np.clongdouble), w.astype(np.clongdouble)).astype(dtype)
    check(getattr(vnp, name)(gpu.array(z), gpu.array(w)), exact, BINARY[name])


def test_powers(gpu: vc.Runtime) -> None:
    z, w = numbers(300, "complex64"), numbers(300, "complex64", 1) / 10
    size = 1 + np.abs(w) * np.abs(np.log(z))  # the exponential multiplies the error of its argument, w * log(z)
    result = (gpu.array(z) ** gpu.array(w)).numpy()
    exact = z.astype(complex) ** w.astype(complex)
    assert np.all(np.abs(result - exact) <= 6 * size * np.finfo(np.float32).eps * np.abs(exact))
    for n in (0, 1, 2, 3, -2, 7):
        check(gpu.array(z) ** n, (z.astype(complex) ** n).astype(np.complex64), 2 * abs(n) + 5)


SPECIAL = [-np.inf, -1.5, -1.0, -0.0, 0.0, 0.5, 1.0, np.inf, np.nan]


@pytest.mark.parametrize(
    "name", ["exp", "log", "sqrt", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "arccos", "arcsin", "sign"]
)
def test_special_values_and_branch_cuts(gpu: vc.Runtime, name: str) -> None:
    """Conjugate numbers have conjugate results; functions that are even or odd are so, on both sides of the cuts."""
    z = np.array([complex(a, b) for a in SPECIAL for b in SPECIAL], np.complex64)
    function = getattr(vnp, name)
    result, mirrored = function(gpu.array(z)).numpy(), function(gpu.array(z.conj())).numpy()
    plain = ~np.isnan(z.imag)
    same(result[plain].real, mirrored[plain].real)
    same(result[plain].imag, -mirrored[plain].imag, zeros=name != "sign")
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z)
    finite = np.isfinite(z) & np.isfinite(expected)
    np.testing.assert_allclose(result[finite], expected[finite], 3e-6, 3e-6)
    if name != "sign":
        assert np.array_equal(np.signbit(result[finite].imag), np.signbit(expected[finite].imag))
        infinite = np.isinf(z) & ~np.isnan(z) & ~np.isnan(expected)
        np.testing.assert_allclose(result[infinite].real, expected[infinite].real, 1e-6)
        np.testing.assert_allclose(result[infinite].imag, expected[infinite].imag, 1e-6)


AROUND = [0.0, -0.0, 1e-30, 0.5, -1.5, 2.0, -3.7, 3.7, 4.0, -5.0, 30.0, 100.0, -800.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", ["cosh", "sinh", "tanh", "cos", "sin", "tan", "exp", "sqrt", "log", "reciprocal"])
def test_signs_of_zero_and_special_values_are_numpys(gpu: vc.Runtime, name: str) -> None:
    """NumPy's are C99's, which leaves the sign of a part open where the other one is NaN."""
    for dtype in ("complex64", "complex128"):
        if lacks(gpu, dtype) or (computes_by_words(gpu, dtype) and name in SLOW_BY_WORDS):
            continue
        z = np.empty((len(AROUND), len(AROUND)), dtype)
        z.real, z.imag = np.array(AROUND)[:, None], AROUND
        z = z[(z != 0) | (name != "reciprocal")]
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(z)
        result = getattr(vnp, name)(gpu.array(z)).numpy()
        known = ~np.isnan(expected)
        for part, other in ((result.real, expected.real), (result.imag, expected.imag)):
            assert np.array_equal(np.isnan(part), np.isnan(other)), z[np.isnan(part) != np.isnan(other)]
            assert np.array_equal(np.isinf(part), np.isinf(other)), z[np.isinf(part) != np.isinf(other)]
            signs = known & (np.signbit(part) != np.signbit(other))
            assert not np.any(signs), z[signs]


def test_sides_of_branch_cuts_after_other_functions(gpu: vc.Runtime) -> None:
    z = np.array([-3.7j, 2j, complex(-0.0, 3.7), 2, 3.7, complex(3.7, -0.0), complex(3, -0.0), 4j], np.complex64)
    x = gpu.array(z)
    for outer, inner in (("sqrt", "cosh"), ("log", "cos"), ("sqrt", "sinh"), ("log", "sin"), ("angle", "cos")):
        result = getattr(vnp, outer)(getattr(vnp, inner)(x)).numpy()
        np.testing.assert_allclose(result, getattr(np, outer)(getattr(np, inner)(z)), 1e-5, 1e-6, err_msg=inner)


def test_quotients_and_powers_with_zero_and_infinite_parts(gpu: vc.Runtime) -> None:
    parts = [0.0, -0.0, 1.0, -3.7, np.inf]
    z = np.array([complex(a, b) for a in parts for b in parts], np.complex64)
    w = np.array([0, 1, 2, 3, -1, -2], np.complex64)
    with np.errstate(all="ignore"):
        pairs = [(z[:, None] / z, gpu.array(z)[:, None] / gpu.array(z)),
                 (z[:, None] ** w, gpu.array(z)[:, None] ** gpu.array(w))]  # fmt: skip
    for expected, result in pairs:
        plain = ~np.isnan(expected)
        for one, other in ((expected.real, result.numpy().real), (expected.imag, result.numpy().imag)):
            np.testing.assert_allclose(other[plain], one[plain], 1e-5, 1e-6)
            zero = plain & (one == 0)
            assert np.array_equal(np.signbit(one[zero]), np.signbit(other[zero])), z[np.nonzero(zero)[0]]


def test_functions_of_a_number_with_a_nan_are_not_numbers(gpu: vc.Runtime) -> None:
    z = np.array([complex(a, b) for a in (*SPECIAL, 100.0) for b in (*SPECIAL, 100.0)], np.complex64)
    z = z[np.isnan(z)]
    for name in UNARY:
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(z)
        result = getattr(vnp, name)(gpu.array(z)).numpy()
        unknown = np.isnan(expected) if name != "expm1" else np.isnan(expected) & ~np.isinf(z)
        assert np.isnan(result[unknown]).all(), name


def test_powers_of_zero(gpu: vc.Runtime) -> None:
    z = np.array([0j, -0.0, 1], np.complex64)
    w = np.array([1 - 1j, 0.5 + 2j, 0, 2, -1j, -1 + 1j], np.complex64)
    with np.errstate(all="ignore"):
        expected = z[:, None] ** w
    np.testing.assert_allclose((gpu.array(z)[:, None] ** gpu.array(w)).numpy(), expected, rtol=1e-6)


def same(one: np.ndarray, other: np.ndarray, *, zeros: bool = True) -> None:
    """Checks that numbers, and signs of zeros, are equal; NaN is equal to NaN."""
    assert np.array_equal(one, other, equal_nan=True)
    number = ~np.isnan(one) & ((one != 0) | zeros)
    assert np.array_equal(np.signbit(one[number]), np.signbit(other[number]))


def test_results_that_only_a_part_of_which_would_overflow(gpu: vc.Runtime) -> None:
    z = np.array([89 + 1.57j, 89.2 - 1.5j, 3e38 + 3e38j, 2e-38 + 2e-38j, 2e30 + 1j, 1e10j], np.complex64)
    for name in ("exp", "log", "sqrt", "absolute", "arcsinh", "arctanh", "cosh", "tanh", "sign"):
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(z.astype(complex)).astype(getattr(np, name)(z).dtype)
        result = getattr(vnp, name)(gpu.array(z)).numpy()
        held = np.isfinite(expected)
        np.testing.assert_allclose(result[held], expected[held], 2e-5)


@given(
    shapes=npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4, min_side=0),
    kind=st.sampled_from(["complex64", "float32", "int16", "bool"]),
    name=st.sampled_from(["add", "multiply", "equal", "not_equal"]),
)
def test_operands_are_promoted_and_broadcast(gpu: vc.Runtime, shapes: Any, kind: str, name: str) -> None:
    needs_bools(gpu)
    x, y = (numbers(int(np.prod(shape)), "complex64").reshape(shape) for shape in shapes.input_shapes)
    y = y if kind == "complex64" else y.real.astype(kind)
    expected = getattr(np, name)(x, y)
    check(getattr(vnp, name)(gpu.array(x), gpu.array(y)), expected, 2)


def test_numbers_of_python_adapt(gpu: vc.Runtime) -> None:
    z, x, n = gpu.array(np.ones(3, np.complex64)), gpu.array(np.ones(3, np.float32)), gpu.array(np.ones(3, np.int32))
    for result in (z + 1, 1.5 * z, z - 1j, x * 1j, 2j / n, vnp.where(x > 0, x, 1j), vnp.asarray(1j), gpu.array([1j])):
        assert result.dtype == np.complex64
    assert vnp.result_type(np.float32, 1j) == np.complex64
    assert vnp.__array_namespace_info__().default_dtypes()["complex floating"] == np.complex64
    assert (z + 1j)[0].item() == complex(z[1] + 1j) == 1 + 1j


def test_steps_on_parts_are_fused(gpu: vc.Runtime) -> None:
    z = gpu.array(numbers(64, "complex64"))
    host = z.numpy()
    result = vnp.absolute(vnp.exp(z * 1j) * vnp.conj(z) + 2) ** 2 - 1
    assert result.is_pending
    expected = np.abs(np.exp(host * 1j) * host.conj() + 2) ** 2 - 1
    np.testing.assert_allclose(result.numpy(), expected, 1e-4)


REDUCTIONS = "sum", "prod", "mean", "var", "std", "any", "all", "count_nonzero"


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
def test_reductions(gpu: vc.Runtime, name: str, axis: Any) -> None:
    if name in ("any", "all", "count_nonzero"):
        needs_bools(gpu)
    z = numbers(60, "complex64").reshape(3, 4, 5) / 3
    for keepdims in (False, True):
        expected = getattr(np, name)(z.astype(complex), axis=axis, keepdims=keepdims)
        result = getattr(vnp, name)(gpu.array(z), axis=axis, keepdims=keepdims).numpy()
        assert result.shape == np.shape(expected)
        np.testing.assert_allclose(result, expected, 60 * 1.2e-7, 60 * 1.2e-7)
    assert getattr(vnp, name)(gpu.array(z[:, :0]), axis=1).shape == (3, 5)


def test_cumulative(gpu: vc.Runtime) -> None:
    z = numbers(60, "complex64").reshape(3, 4, 5)
    for axis in range(3):
        result = (
            vnp.cumulative_sum(gpu.array(z), axis=axis).numpy(),
            vnp.cumulative_prod(gpu.array(z), axis=axis).numpy(),
        )
        np.testing.assert_allclose(result[0], np.cumsum(z, axis), 1e-5, 1e-5)
        np.testing.assert_allclose(result[1], np.cumprod(z, axis), 1e-5)
    first = vnp.cumulative_prod(gpu.array(z), axis=2, include_initial=True)
    assert first.shape == (3, 4, 6)
    assert np.all(first.numpy()[..., 0] == 1)


def test_products(gpu: vc.Runtime) -> None:
    z = numbers(60, "complex64").reshape(3, 4, 5)
    a, x = gpu.array(z), gpu.array(z.real.copy())
    for result, expected in (
        (vnp.matmul(a, a.mT), z @ z.swapaxes(1, 2)),
        (vnp.matmul(x, a.mT), z.real @ z.swapaxes(1, 2)),
        (vnp.vecdot(a, a), np.sum(z.conj() * z, -1)),
        (vnp.vdot(a, a), np.vdot(z, z)),
        (vnp.tensordot(a, a, 3), np.tensordot(z, z, 3)),
        (vnp.einsum("ijk,ijl,i->kl", a, x, a[:, 0, 0]), np.einsum("ijk,ijl,i->kl", z, z.real, z[:, 0, 0])),
        (vnp.trace(a), np.trace(z)),
        (vnp.kron(a[0], a[1]), np.kron(z[0], z[1])),
    ):
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result.numpy(), expected, 1e-5, 1e-3)


@given(data=st.data())
def test_parts_are_views(gpu: vc.Runtime, data: st.DataObject) -> None:
    host = numbers(24, "complex64").reshape(2, 3, 4)
    array = gpu.array(host)
    index = data.draw(npst.basic_indices((2, 3, 4)))
    assert np.array_equal(array[index].imag.numpy(), host[index].imag)
    if host[index].size:
        array.real[index], host.real[index] = 5, 5
        array[index].imag[...] = gpu.array(host[index].real * 2)
        host.imag[index] = host.real[index] * 2
    assert np.array_equal(array.numpy(), host)
    assert np.array_equal(vnp.imag(array.real).numpy(), np.zeros_like(host.real))


def test_elements_are_arranged(gpu: vc.Runtime) -> None:
    needs_bools(gpu)
    for dtype in DTYPES:
        z = numbers(60, dtype).reshape(3, 4, 5)
        a = gpu.array(z)
        mask, at = z.real > 0, [2, 0, 2]
        for result, expected in (
            (a[gpu.array(mask)], z[mask]),
            (a[at, 1], z[at, 1]),
            (vnp.take(a, gpu.array(np.array(at)), axis=0), z[at]),
            (vnp.concat([a, a], axis=1), np.concatenate([z, z], 1)),
            (vnp.roll(a, 2, 1), np.roll(z, 2, 1)),
            (vnp.flip(a), np.flip(z)),
            (vnp.repeat(a, 2, axis=1), np.repeat(z, 2, 1)),
            (vnp.tril(a), np.tril(z)),
            (a.view(z.real.dtype), z.view(z.real.dtype)),
            (pickle.loads(pickle.dumps(a)), z),
            (vnp.full((2, 3), 1 + 2j, dtype=dtype), np.full((2, 3), 1 + 2j, dtype)),
            (vnp.eye(3, dtype=dtype), np.eye(3, dtype=dtype)),
            (a.astype(bool), z.astype(bool)),
            (vnp.nonzero(a * a.real)[1], np.nonzero(z * z.real)[1]),
        ):
            assert np.array_equal(result.numpy(), expected)
        a[gpu.array(mask)], z[mask] = 1j, 1j
        a[at], z[at] = gpu.array(z[[0, 1, 2]]), z[[0, 1, 2]]
        a *= 1j
        assert np.array_equal(a.numpy(), z * 1j)


def test_views_of_any_shape_are_joined(gpu: vc.Runtime) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    result = vnp.concat([gpu.array(x)[:, ::2], gpu.array(x)[:, :1]], axis=1)
    assert np.array_equal(result.numpy(), np.concatenate([x[:, ::2], x[:, :1]], 1))


def test_order_is_that_of_numpy(gpu: vc.Runtime) -> None:
    some = [1.0, 0.0, -np.inf, np.nan, 2.0]
    z = np.array([complex(a, b) for a in some for b in some], np.complex64)
    x = np.random.default_rng(3).permutation(z)
    same_order = vnp.sort(gpu.array(x)).numpy(), np.sort(x)
    for part in ("real", "imag"):
        assert np.array_equal(*[getattr(item, part) for item in same_order], equal_nan=True)
    plain = np.repeat(z[~np.isnan(z)], 3)
    result = vnp.unique_all(gpu.array(plain[::-1].copy()))
    values, counts = np.unique(plain, return_counts=True)
    assert np.array_equal(result.values.numpy(), values)
    assert np.array_equal(result.counts.numpy(), counts)


SOME = [1.0, 0.0, -0.0, -np.inf, np.inf, np.nan, 2.0]
COMPLEX = np.array([complex(a, b) for a in SOME for b in SOME], np.complex64)


def same_parts(result: Any, expected: Any) -> None:
    """Asserts that both parts of complex numbers are equal, and NaN in the same places."""
    result = result.numpy()
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    for part in ("real", "imag"):
        np.testing.assert_array_equal(getattr(result, part), getattr(expected, part))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "name", ["less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "fmax", "fmin"]
)
def test_complex_numbers_are_compared_by_parts_as_in_numpy(gpu: vc.Runtime, name: str) -> None:
    x, y = np.repeat(COMPLEX, len(COMPLEX)), np.tile(COMPLEX, len(COMPLEX))
    same_parts(getattr(vnp, name)(gpu.array(x), gpu.array(y)), getattr(np, name)(x, y))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), -1])
@pytest.mark.parametrize("name", ["max", "min", "nanmax", "nanmin"])
@pytest.mark.parametrize("with_nan", [True, False])
def test_extremes_of_complex_numbers(gpu: vc.Runtime, name: str, axis: Any, with_nan: bool) -> None:
    numbers = COMPLEX if with_nan else COMPLEX[~np.isnan(COMPLEX)]
    z = np.random.default_rng(7).choice(numbers, (3, 4, 5))
    z.real[z.real == 0] = z.imag[z.imag == 0] = 0.0  # of zeros of both signs, either may be first
    for keepdims in (True, False):
        expected = getattr(np, name)(z, axis=axis, keepdims=keepdims)
        same_parts(getattr(vnp, name)(gpu.array(z), axis=axis, keepdims=keepdims), np.asarray(expected))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_places_of_complex_extremes(gpu: vc.Runtime, name: str, axis: int | None) -> None:
    for numbers in (COMPLEX, COMPLEX[np.isfinite(COMPLEX)]):
        z = np.random.default_rng(8).choice(numbers, (6, 7))
        result = getattr(vnp, name)(gpu.array(z), axis=axis)
        np.testing.assert_array_equal(result.numpy(), getattr(np, name)(z, axis=axis))


def test_complex_extremes_take_a_mask_and_an_initial_value(gpu: vc.Runtime) -> None:
    z = np.array([1 + 2j, 3 - 1j, 3 + 5j], np.complex64)
    mask = np.array([True, True, False])
    assert complex(vnp.max(gpu.array(z), initial=0, where=gpu.array(mask))) == 3 - 1j
    assert complex(vnp.max(gpu.array(z[:0]), initial=2 + 1j)) == 2 + 1j
    assert complex(vnp.ptp(gpu.array(z))) == 2 + 3j
    with pytest.raises(ValueError, match="max of no elements"):
        vnp.max(gpu.array(z[:0]))


@pytest.mark.parametrize("side", ["left", "right"])
def test_search_in_complex_numbers(gpu: vc.Runtime, side: str) -> None:
    ordered = np.sort(np.random.default_rng(9).choice(COMPLEX[np.isfinite(COMPLEX)], 30))
    values = COMPLEX[np.isfinite(COMPLEX)].reshape(-1, 2)
    result = vnp.searchsorted(gpu.array(ordered), gpu.array(values), side)
    np.testing.assert_array_equal(result.numpy(), np.searchsorted(ordered, values, side))
    some = COMPLEX[::3]
    np.testing.assert_array_equal(vnp.isin(gpu.array(COMPLEX), gpu.array(some)).numpy(), np.isin(COMPLEX, some))
    assert vnp.searchsorted(gpu.array(ordered[:0]), gpu.array(values)).numpy().max() == 0


KERNEL = "layout(local_size_x = 1) in; layout(binding = 0) buffer A { float a[]; }; void main() { a[0] = 1; }"
REFUSED: list[tuple[str, Callable[[Any, vc.Runtime], Any]]] = [
    ("does not become float32; pass x.real", lambda z, _: z.astype(np.float32)),
    ("floor takes real numbers", lambda z, _: vnp.floor(z)),
    ("remainder takes real numbers", lambda z, _: z % 2),
    ("hypot.reduce takes real numbers", lambda z, _: vnp.hypot.reduce(z)),
    ("does not become float32", lambda z, _: vnp.sum(z, dtype=np.float32)),
    ("this takes no complex numbers", lambda z, _: vc.reduce("a + b", 0)(z)),
    (r"take its parts as \.view\('float32'\)", lambda z, gpu: gpu.kernel(vc.glsl(KERNEL))(z)),
    ("x.real, x.imag", lambda z, gpu: vnp.add(z, z, out=gpu.zeros(3))),
    ("not 'complex'", lambda z, _: float(z[0])),
]


@pytest.mark.parametrize(("message", "work"), REFUSED)
def test_what_complex_arrays_do_not_do(gpu: vc.Runtime, message: str, work: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=message):
        work(gpu.array(np.ones(3, np.complex64)), gpu)


def test_every_device_computes_complex128(gpu: vc.Runtime) -> None:
    z = gpu.array(np.array([1 + 2j, 1e-300j, -3]))
    assert np.array_equal((z + z).numpy(), z.numpy() + z.numpy())


@pytest.mark.parametrize("name", ["sqrt", "log", "log2", "log1p", "arcsin", "arccosh", "exp", "tanh"])
@pytest.mark.parametrize("dtype", ["int32", "float32", "complex64"])
def test_functions_of_narrower_numbers_have_limits_of_float64(gpu: vc.Runtime, name: str, dtype: str) -> None:
    if lacks(gpu, "complex128"):
        pytest.skip("the device lacks complex128")
    skip_slow(gpu, name, "complex128")
    host = np.array([0, 1, -1, 3, 1000], dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(host.astype(np.complex128))
    result = getattr(vnp, name)(gpu.array(host).astype(np.complex128)).numpy()
    assert np.allclose(result, wanted, 1e-14, 1e-300, equal_nan=True)
