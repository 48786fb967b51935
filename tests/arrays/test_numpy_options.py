"""Options of NumPy's functions that other libraries pass: castings, orders, kinds, outputs; NumPy is the oracle."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp

CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


@pytest.mark.parametrize("casting", CASTINGS)
@pytest.mark.parametrize("dtypes", [("int16", "int16", "int32"), ("int16", "int32", "int32"), ("float32",) * 3,
                                    ("float32", "float32", "int32"), ("int32", "int32", "int16")])  # fmt: skip
def test_castings_of_operands_and_results(gpu: vc.Runtime, dtypes: tuple[str, str, str], casting: Any) -> None:
    if any(lacks(gpu, dtype) for dtype in dtypes):
        pytest.skip("the device lacks a dtype")
    one, other, out = [np.array([3, -2, 7], dtype) for dtype in dtypes]
    given = [gpu.array(host) for host in (one, other, out)]
    try:
        expected = np.add(one, other, out=out.copy(), casting=casting)
    except TypeError:
        with pytest.raises(TypeError, match=r"does not allow|convert it"):
            vnp.add(given[0], given[1], out=given[2], casting=casting)
        assert np.array_equal(given[2].numpy(), out)
    else:
        result = vnp.add(given[0], given[1], out=given[2], casting=casting)
        assert result is given[2]
        assert np.array_equal(result.numpy(), expected)


def test_castings_to_a_given_dtype(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([1.5, 2.5], np.float32))
    result = vnp.add(x, x, dtype=np.int32, casting="unsafe")
    assert np.array_equal(result.numpy(), [2, 4])
    with pytest.raises(TypeError, match="same_kind"):
        vnp.add(x, x, dtype=np.int32)
    with pytest.raises(ValueError, match="casting"):
        vnp.isnan(x, casting="none")
    assert np.array_equal(np.add(x, x, casting="no", order="K", subok=False).numpy(), [3, 5])


@pytest.mark.parametrize("order", ["C", "F", "A", "K", None])
def test_orders_of_results(gpu: vc.Runtime, order: Any) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = vnp.negative(gpu.array(x), order=order)
    assert np.array_equal(result.numpy(), -x)
    assert result.T.contiguous == (order == "F")
    assert np.array_equal(vnp.eye(2, 3, order="F").numpy(), np.eye(2, 3))
    with pytest.raises(ValueError, match='order is "C", "F", "K", "A" or None'):
        vnp.negative(gpu.array(x), order="B")


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn", "rfftn", "irfftn",
                                  "fft2", "ifft2", "rfft2", "irfft2"])  # fmt: skip
def test_transforms_write_to_an_array(gpu: vc.Runtime, name: str) -> None:
    x = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    expected = getattr(np.fft, name)(x)
    out = gpu.empty(expected.shape, expected.dtype)
    assert getattr(vnp.fft, name)(gpu.array(x), out=out) is out
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="out has the shape of the result"):
        getattr(vnp.fft, name)(gpu.array(x), out=gpu.empty((2, 2), expected.dtype))


def test_triangular_factors_alone(gpu: vc.Runtime) -> None:
    x = np.random.default_rng(2).standard_normal((2, 4, 3)).astype(np.float32)
    np.testing.assert_allclose(vnp.linalg.qr(gpu.array(x), "r").numpy(), np.linalg.qr(x, "r"), rtol=1e-5)
    with pytest.raises(ValueError, match='"reduced", "complete", "r" or "raw"; got \'full\''):
        vnp.linalg.qr(gpu.array(x), "full")
    out = gpu.empty((4, 4), np.float32)
    pair = [gpu.array(x[0]), gpu.array(x[0].T.copy())]
    assert vnp.linalg.multi_dot(pair, out=out) is out
    np.testing.assert_allclose(out.numpy(), x[0] @ x[0].T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
@pytest.mark.parametrize("order", [None, "fro", 1, 2, np.inf, "nuc"])
def test_norms_of_empty_matrices(gpu: vc.Runtime, shape: tuple[int, int], order: Any) -> None:
    assert float(vnp.linalg.norm(gpu.zeros(shape), order)) == 0
    assert float(vnp.linalg.norm(gpu.zeros(0), np.inf)) == 0
    with pytest.raises(ValueError, match="of no elements"):
        vnp.linalg.norm(gpu.zeros(0), -np.inf)


@pytest.mark.parametrize("kind", [None, "quicksort", "Heapsort", "mergesort", "stable"])
def test_kinds_of_sorts(gpu: vc.Runtime, kind: Any) -> None:
    x = gpu.array(np.array([2, 0, 1], np.int32))
    assert np.array_equal(vnp.argsort(x, kind=kind).numpy(), [1, 2, 0])
    x.sort(kind=kind)
    assert np.array_equal(x.numpy(), [0, 1, 2])


def test_unknown_kinds_are_refused(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([0, 2, 0], np.int32))
    for sort in (vnp.sort, vnp.argsort, vc.Array.sort):
        with pytest.raises(ValueError, match="kind of a sort is one of quicksort, heapsort, mergesort, stable"):
            sort(x, kind="bubble")
    for partition in (vnp.partition, vnp.argpartition):
        with pytest.raises(ValueError, match="kind of a partition is 'introselect'; got 'x'"):
            partition(x, 1, kind="x")
    with pytest.raises(ValueError, match='trim is "f" for the front'):
        vnp.trim_zeros(x, "front")
    assert vnp.trim_zeros(x, "Bf").shape == (1,)


@pytest.mark.parametrize("values", [5, [1, 2], [[1, 2], [3, 4]], [], np.arange(7), [True]])
@pytest.mark.parametrize("is_device", [True, False])
def test_values_are_repeated_to_all_elements(gpu: vc.Runtime, values: Any, is_device: bool) -> None:
    host = np.zeros((2, 3), np.int32)
    x, turned = gpu.array(host), gpu.array(host.T.copy()).T
    given = np.asarray(values, np.int32)
    host.flat = given
    for array in (x, turned):
        array.flat = gpu.array(given) if is_device else values
        assert np.array_equal(array.numpy(), host)


def test_tolerances_are_arrays_too(gpu: vc.Runtime) -> None:
    one, other = np.array([1, 2, 3], np.float32), np.array([1.1, 2.3, 3], np.float32)
    for tolerance in ([0.2, 0.2, 0], np.array([0.05, 0.4, 0], np.float32)):
        result = vnp.isclose(gpu.array(one), gpu.array(other), rtol=0, atol=tolerance)
        assert np.array_equal(result.numpy(), np.isclose(one, other, rtol=0, atol=tolerance))
        result = vnp.isclose(gpu.array(one), 1.2, atol=0, rtol=tolerance)
        assert np.array_equal(result.numpy(), np.isclose(one, 1.2, atol=0, rtol=tolerance))
    assert not vnp.allclose(gpu.array(one), gpu.array(other), atol=[1, 0, 0])


RULES = "auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges"


@pytest.mark.rotates
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("limits", [None, (0, 2)])
def test_rules_for_the_bins_of_histograms(gpu: vc.Runtime, rule: Any, limits: Any) -> None:
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=500), rng.integers(0, 50, 300), np.ones(3), rng.exponential(size=77), np.zeros(0)):
        host = x.astype(np.int32 if x.dtype.kind == "i" else np.float32)
        counts, edges = vnp.histogram(gpu.array(host), rule, limits)
        expected = np.histogram(host, rule, limits)
        assert counts.shape == expected[0].shape
        np.testing.assert_allclose(edges.numpy(), expected[1], rtol=1e-5, atol=1e-5)
        assert np.abs(counts.numpy() - expected[0]).sum() <= 2  # edges are rounded to float32


def test_other_rules_are_refused(gpu: vc.Runtime) -> None:
    with pytest.raises(ValueError, match=r"one of the rules auto, doane, .*; got 'autos'"):
        vnp.histogram(gpu.zeros(3), "autos")
    with pytest.raises(TypeError, match="'auto' counts values without weights"):
        vnp.histogram(gpu.zeros(3), "auto", weights=gpu.zeros(3))


FOLDED = "subtract", "fmax", "fmin", "hypot", "floor_divide", "remainder", "logaddexp"


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", FOLDED)
def test_functions_that_are_no_reduction_are_applied_one_by_one(gpu: vc.Runtime, name: str, axis: int) -> None:
    host = np.array([[3, 5, 2], [7, 1, 4]], np.float32)
    theirs, ours, x = getattr(np, name), getattr(vnp, name), gpu.array(host)
    for keepdims in (False, True):
        expected = theirs.reduce(host, axis, keepdims=keepdims)
        np.testing.assert_allclose(ours.reduce(x, axis, keepdims=keepdims).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(ours.accumulate(x, axis).numpy(), theirs.accumulate(host, axis), rtol=1e-6)
    assert ours.nargs == theirs.nargs == 3
    assert ours.identity == theirs.identity


def test_bools_and_integers_are_folded(gpu: vc.Runtime) -> None:
    host = np.array([[True, False, True], [True, True, True]])
    x = gpu.array(host)
    for name in ("logical_xor", "bitwise_xor", "bitwise_and", "equal"):
        assert getattr(vnp, name).reduce(x, axis=1).tolist() == getattr(np, name).reduce(host, axis=1).tolist()
    counts = gpu.array(np.array([12, 18, 30], np.int32))
    assert int(vnp.gcd.reduce(counts)) == 6
    assert int(vnp.subtract.reduce(counts, initial=100)) == 100 - 60
    for call, message in (
        (lambda: vnp.equal.reduce(counts), "equal.reduce gives bools"),
        (lambda: vnp.subtract.reduce(x.reshape(2, 3).astype(np.float32), axis=(0, 1)), "takes one axis"),
        (lambda: vnp.subtract.reduce(counts[:0]), "at least one element"),
        (lambda: vnp.gcd.reduce(gpu.zeros(())), "takes integers"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


FEW: list[Any] = [
    np.float32(-3), np.float32([-3, 4]), np.float32([-3]), np.zeros((0, 2), np.float32), np.zeros((2, 0), np.float32),
    np.float32([[3, 0], [0, 4]]), np.zeros(0, np.float32),
]  # fmt: skip


@pytest.mark.parametrize("host", FEW, ids=lambda each: str(np.shape(each)))
@pytest.mark.parametrize("axis", [0, None, -1, (), (0, 1)])
@pytest.mark.parametrize("options", [{}, {"initial": 5}, {"keepdims": True}], ids=str)
@pytest.mark.parametrize("name", ["subtract", "hypot", "logaddexp", "fmax", "logical_xor", "copysign"])
def test_few_elements_are_folded(gpu: vc.Runtime, name: str, axis: Any, host: Any, options: dict[str, Any]) -> None:
    theirs, ours = getattr(np, name).reduce, getattr(vnp, name).reduce
    try:
        expected = theirs(host, axis=axis, **options)
    except ValueError:  # NumPy's AxisError, too
        with pytest.raises(ValueError, match=r"axis|axes|at least one element"):
            ours(gpu.array(host), axis=axis, **options)
        return
    result = ours(gpu.array(host), axis=axis, **options)
    assert (result.shape, result.dtype) == (np.shape(expected), np.asarray(expected).dtype)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def test_accumulations_of_nothing_have_the_result_s_dtype(gpu: vc.Runtime) -> None:
    for name in ("logical_xor", "copysign", "hypot"):
        expected = getattr(np, name).accumulate(np.zeros((3, 0), np.float32), axis=1)
        result = getattr(vnp, name).accumulate(gpu.zeros((3, 0)), axis=1)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)


def test_signed_integers_among_unsigned_ones_are_not_rounded(gpu: vc.Runtime) -> None:
    signed = np.array([2**63 - 1, -1, -(2**63), 5, 0])
    unsigned = np.array([2**63, 2**63 - 1, 5, 2**64 - 1], np.uint64)
    one, other = gpu.array(signed), gpu.array(unsigned)
    assert vnp.isin(one, other).tolist() == [True, False, False, True, False]
    assert vnp.isin(other, one).tolist() == [False, True, True, False]
    assert vnp.isin(one, other, invert=True).tolist() == [False, True, True, False, True]


@pytest.mark.parametrize("shape", [(5, 5), (130, 70), (40, 90), (2, 3, 4, 3), (0, 3), (1, 1)])
def test_triangular_factors_by_elimination(gpu: vc.Runtime, shape: tuple[int, ...]) -> None:
    host = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    p, lower, upper = vnp.linalg.lu(gpu.array(host))
    np.testing.assert_allclose((p @ lower @ upper).numpy(), host, atol=1e-4)
    assert np.array_equal(np.tril(lower.numpy()), lower.numpy())
    assert np.array_equal(np.triu(upper.numpy()), upper.numpy())
    assert np.abs(lower.numpy()).max(initial=1) == 1, "the largest element of a column is the pivot"


def test_functions_that_numpy_runs_on_the_host_say_so(gpu: vc.Runtime) -> None:
    x = gpu.array([1.0, 2.0])
    for call, name in (
        (lambda: np.require(x), "require"), (lambda: np.r_[x, x], "__getitem__"), (lambda: np.ma.array(x), "array"),
        (lambda: np.take(np.arange(3), gpu.array(np.array([1], np.int32))), "take"),
    ):  # fmt: skip
        with pytest.warns(vc.HostCopyWarning, match=f"NumPy's .*{name} downloads a device array") as result:
            call()
        assert result[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(np.asarray(x), x)
        assert np.array([1.0, 2.0]).tolist() == np.array(x).tolist()


def test_files_of_several_arrays(gpu: vc.Runtime, tmp_path: Path) -> None:
    vnp.savez(tmp_path / "both.npz", a=gpu.zeros(2), b=gpu.full(3, 1))
    with vnp.load(tmp_path / "both.npz") as result:
        assert result.files == ["a", "b"]
        assert result["b"].tolist() == [1, 1, 1]
    assert {**result}.keys() == {"a", "b"}


def test_more_arguments(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([[1, 2]], np.float32))
    assert vnp.einsum(",ij", 2, x).tolist() == [[2, 4]]
    assert vnp.einsum("ij->ji", x, order="F").T.contiguous
    assert vnp.result_type(x, "float32") == np.float32
    assert vnp.result_type("f4", "f8") == np.float64
    assert vnp.linspace(x[0], [3.0, 4.0], 3).tolist() == [[1, 2], [2, 3], [3, 4]]
    modes = vnp.ravel_multi_index((gpu.array(np.int32([5])), gpu.array(np.int32([-1]))), (3, 4), mode=("wrap", "clip"))
    assert modes.tolist() == [8]
    for name in ("nanmean", "nanstd", "nanmin", "nanmax"):
        assert float(getattr(vnp, name)(x[0, 1], axis=0)) == getattr(np, name)(np.float32(2), axis=0)
    assert vnp.squeeze(x[0, 0], 0).shape == ()
    z = np.array([1.5 + 2.5j, -1j], np.complex64)
    np.testing.assert_allclose(vnp.exp2(gpu.array(z)).numpy(), np.exp2(z), rtol=1e-5)
    assert np.array_equal(vnp.rint(gpu.array(z)).numpy(), np.rint(z))
