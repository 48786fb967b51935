"""Products of matrices and arrays, compared with numpy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.dtypes import lookup

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


def has(gpu: vc.Runtime, dtype: str) -> bool:
    return set(lookup(dtype).features) <= set(gpu.device.features)


def filled(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Elements whose products overflow narrow integers."""
    values = np.random.default_rng(seed).standard_normal(shape) * (1 if dtype in ("bool", "float16") else 40)
    return (values > 0 if dtype == "bool" else values.astype(np.int64) if "int" in dtype else values).astype(dtype)


def check(result: Any, expected: np.ndarray, dtype: str, n_terms: int = 1, size: float = 1) -> None:
    """Compares with a bound of sqrt(n) roundings, of sums of n products of this size."""
    assert (result.shape, result.dtype) == (expected.shape, dtype)
    if "float" not in dtype:
        np.testing.assert_array_equal(result.numpy(), expected)
        return
    eps = float(np.finfo(dtype).eps)
    bound = 8 * eps * size * math.sqrt(max(n_terms, 1))
    np.testing.assert_allclose(result.numpy().astype(np.float64), expected.astype(np.float64), rtol=4 * eps, atol=bound)


def exact(*arrays: np.ndarray) -> list[np.ndarray]:
    return [array.astype(np.float64) if array.dtype.kind == "f" else array for array in arrays]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_matrix_product_of_each_dtype(gpu: vc.Runtime, dtype: str) -> None:
    if not has(gpu, dtype):
        pytest.skip(f"no {dtype}")
    a, b = filled((2, 9, 17), dtype), filled((17, 11), dtype, 1)
    result = gpu.array(a) @ gpu.array(b)
    check(result, np.matmul(*exact(a, b)), dtype, 17, 1 if dtype == "float16" else 1600)


SHAPES = st.tuples(
    st.lists(st.integers(0, 3), max_size=2), st.lists(st.booleans(), min_size=4, max_size=4),
    st.integers(0, 20), st.integers(0, 12), st.integers(0, 20),
)  # fmt: skip


@given(shapes=SHAPES, views=st.tuples(st.booleans(), st.booleans()), vectors=st.tuples(st.booleans(), st.booleans()))
def test_operands_broadcast_and_have_any_strides(gpu: vc.Runtime, shapes: Any, views: Any, vectors: Any) -> None:
    batch, ones, m, k, n = shapes
    first = [1 if one else length for one, length in zip(ones, batch, strict=False)]
    second = [1 if one else length for one, length in zip(ones[2:], batch, strict=False)]
    operands = []
    for lead, rows, columns, view in ((first, m, k, views[0]), (second, k, n, views[1])):
        if view:  # transposed, and reversed
            host = filled((*lead, columns, rows), "int32", columns)
            operands.append((host.swapaxes(-1, -2)[..., ::-1], gpu.array(host).swapaxes(-1, -2)[..., ::-1]))
        else:
            host = filled((*lead, rows, columns), "int32", columns)
            operands.append((host, gpu.array(host)))
    (a, x), (b, y) = operands
    if vectors[0] and m:
        a, x = a[..., 0, :].reshape(-1, k)[0] if a.size else a[..., :0, :].reshape(-1)[:0], None
        x = gpu.array(np.ascontiguousarray(a))
    if vectors[1] and n and b.size:
        b = b[..., 0].reshape(-1, k)[0]
        y = gpu.array(np.ascontiguousarray(b))
    try:
        expected = np.matmul(a, b)
    except ValueError:
        with pytest.raises(ValueError, match="matmul"):
            x @ y
        return
    check(x @ y, expected, "int32")


@pytest.mark.parametrize(("m", "k", "n"), [(65, 700, 33), (3, 40_000, 2), (2, 3, 5000), (130, 1, 70), (1, 9000, 1)])
def test_errors_of_long_sums_are_small(gpu: vc.Runtime, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    check(gpu.array(a) @ gpu.array(b), np.matmul(*exact(a, b)), "float32", k, 2)


@pytest.mark.rotates
@pytest.mark.parametrize("shapes", [((66_000, 2, 2), (66_000, 2, 3)), ((2, 2), (66_000, 2, 3))])
def test_more_matrices_than_a_grid_has_groups(gpu: vc.Runtime, shapes: tuple[tuple[int, ...], ...]) -> None:
    a, b = (filled(shape, "int32") for shape in shapes)
    check(gpu.array(a) @ gpu.array(b), a @ b, "int32")


def test_operators_of_matrices(gpu: vc.Runtime) -> None:
    a, b = filled((5, 5), "int32"), filled((5, 5), "int32", 1)
    x, y = gpu.array(a), gpu.array(b)
    check((x + 1) @ (y * 2), (a + 1) @ (b * 2), "int32")
    x @= y
    check(x, a @ b, "int32")
    with pytest.raises(ValueError, match="out has the shape of the result"):
        x @= y[0]
    with pytest.raises(TypeError, match="device arrays"):
        x @ 2
    with pytest.raises(ValueError, match=r"4 and 5, of shapes \(5, 4\) and \(5, 5\)"):
        x[:, :4] @ y
    with pytest.raises(ValueError, match="use multiply"):
        vnp.matmul(x[0, 0], y)


def test_a_product_replays_in_a_graph(gpu: vc.Runtime) -> None:
    a, b = filled((6, 7), "float32"), filled((7, 8), "float32")
    x, y, out = gpu.array(a), gpu.array(b), gpu.empty((6, 8))
    with gpu.record() as graph:
        vnp.matmul(x, y, out=out)
    x.write(2 * a)
    graph.run()
    check(out, 2 * np.matmul(*exact(a, b)), "float32", 7, 3200)


EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)), ("ij->ji", (3, 4)), ("ii->i", (4, 4)), ("ii", (4, 4)),
    ("ijk->", (2, 3, 4)), ("ijk->j", (2, 3, 4)), ("i,j->ij", (3,), (4,)), ("i,i,i->", (5,), (5,), (5,)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 6)), ("...ij->...ji", (2, 3, 4)),
    ("bij,bjk,bkl->bil", *[(2, 3, 3)] * 3),
    ("ijk,jil->kl", (3, 4, 5), (4, 3, 2)), ("iij,j->i", (3, 3, 4), (4,)), ("ij,ij->ij", (3, 4), (3, 4)),
    ("ab,bc,cd,de->ae", (2, 3), (3, 4), (4, 2), (2, 5)), ("ij,j->i", (0, 3), (3,)), ("ij,jk->ik", (2, 0), (0, 3)),
    (",ij->ij", (), (2, 3)), ("ij,jk->ik", (3, 1), (4, 5)), ("a...,...b->ab...", (2, 3, 4), (3, 4, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shapes"), [(text, shapes) for text, *shapes in EINSUMS])
def test_einsum(gpu: vc.Runtime, text: str, shapes: list[tuple[int, ...]]) -> None:
    hosts = [filled(shape, "int32", at) for at, shape in enumerate(shapes)]
    arrays = [gpu.array(host) for host in hosts]
    expected = np.asarray(np.einsum(text, *hosts))
    check(vnp.einsum(text, *arrays), expected, "int32")
    check(vnp.einsum(text, *arrays, optimize=False), expected, "int32")


def test_einsum_of_lists_and_its_errors(gpu: vc.Runtime) -> None:
    a, b = filled((3, 4), "float32"), filled((4, 5), "float32")
    x, y = gpu.array(a), gpu.array(b)
    check(vnp.einsum(x, [0, 1], y, [1, 2], [0, 2]), np.matmul(*exact(a, b)), "float32", 4, 1600)
    check(vnp.einsum(x, [..., 1], y, [1, 2]), np.einsum(*exact(a), [..., 1], *exact(b), [1, 2]), "float32", 4, 1600)
    for text, arrays, message in [
        ("ij,jk->il", (x, y), "labels of the result"), ("ij", (x, y), "labels of 1 arrays"),
        ("ij,jk", (x, x), "'j' are as long"), ("ijk,jk", (x, y), "2 axes, and 3 labels"), ("i1", (x,), "letters"),
        ("i,jk", (x, y), "2 axes, and 1 labels"), ("...j->j", (x,), "has a '...'"), ("ii", (x,), "as long"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            vnp.einsum(text, *arrays)


@given(n=st.integers(0, 3), more=st.lists(st.integers(0, 4), max_size=5), data=st.data())
def test_tensordot(gpu: vc.Runtime, n: int, more: list[int], data: Any) -> None:
    shared = data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    first, second = more[:2], more[2:]
    a, b = filled((*first, *shared), "int32"), filled((*shared, *second), "int32", 1)
    check(vnp.tensordot(gpu.array(a), gpu.array(b), n), np.tensordot(a, b, n), "int32")
    order = data.draw(st.permutations(range(n)))
    axes = [len(first) + at for at in order], [at - b.ndim for at in order]
    check(vnp.tensordot(gpu.array(a), gpu.array(b), axes), np.tensordot(a, b, axes), "int32")


PAIRS = [((3,), (3,)), ((2, 3), (3,)), ((2, 3), (4, 3)), ((), (2, 3)), ((2, 2, 3), (3, 3)), ((0,), (0,)), ((3,), (0,))]


@pytest.mark.parametrize("name", ["dot", "inner", "vdot", "outer", "kron", "vecdot", "cross"])
@pytest.mark.parametrize("shapes", PAIRS)
def test_other_products(gpu: vc.Runtime, name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    a, b = filled(shapes[0], "int32"), filled(shapes[1], "int32", 1)
    function = getattr(np, name, None) or (lambda x, y: np.einsum("...i,...i->...", x, y))
    try:
        if name == "vecdot" and a.shape[-1:] != b.shape[-1:]:
            raise ValueError
        expected = np.asarray(function(a, b))
    except ValueError:
        with pytest.raises(ValueError, match=r"axes|axis|broadcast"):
            getattr(vnp, name)(gpu.array(a), gpu.array(b)).numpy()
        return
    check(getattr(vnp, name)(gpu.array(a), gpu.array(b)), expected, "int32")


@given(shape=st.lists(st.integers(0, 4), min_size=2, max_size=4), offset=st.integers(-5, 5), data=st.data())
def test_diagonals(gpu: vc.Runtime, shape: list[int], offset: int, data: Any) -> None:
    rows, columns = data.draw(st.permutations(range(len(shape))))[:2]
    host = filled(tuple(shape), "int32")
    x = gpu.array(host)
    check(vnp.diagonal(x, offset, rows, columns), np.diagonal(host, offset, rows, columns), "int32")
    total = np.asarray(np.trace(host.astype(np.int64), offset, rows, columns, dtype=np.int32))
    check(vnp.trace(x, offset, rows, columns, dtype=np.int32), total, "int32")
    out = gpu.empty(total.shape, "int32")
    assert vnp.trace(x, offset, rows, columns, np.int32, out) is out
    check(out, total, "int32")


def test_a_diagonal_is_a_view(gpu: vc.Runtime) -> None:
    x = gpu.zeros((3, 4))
    x.diagonal(1).fill(2)
    np.testing.assert_array_equal(x.numpy(), 2 * np.eye(3, 4, 1))
