"""Calls whose values, dtypes or shapes once differed from NumPy's, which is the oracle."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize(
    ("data", "widths"),
    [
        ([1.0, INF, NAN], 2),
        ([1.0, 2, 4], 7),
        ([[1.0, 2], [5, 3], [5, INF]], ((2, 0), (0, 0))),
        ([1.0, 5, 2, 8], (9, 3)),
        ([1.0, -0.0, 3.0], (0, 1)),
        ([1.0, 2.0], 5),
        ([3.0], 2),
    ],
)
def test_odd_reflections_keep_what_is_inside(gpu: vc.Runtime, mode: Any, data: Any, widths: Any) -> None:
    host = np.array(data, np.float32)
    result = vnp.pad(gpu.array(host), widths, mode, reflect_type="odd").numpy()
    expected = np.pad(host, widths, mode, reflect_type="odd")
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result)[result == 0], np.signbit(expected)[result == 0])


Call = Callable[[Any, Any], Any]
CALLS: dict[str, tuple[Call, np.ndarray[Any, Any]]] = {
    "polyval of narrow integers": (lambda m, x: m.polyval([1, 2, 3], x), np.array([100], np.int16)),
    "polyval of narrow coefficients": (lambda m, p: m.polyval(p, 2), np.array([20000, 3], np.int16)),
    "polyval of floats": (lambda m, x: m.polyval([1, 2, 3], x * 1), np.array([1.5, -2], np.float32)),
    "polyval of rows": (lambda m, p: m.polyval(p, p[0]), np.array([[1, 2], [3, 4]], np.int32)),
    "comparison with a range": (lambda m, x: x == range(4), np.array([0, 1, 5, 3], np.int32)),
    "sum with a range": (lambda m, x: x + range(4), np.array([0, 1, 5, 3], np.int32)),
    "comparison with None": (lambda m, x: x == None, np.arange(3)),  # noqa: E711
    "comparison with text": (lambda m, x: x != "a", np.arange(3)),
    "distinct along the only axis": (lambda m, x: m.unique(x, axis=0), np.array([NAN, 1, NAN], np.float32)),
    "place in no axes": (lambda m, x: m.argmax(x, axis=-1, keepdims=True), np.array(2.5, np.float32)),
    "place of NaN in no axes": (lambda m, x: m.nanargmin(x, axis=0, keepdims=True), np.array(2.5, np.float32)),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(gpu: vc.Runtime, name: str) -> None:
    call, host = CALLS[name]
    if lacks(gpu, host.dtype.name):
        host = host.astype(np.int32 if host.dtype.kind == "i" else np.float32)
    result, expected = call(vnp, gpu.array(host)), np.asarray(call(np, host))
    assert result.shape == expected.shape
    assert result.dtype.kind == expected.dtype.kind
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("initial", [-1, 0, 0.5, 2, True])
@pytest.mark.parametrize("name", ["min", "max"])
def test_initial_values_of_bools_are_bools(gpu: vc.Runtime, name: str, initial: Any) -> None:
    for data in ([False], [True, False], [True]):
        result = getattr(vnp, name)(gpu.array(np.array(data)), initial=initial)
        assert bool(result) == getattr(np, name)(data, initial=bool(initial))


def test_order_needs_numbers(gpu: vc.Runtime) -> None:
    x = gpu.zeros(3)
    for compare in (lambda: x < None, lambda: x >= "a", lambda: pow(x, 2, 3)):
        with pytest.raises(TypeError, match=r"not supported between|unsupported operand"):
            compare()
    with pytest.raises(TypeError, match="frexp takes real numbers; got complex64"):
        vnp.frexp(gpu.zeros(2, np.complex64))


def test_parts_are_assigned(gpu: vc.Runtime) -> None:
    host = np.array([[1 + 2j, 3], [4j, 5]], np.complex64)
    x = gpu.array(host)
    for each in (host, x):
        each.real = 7
        each[0].imag = [1, 2]
        each.T.real = np.array([[1, 2], [3, 4]], np.float32)
    np.testing.assert_array_equal(x.numpy(), host)
    y = gpu.zeros(2)
    y.real = [1, 2]
    assert y.tolist() == [1, 2]
    with pytest.raises(TypeError, match="an array of float32 has no imaginary part to set"):
        y.imag = 1
    assert y.view() is not y
    assert y.view().tolist() == [1, 2]


def test_complex_sums_at_indices(gpu: vc.Runtime) -> None:
    host = np.array([1 + 2j, 3], np.complex64)
    x = gpu.array(host)
    for function in (np.add, np.subtract):
        function.at(host, [0, 0, 1], np.complex64(1 + 1j))
        getattr(vnp, function.__name__).at(x, [0, 0, 1], 1 + 1j)
    np.testing.assert_array_equal(x.numpy(), host)


def test_generators_are_copied(gpu: vc.Runtime) -> None:
    rng = vnp.random.default_rng(3)
    rng.normal(size=5)
    copies = pickle.loads(pickle.dumps(rng)), copy.deepcopy(rng)
    numbers = rng.normal(size=7).numpy()
    for each in copies:
        np.testing.assert_array_equal(each.normal(size=7).numpy(), numbers)
    assert sorted(rng.permutation([3, 1, 2]).tolist()) == [1, 2, 3]


def test_small_variates_are_the_same_on_every_device(gpu: vc.Runtime) -> None:
    rng, tiny = vnp.random.default_rng(8), np.finfo(np.float32).tiny
    for numbers in (rng.gamma(0.01, 1.0, 10_000), rng.beta(0.01, 0.01, 10_000), rng.chisquare(0.1, 10_000)):
        host = numbers.numpy()
        assert ((host == 0) | (host >= tiny)).all()
        assert (host == 0).any()


def test_polynomials_without_roots(gpu: vc.Runtime) -> None:
    assert vnp.poly(gpu.zeros(0)).tolist() == 1
    assert vnp.polyval(gpu.zeros(0), gpu.array([1.0, 2.0])).tolist() == [0, 0]
