"""Linear algebra, compared with numpy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
import vkcompute.numpy as vnp

linalg = vnp.linalg


def matrices(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def close(result: Any, expected: Any, size: float = 1) -> None:
    assert result.dtype == np.float32
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-4 * size)


@pytest.mark.parametrize("name", ["det", "inv", "eigvalsh", "svdvals", "pinv", "cond"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (0, 2, 2)])
def test_functions_by_lapack(gpu: vc.Runtime, name: str, shape: tuple[int, ...]) -> None:
    host = matrices(*shape) + 3 * np.eye(shape[-1], dtype=np.float32)
    x = host.astype(np.float64)
    functions = {"svdvals": lambda a: np.linalg.svd(a, compute_uv=False)}
    expected = functions.get(name) or getattr(np.linalg, name)
    close(getattr(linalg, name)(gpu.array(host)), expected(x), 100 if name == "det" else 10)


def test_decompositions_give_the_matrix(gpu: vc.Runtime) -> None:
    host = matrices(2, 5, 3)
    x = gpu.array(host)
    u, s, vh = linalg.svd(x, full_matrices=False)
    close(u * s[:, None, :] @ vh, host)
    assert linalg.svd(x).U.shape == (2, 5, 5)
    q, r = linalg.qr(x)
    close(q @ r, host)
    assert linalg.qr(x, mode="complete").Q.shape == (2, 5, 5)
    symmetric = x.mT @ x
    values, vectors = linalg.eigh(symmetric)
    close(vectors * values[:, None, :] @ vectors.mT, symmetric.numpy(), 10)
    for upper in (False, True):
        factor = linalg.cholesky(symmetric, upper=upper)
        close(factor.mT @ factor if upper else factor @ factor.mT, symmetric.numpy(), 10)
        assert not np.any((np.tril if upper else np.triu)(factor.numpy(), -1 if upper else 1))
    sign, logarithm = linalg.slogdet(symmetric)
    close(sign * vnp.exp(logarithm), np.linalg.det(symmetric.numpy().astype(np.float64)), 100)
    values, vectors = linalg.eig(symmetric)
    assert values.dtype == vectors.dtype == linalg.eigvals(symmetric).dtype == np.complex64
    close((symmetric @ vectors).real, (vectors * values[:, None, :]).real.numpy(), 10)


def test_equations(gpu: vc.Runtime) -> None:
    a, b = matrices(2, 3, 3) + 4 * np.eye(3, dtype=np.float32), matrices(3, 5)
    x, y = gpu.array(a), gpu.array(b)
    close(linalg.solve(x, y), np.linalg.solve(a.astype(float), b))
    close(linalg.solve(x, y[:, 0]), np.linalg.solve(a.astype(float), b[:, :1])[..., 0])
    tall = matrices(6, 3)
    result, expected = linalg.lstsq(gpu.array(tall), gpu.array(matrices(6))), np.linalg.lstsq(tall, matrices(6), None)
    close(result.x, expected[0])
    close(result.residuals, expected[1])
    assert result.rank.item() == 3
    assert linalg.matrix_rank(gpu.full((4, 3), 1.0)).item() == 1
    assert linalg.matrix_rank(gpu.array(np.diag(np.float32([1, 0.1, 1e-3]))), rtol=0.01).item() == 2


ORDERS = [2, 1, 0, -1, 3, 0.5, -2, math.inf, -math.inf]


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=3), ord=st.sampled_from(ORDERS), data=st.data())
def test_norms_of_vectors(gpu: vc.Runtime, shape: list[int], ord: float, data: Any) -> None:
    axis, keepdims = data.draw(st.none() | st.integers(0, len(shape) - 1)), data.draw(st.booleans())
    host = matrices(*shape)
    expected = np.linalg.norm(host.reshape(-1) if axis is None else host, ord, axis, keepdims=keepdims)
    if axis is None and keepdims:
        expected = expected.reshape((1,) * len(shape))
    close(linalg.vector_norm(gpu.array(host), axis=axis, keepdims=keepdims, ord=ord), expected)


@pytest.mark.parametrize("ord", ["fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf])
def test_norms_of_matrices(gpu: vc.Runtime, ord: Any) -> None:
    host = matrices(2, 3, 4)
    x = gpu.array(host)
    for keepdims in (False, True):
        close(linalg.matrix_norm(x, ord=ord, keepdims=keepdims), np.linalg.norm(host, ord, (1, 2), keepdims))
        close(linalg.norm(x, ord, (2, 0), keepdims), np.linalg.norm(host, ord, (2, 0), keepdims))
    close(linalg.norm(x), np.linalg.norm(host))
    with pytest.raises(ValueError, match="one axis or two"):
        linalg.norm(x, ord)


def test_norms_of_integers_and_of_half_floats(gpu: vc.Runtime) -> None:
    close(linalg.vector_norm(gpu.array(np.array([3, -4], np.int32))), 5)
    result = linalg.vector_norm(gpu.array(np.full(10_000, 2, np.float16)))
    assert (result.item(), result.dtype) == (200, np.float16)


@pytest.mark.parametrize("n", [0, 1, 2, 7, -1, -3])
def test_powers_of_matrices(gpu: vc.Runtime, n: int) -> None:
    host = matrices(2, 3, 3) + 2 * np.eye(3, dtype=np.float32)
    x = gpu.array(host)
    close(linalg.matrix_power(x, n), np.linalg.matrix_power(host.astype(float), n), 1000)
    np.testing.assert_array_equal(x.numpy(), host)


def test_products_of_several_matrices(gpu: vc.Runtime) -> None:
    hosts = [matrices(4), matrices(4, 9), matrices(9, 2), matrices(2, 5)]
    arrays = [gpu.array(host) for host in hosts]
    close(linalg.multi_dot(arrays), np.linalg.multi_dot(hosts), 10)
    close(linalg.multi_dot(arrays[1:]), np.linalg.multi_dot(hosts[1:]), 10)
    close(linalg.multi_dot([arrays[0], arrays[1], gpu.array(matrices(9))]), hosts[0] @ hosts[1] @ matrices(9), 10)


def test_parts_of_stacked_matrices(gpu: vc.Runtime) -> None:
    host = matrices(2, 3, 4)
    x = gpu.array(host)
    close(linalg.diagonal(x, offset=1), np.diagonal(host, 1, -2, -1))
    close(linalg.trace(x, offset=-1), np.trace(host, -1, -2, -1))


def test_errors_name_the_rule(gpu: vc.Runtime) -> None:
    x = gpu.array(matrices(2, 3))
    for name in ("det", "inv", "eigh", "eigvalsh", "eigvals", "cholesky", "slogdet"):
        with pytest.raises(linalg.LinAlgError, match=rf"{name} takes square matrices; got shape \(2, 3\)"):
            getattr(linalg, name)(x)
    with pytest.raises(linalg.LinAlgError, match="two axes or more"):
        linalg.svd(x[0])
    with pytest.raises(linalg.LinAlgError, match="Singular"):
        linalg.inv(gpu.zeros((2, 2)))
    with pytest.raises(TypeError, match="det takes arrays"):
        linalg.det("ab")
    with pytest.raises(ValueError, match="order of matrix_norm"):
        linalg.matrix_norm(x, ord=3)


def test_parameters_of_numpy(gpu: vc.Runtime) -> None:
    host = matrices(2, 4, 3)
    x, square = gpu.array(host), host.mT @ host
    np.testing.assert_allclose(np.linalg.svd(x, False)[1].numpy(), np.linalg.svd(host, False)[1], rtol=1e-5)
    np.testing.assert_allclose(
        np.linalg.svd(x, compute_uv=False).numpy(), np.linalg.svd(host, compute_uv=False), rtol=1e-5
    )
    for named in ({"tol": 1.0}, {"rtol": 0.3}, {"hermitian": True}):
        given = square if "hermitian" in named else host
        np.testing.assert_array_equal(
            np.linalg.matrix_rank(gpu.array(given), **named).numpy(), np.linalg.matrix_rank(given, **named)
        )
    close(np.linalg.pinv(x, 0.3), np.linalg.pinv(host, 0.3), 10)
    a = np.random.default_rng(0).standard_normal((2, 3, 6)).astype(np.float32)
    b = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)
    np.testing.assert_allclose(
        np.linalg.tensorsolve(gpu.array(a), gpu.array(b)).numpy(), np.linalg.tensorsolve(a, b), rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(np.linalg.tensorinv(gpu.array(a)).numpy(), np.linalg.tensorinv(a), rtol=1e-3, atol=1e-4)
    with pytest.raises(np.linalg.LinAlgError, match="as many"):
        np.linalg.tensorinv(gpu.array(a), 1)
