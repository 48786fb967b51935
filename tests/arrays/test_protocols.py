"""NumPy's functions of device arrays run on the device or raise an error; printing and Python's protocols."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hang_limit import hang_limit_s
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays import methods
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.mathematics import DEFERRED, Deferred

HOST = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def x(gpu: vc.Runtime) -> Array:
    return gpu.array(HOST)


CALLS = {
    "sin": np.sin, "sum": np.sum, "sort": np.sort, "reversed": lambda x: np.sort(x, kind="stable"),
    "sum along an axis": lambda x: np.sum(x, 0, keepdims=True), "concatenate": lambda x: np.concatenate([x, x], 1),
    "stack": lambda x: np.stack((x, x), -1), "where": lambda x: np.where(x > 0, x, 0), "clip": lambda x: x.clip(0, 1),
    "scalar on the left": lambda x: np.float32(2) * x, "matmul": lambda x: np.matmul(x, x.T), "transpose": np.transpose,
    "argsort": lambda x: np.argsort(x, None), "zeros_like": np.zeros_like, "mean": lambda x: np.mean(x, axis=1),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_numpy_functions_run_on_the_device(x: Array, name: str) -> None:
    result: Any = CALLS[name](x)
    expected = CALLS[name](HOST)
    assert type(result) is Array
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.numpy(), expected, 2e-6, 1e-6)


def test_out_and_where_of_numpy_functions(gpu: vc.Runtime, x: Array) -> None:
    y = gpu.zeros((3, 4))
    assert np.add(x, 1, out=y) is y
    np.testing.assert_array_equal(y.numpy(), HOST + 1)
    np.multiply(x, 0, out=y, where=x > 0)
    np.testing.assert_array_equal(y.numpy(), np.where(HOST > 0, 0, HOST + 1))


def test_float64_scalars_are_of_their_dtype(gpu: vc.Runtime, x: Array) -> None:
    if lacks(gpu, "float64"):
        with pytest.raises(vc.MissingFeature, match="float64"):
            np.float64(2) + x
        return
    result: Any = np.float64(2) + x
    assert (type(result), result.dtype) == (Array, np.float64)


REFUSED: dict[str, Any] = {
    "np.einsum_path has no form for device arrays; convert with .numpy()": lambda x: np.einsum_path("ij->i", x),
    "np.sort of device arrays: got an unexpected keyword argument 'order'": lambda x: np.sort(x, order="a"),
    "np.add of device arrays is not written to a NumPy array": lambda x: np.add(x, 1, out=np.ones((3, 4), np.float32)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_nothing_is_computed_on_the_host_unsaid(x: Array, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        REFUSED[message](x)


def test_asarray_downloads(x: Array) -> None:
    np.testing.assert_array_equal(np.asarray(x), HOST)
    np.testing.assert_array_equal(np.array(x, np.int32), HOST.astype(np.int32))


def test_functions_of_others_are_refused(x: Array) -> None:
    """SciPy's functions of elements have NumPy's protocol, but no form on the device."""
    special: Any = pytest.importorskip("scipy.special")
    with pytest.raises(TypeError, match="erf has no form for device arrays"):
        special.erf(x)


PRINTED = [
    HOST, HOST[0, 0], HOST[:0], np.arange(1001, dtype=np.int32), (np.arange(9000) / np.float32(7)).reshape(9, 1000).T,
    np.arange(1400, dtype=np.int32).reshape(2, 7, 100), HOST > 0, np.zeros((2, 0, 3), np.int32),
]  # fmt: skip


@pytest.mark.parametrize("host", PRINTED, ids=range(len(PRINTED)))
def test_text_is_as_numpy_prints(gpu: vc.Runtime, host: Any) -> None:
    array = gpu.array(host)
    assert str(array) == str(host)
    start = np.array2string(host, separator=", ", prefix="array(")
    shape = f"shape={host.shape}, " if not host.size and host.shape != (0,) else ""
    assert repr(array) == f"array({start}, {shape}dtype={host.dtype}, on {gpu.device})"


def test_print_options(gpu: vc.Runtime) -> None:
    host = np.arange(30, dtype=np.float32) / 3
    with np.printoptions(threshold=10, edgeitems=2, precision=2):
        assert str(gpu.array(host)) == str(host)


def test_a_long_array_is_not_downloaded_to_be_shown(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    download = type(gpu.transfers).download

    def counted(self: Any, buffer: Any, offset: int, out: Any) -> Any:
        sizes.append(out.nbytes)
        return download(self, buffer, offset, out)

    monkeypatch.setattr(type(gpu.transfers), "download", counted)
    repr(gpu.zeros((1000, 1000)))
    assert sum(sizes) <= 7 * 7 * 4


def test_arrays_without_readable_elements_show_their_shape(gpu: vc.Runtime, x: Array) -> None:
    with gpu.record():
        y = x + 1
        assert repr(y) == str(y) == "array(shape=(3, 4), dtype=float32, in a graph)"
    x.close()
    assert repr(x) == "array(shape=(3, 4), dtype=float32, closed)"


def test_protocols_of_numbers(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([1.25, 2.5], np.float32))
    assert f"{x[0]:.1f} {x[1]:6.2f} {x[0]} {x}" == "1.2   2.50 1.25 [1.25 2.5 ]"
    assert (round(x[1]), float(round(x[0], 1)), len(x), float(sum(x))) == (2, pytest.approx(1.2), 2, 3.75)
    assert [float(item) for item in divmod(x, 2)[1]] == [1.25, 0.5]
    assert float(divmod(5, x)[0][0]) == 4
    with pytest.raises(TypeError, match=r"shape \(2,\); use an element"):
        f"{x:.2f}"


def test_matplotlib_plots_arrays(gpu: vc.Runtime) -> None:
    figure: Any = pytest.importorskip("matplotlib.figure")
    x = gpu.array(np.arange(4, dtype=np.float32))
    axes = figure.Figure().subplots()
    (line,) = axes.plot(x, x * 2)
    np.testing.assert_array_equal(line.get_xydata(), [[0, 0], [1, 2], [2, 4], [3, 6]])
    (line,) = axes.plot(x)
    np.testing.assert_array_equal(line.get_ydata(), [0, 1, 2, 3])
    axes.scatter(x, x)
    axes.imshow(x.reshape(2, 2))


@pytest.mark.pure
def test_the_namespace_is_imported_on_first_use() -> None:
    loaded = "'vulkan' in sys.modules, 'vkcompute.jit' in sys.modules"
    code = f"import sys, vkcompute.numpy as vnp; print({loaded}, 'sin' in dir(vnp))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=hang_limit_s(), check=True
    )
    assert done.stdout.split() == ["False", "False", "True"]
    code = "import vkcompute as vc; print(vc.numpy.sin.__name__, vc.nn.softmax.__name__, {'nn', 'numpy'} <= {*dir(vc)})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=hang_limit_s(), check=True
    )
    assert done.stdout.split() == ["sin", "softmax", "True"]
    with pytest.raises(AttributeError, match=r"no einsum_path, which is NumPy's, and not here yet; convert with"):
        _ = vnp.einsum_path
    with pytest.raises(AttributeError, match=r"has no arnage$"):
        _ = vnp.arnage


def test_calls_of_libraries_that_know_numpy_only(gpu: vc.Runtime) -> None:
    """Parameters that make no difference on the device are no errors, and parameters may be NumPy arrays."""
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = gpu.array(host)
    for result, expected in (
        (np.ones_like(x, shape=(2, 2), order="C"), np.ones((2, 2))),
        (np.full_like(x, 3, np.int32, shape=5, subok=False), np.full(5, 3)),
        (np.array([1.0, 2.0], ndmin=2, like=x), np.array([[1.0, 2.0]])),
        (np.asanyarray(host, like=x, order=None), host),
        (np.quantile(x, np.array([0.25, 0.5]), axis=[0]), np.quantile(host, [0.25, 0.5], axis=0)),
        (np.median(x, axis=[0, 1]), np.median(host)),
        (np.isin(x, np.array([1, 5], np.float32)), np.isin(host, [1, 5])),
        (np.histogram(x, np.array([0, 4, 12], np.float32))[0], [4, 8]),
        (x.conj(), host),
    ):
        assert type(result) is vc.Array
        assert np.allclose(result.numpy(), expected)
    assert np.ones_like(x, order="F").T.contiguous


def test_a_number_of_a_lazy_array_is_lazy(gpu: vc.Runtime) -> None:
    total = gpu.full(4, 2.0).sum()
    result = total[()]
    assert result.is_pending
    assert total.is_pending
    total[()] = 3
    assert (result.item(), total.item()) == (8, 3)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("__add__", lambda x: x + x),
        ("__rmul__", lambda x: 2 * x),
        ("mT", lambda x: x.mT * 2),
        ("__array_ufunc__", lambda x: np.add(x, x)),
        ("_selected", lambda x: x[[0, 1]] + 1),
    ],
)
def test_the_first_use_of_a_method_sets_those_of_higher_floors(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, name: str, use: Callable[[vc.Array], vc.Array]
) -> None:
    x = gpu.full((2, 2), 1, np.float32)
    for deferred in DEFERRED:
        monkeypatch.setattr(vc.Array, deferred, Deferred(vc.Array, deferred))
    np.testing.assert_array_equal(use(x).numpy(), np.full((2, 2), 2, np.float32))
    assert not any(type(vars(vc.Array)[deferred]) is Deferred for deferred in DEFERRED)


def test_methods_of_higher_floors_are_those_that_arrays_defer() -> None:
    class Empty(Array):
        """A class with the attributes of any class."""

        __slots__ = ()

    assert methods.METHODS.keys() == set(DEFERRED) >= vars(methods._Methods).keys() - vars(Empty).keys()
