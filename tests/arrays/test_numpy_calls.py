"""Calls of NumPy's functions with given arguments, beside NumPy's results: modes, methods, errors."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp

f = np.float32
rng = np.random.default_rng(0)
x = rng.standard_normal(20).astype(f)
y = rng.standard_normal(7).astype(f)
m = rng.standard_normal((4, 9)).astype(f)
i = np.arange(12, dtype=np.int32)
sp = np.array([0, -0.0, 1.5, -2.75, np.inf, -np.inf, np.nan, 1e-30, 3e38, -7], f)
Check = Callable[..., None]
METHODS = (
    "inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen weibull linear "
    "median_unbiased normal_unbiased lower higher midpoint nearest"
).split()


@pytest.fixture
def check(gpu: vc.Runtime) -> Check:
    """Calls a function with NumPy and arrays, and with `vkcompute.numpy` and device arrays; compares the results."""

    def run(name: str, function: Any, *args: Any, tol: float = 2e-5) -> None:
        try:
            with np.errstate(all="ignore"):
                expected = function(np, *args)
        except (ValueError, IndexError) as error:
            with pytest.raises(type(error)):
                function(vnp, *[_uploaded(gpu, arg) for arg in args])
            return
        result = function(vnp, *[_uploaded(gpu, arg) for arg in args])
        assert _same(result, expected, tol), (name, expected, result)

    return run


def _uploaded(gpu: vc.Runtime, value: Any) -> Any:
    if isinstance(value, list):
        return [_uploaded(gpu, item) for item in value]
    return gpu.array(value) if isinstance(value, np.ndarray) else value


def _same(result: Any, expected: Any, tol: float) -> bool:
    if isinstance(expected, (tuple, list)):
        return len(result) == len(expected) and all(_same(*item, tol) for item in zip(result, expected, strict=True))
    one, other = np.asarray(result), np.asarray(expected)
    alike = one.shape == other.shape and one.dtype.kind == other.dtype.kind
    return alike and np.allclose(one, other, tol, tol * 10, equal_nan=True)


def changed(function: Any) -> Any:
    """Returns a function that changes a copy of its array, and returns it."""

    def run(xp: Any, array: Any, *args: Any) -> Any:
        array = array.copy()
        function(xp, array, *args)
        return array

    return run


@pytest.mark.filterwarnings("ignore")
def test_convolution(check: Check, gpu: vc.Runtime) -> None:
    for mode in ("full", "same", "valid"):
        for a, b in ((x, y), (y, x), (x, y[:4]), (y[:4], x), (i, i[:3]), (i[:3], i), (y, y), (x[:6], x[:6])):
            check("conv " + mode, lambda xp, a, b, mode=mode: xp.convolve(a, b, mode), a, b)
            check(f"corr {mode} {a.size} {b.size}", lambda xp, a, b, mode=mode: xp.correlate(a, b, mode), a, b)


@pytest.mark.rotates
@pytest.mark.filterwarnings("ignore")
def test_calculus(check: Check, gpu: vc.Runtime) -> None:
    for k in (1, 2):
        check("grad", lambda xp, a, k=k: xp.gradient(a, edge_order=k), m)
        check("grad2", lambda xp, a, k=k: xp.gradient(a, 0.5, 2.0, edge_order=k), m)
    c = np.cumsum(rng.random(9)).astype(f)
    check("gradc", lambda xp, a, c: xp.gradient(a, c, axis=1), m, c)
    check("gradc2", lambda xp, a, c: xp.gradient(a, c, axis=1, edge_order=2), m, c)
    check("grad3", lambda xp, a: xp.gradient(a, 0.5, 2.0, 1.5, edge_order=2), rng.random((3, 4, 5)).astype(f))
    check("trap", lambda xp, a, c: xp.trapezoid(a, c), m, c)
    for other in (c, c > 2):
        check("trap of bools", lambda xp, a, c: xp.trapezoid(a, c), other, (c * 3).astype(int) % 2 == 1)
    check("unwrap", lambda xp, a: xp.unwrap(a), (m * 9))
    check("unwrap", lambda xp, a: xp.unwrap(a, axis=0), (m * 9))
    check("unwrap i", lambda xp, a: xp.unwrap(a, period=4), i * 3 % 7)
    s = np.sort(y)
    check("interp", lambda xp, a, b, c: xp.interp(a, b, c), x * 2, s, y)
    check("interp lr", lambda xp, a, b, c: xp.interp(a, b, c, left=-5, right=9.0), x * 2, s, y)
    check("interp p", lambda xp, a, b, c: xp.interp(a, b, c, period=1.5), x * 2, s, y)


@pytest.mark.rotates
@pytest.mark.filterwarnings("ignore")
def test_statistics(check: Check, gpu: vc.Runtime) -> None:
    check("cov", lambda xp, a: xp.cov(a), m)
    check("cov2", lambda xp, a, b: xp.cov(a, b), m, m[::-1].copy())
    check("corrcoef", lambda xp, a: xp.corrcoef(a), m)
    check("cov1", lambda xp, a: xp.cov(a), x)
    check("covT", lambda xp, a: xp.cov(a, rowvar=False, bias=True), m)
    w = np.arange(1, 10, dtype=np.int32)
    aw = rng.random(9).astype(f)
    check("covw", lambda xp, a, w, v: xp.cov(a, fweights=w, aweights=v), m, w, aw)
    check("avg", lambda xp, a, w: xp.average(a, 1, w, returned=True), m, aw)
    for meth in METHODS:
        check(
            "q " + meth,
            lambda xp, a, how=meth: xp.quantile(a, [0, 0.1, 0.25, 0.3, 0.5, 0.75, 0.99, 1], 1, method=how),
            m,
        )
        check("q1 " + meth, lambda xp, a, how=meth: xp.quantile(a, 0.35, method=how), m)
    n = m.copy()
    n[1, 3] = np.nan
    n[2] = np.nan
    for fn in "nanmedian nanmean nanmax nanmin nanvar nanstd nansum nanprod median".split():
        check(fn, lambda xp, a, fn=fn: getattr(xp, fn)(a, axis=1), n)
        check(fn, lambda xp, a, fn=fn: getattr(xp, fn)(a), n)
    check("nanq", lambda xp, a: xp.nanquantile(a, [0.1, 0.5, 0.7], axis=1), n)
    check("q nan", lambda xp, a: xp.quantile(a, [0.1, 0.5, 0.7], axis=1), n)
    check("nanargmax", lambda xp, a: xp.nanargmax(a, axis=1), n[:2])
    check("nanargmax all", lambda xp, a: xp.nanargmax(a, axis=1), n)
    check("nancumsum", lambda xp, a: xp.nancumsum(a, axis=1), n)


@pytest.mark.filterwarnings("ignore")
def test_numbers(check: Check, gpu: vc.Runtime) -> None:
    for fn in "modf frexp".split():
        check(fn, lambda xp, a, fn=fn: getattr(xp, fn)(a), sp)
    check(
        "ldexp",
        lambda xp, a, e: xp.ldexp(a, e),
        np.repeat(sp[[0, 2, 3, 4, 7, 8]], 7),
        np.tile(np.array([-200, -140, -20, 0, 3, 120, 400], np.int32), 6),
    )
    check("ldexp2", lambda xp, a: xp.ldexp(a, -3), sp)
    check("fix", lambda xp, a: xp.fix(a), sp)
    check("fp", lambda xp, a: xp.float_power(a, 2), x)
    check("ntn", lambda xp, a: xp.nan_to_num(a, nan=1.0, posinf=2.0), sp)
    check("isposinf", lambda xp, a: (xp.isposinf(a), xp.isneginf(a)), sp)
    check("isclose inf", lambda xp, a, b: (xp.isclose(a, b), xp.isclose(a, b, equal_nan=True)), sp, sp[::-1].copy())
    check("ic2", lambda xp, a: (xp.isclose(a, np.inf), xp.isclose(a, np.nan, equal_nan=True)), sp)


@pytest.mark.filterwarnings("ignore")
def test_histograms(check: Check, gpu: vc.Runtime) -> None:
    check("h2", lambda xp, a, b: xp.histogram2d(a, b, 5), x, x[::-1].copy())
    check("h2b", lambda xp, a, b: xp.histogram2d(a, b, [3, 4], [[-1, 1], [-2, 1]], density=True), x, x[::-1].copy())
    check("hd", lambda xp, a: xp.histogramdd(a, 3), m.reshape(-1, 3))
    check("hw", lambda xp, a, w: xp.histogram(a, 6, weights=w, density=True), x, x**2)
    if not lacks(gpu, "float64"):  # to which integers and edges promote
        check("hi", lambda xp, a: xp.histogram(a, 5), i)
        check("hedges", lambda xp, a: xp.histogram(a, [0, 2, 5, 11]), i)
    check("bincount", lambda xp, a: xp.bincount(a, minlength=20), i % 5)
    check("bw", lambda xp, a, w: xp.bincount(a, w), i % 5, x[:12])


@pytest.mark.filterwarnings("ignore")
def test_placement(check: Check, gpu: vc.Runtime) -> None:
    check("diag", lambda xp, a: (xp.diag(a), xp.diag(a, -2), xp.diagflat(a, 1)), y)
    check("diag m", lambda xp, a: xp.diag(a, 2), m)
    check("rmi", lambda xp, a, b: xp.ravel_multi_index((a, b), (12, 13)), i, i)
    check("rmi e", lambda xp, a, b: xp.ravel_multi_index((a, b), (4, 13)), i, i)
    check("rmi w", lambda xp, a, b: xp.ravel_multi_index((a, b), (4, 5), mode="wrap"), i, i)
    check("ui", lambda xp, a: xp.unravel_index(a, (3, 2, 2)), i)
    check("ui e", lambda xp, a: xp.unravel_index(a, (3, 2)), i)
    check("tri", lambda xp: (xp.tri(3, 4, 1), xp.indices((2, 3)), xp.tril_indices(3), xp.diag_indices(3)))
    check("ix", lambda xp, a, b: xp.ix_(a, b), i, i[:3])
    check("place", changed(lambda xp, a, b: xp.place(a, a > 0, b)), x, y)
    check("putmask", changed(lambda xp, a, b: xp.putmask(a, a > 0, b)), x, y)
    check("put", changed(lambda xp, a: xp.put(a, [1, 3, -1], [5.0, 6.0])), x)
    check("fd", changed(lambda xp, a: xp.fill_diagonal(a, 3.0)), m)
    check("paa", changed(lambda xp, a, j: xp.put_along_axis(a, j, 1.5, 1)), m, np.array([[1], [2], [3], [0]], np.int32))
    check("add.at", changed(lambda xp, a: xp.add.at(a, [1, 1, 3], 2.0)), x)
    check("sub.at", changed(lambda xp, a: xp.subtract.at(a, [1, 1, 3], 2.0)), x)
    check("choose", lambda xp, a, v: xp.choose(a, v), i % 3, [i, i * 2, i * 3])
    check("vander", lambda xp, a: (xp.vander(a, 4), xp.vander(a, 3, increasing=True)), y)


@pytest.mark.filterwarnings("ignore")
def test_polynomials(check: Check, gpu: vc.Runtime) -> None:
    check("polyval", lambda xp, p, a: xp.polyval(p, a), y[:4], x)
    check("pv2", lambda xp, a: xp.polyval([1, 2, 3], a), x)
    check("polyfit", lambda xp, a, b: xp.polyfit(a, b, 3), x, x**2, tol=1e-3)
    check(
        "pm",
        lambda xp, a, b: (xp.polymul(a, b), xp.polyadd(a, b), xp.polysub(a, b), xp.polyder(a), xp.polyint(a)),
        y,
        x,
    )


@pytest.mark.rotates
@pytest.mark.filterwarnings("ignore")
def test_assembly(check: Check, gpu: vc.Runtime) -> None:
    check("ls", lambda xp: (xp.logspace(0, 3, 5), xp.geomspace(1, 100, 4), xp.hanning(5)))
    check("apply2", lambda xp, a: xp.apply_along_axis(lambda v: v.reshape(3, 3), 1, a), m)
    check("apply0", lambda xp, a: xp.apply_along_axis(lambda v: v.sum(), 0, a), m)
    check("block", lambda xp, a, b: xp.block([[a, a], [b, b]]), m, m * 2)
    check("cs", lambda xp, a, b: xp.column_stack([a, b, xp.stack([a, b], 1)]), x, x)
    check("tz", lambda xp, a: xp.trim_zeros(a), np.array([0, 0, 1, 0, 2, 0], f))
    check("split e", lambda xp, a: xp.split(a, 3), x)
    check("hsplit", lambda xp, a: (xp.hsplit(a, 3), xp.vsplit(a, 2)), m)
    check("dsplit", lambda xp, a: xp.dsplit(a, 3), m.reshape(2, 2, 9))
    check("ins", lambda xp, a, b: xp.insert(a, 1, b, axis=1), m, y[:4])
    check("ins0", lambda xp, a, b: xp.insert(a, [1, 3], b, axis=0), m, m[:2])
    check("del", lambda xp, a: xp.delete(a, [1, -1], 1), m)
    check("del e", lambda xp, a: xp.delete(a, 99), m)
    check("ins m", lambda xp, a: xp.insert(a, 2, [7, 8, 9]), y)
    check("intersect", lambda xp, a, b: xp.intersect1d(a, b, return_indices=True), i % 5, i[3:])
    check("isin", lambda xp, a, b: (xp.isin(a, b), xp.isin(a, b, invert=True), xp.isin(a, [])), m, m[0])
    check("isin nan", lambda xp, a, b: xp.isin(a, b), sp, sp)
    check("bits", lambda xp, a: (xp.bitwise_or.reduce(a), xp.bitwise_and.reduce(a + 1), xp.bitwise_xor.reduce(a)), i)
    check("meanw", lambda xp, a: xp.mean(a, 1, where=a > 0), m)
    check("argpart", lambda xp, a: xp.sort(xp.partition(a, 3, 1)[:, :3]), m)
    check("h empty", lambda xp, a: xp.histogram(a, 3), x[:0])
    check("med empty", lambda xp, a: xp.median(a), x[:0])
    check("piece", lambda xp, a: xp.piecewise(a, [a < 0], [-1, lambda v: v**2]), x)
    check("compress", lambda xp, a: xp.compress([0, 1, 1, 0], a, 0), m)
    check("med inf", lambda xp, a: xp.median(a), np.array([np.inf, np.inf, 1, np.inf], f))
    check("quint", lambda xp, a: xp.quantile(a, [0.3, 0.5]), i)
    check("res", lambda xp, a: xp.resize(a, (3, 7)), y)
    for md in ("maximum", "mean", "median", "linear_ramp", "edge", "reflect", "symmetric", "wrap", "empty"):
        if md != "empty":
            check("pad " + md, lambda xp, a, md=md: xp.pad(a, ((1, 2), (3, 12)), md), m)
            check("padi " + md, lambda xp, a, md=md: xp.pad(a, (2, 3), md), i)


def test_files(gpu: vc.Runtime, tmp_path: Path) -> None:
    vnp.save(tmp_path / "a.npy", gpu.array(x))
    np.save(tmp_path / "b.npy", gpu.array(x))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), x)
    np.testing.assert_array_equal(vnp.load(tmp_path / "b.npy", device=gpu).numpy(), x)
    vnp.savez(tmp_path / "c.npz", gpu.array(x), ints=gpu.array(i))
    result = vnp.load(tmp_path / "c.npz", device=gpu)
    np.testing.assert_array_equal(result["arr_0"].numpy(), x)
    np.testing.assert_array_equal(result["ints"].numpy(), i)


@pytest.mark.parametrize("name", ["save", "savez", "savez_compressed", "savetxt"])
def test_a_file_has_its_old_content_until_the_new_one_is_written(
    gpu: vc.Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def interrupted(file: Any, *args: Any, **named: Any) -> None:
        Path(file).write_bytes(b"half")
        raise KeyboardInterrupt

    path, write = tmp_path / {"save": "a.npy", "savetxt": "a.txt"}.get(name, "a.npz"), getattr(vnp, name)
    write(str(path), gpu.array(x))
    content = path.read_bytes()
    monkeypatch.setattr(np, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(path, gpu.array(i))
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == content


def test_files_are_streams_too_and_get_their_suffix(gpu: vc.Runtime, tmp_path: Path) -> None:
    stream = io.BytesIO()
    vnp.save(stream, gpu.array(x))
    vnp.save(tmp_path / "a", gpu.array(x))
    vnp.save(os.fsencode(tmp_path / "b.npy"), gpu.array(x))
    assert stream.getvalue() == (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    vnp.savetxt(tmp_path / "c.gz", gpu.array(i))
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "c.gz"), i)


def test_views_are_joined(gpu: vc.Runtime) -> None:
    array = gpu.array(m)
    np.testing.assert_array_equal(vnp.concat([array.T, array[::-1].T]).numpy(), np.concatenate([m.T, m[::-1].T]))


def test_methods_that_functions_lack(gpu: vc.Runtime) -> None:
    with pytest.raises(TypeError, match=r"np\.sin\.reduce has no form for device arrays"):
        vnp.asarray(gpu.array(x)).__array_ufunc__(np.sin, "reduce", gpu.array(x))
    assert (vnp.add.nin, vnp.add.nout) == (2, 1)
    assert vnp.arctan2.__doc__.startswith("Returns the angle of the point (x2, x1).")


@pytest.mark.parametrize("exponent", [2, 1, -1, 0.5, 2.0, -1.0])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_frequent_powers_round_once_as_numpys(gpu: vc.Runtime, dtype: str, exponent: float) -> None:
    if lacks(gpu, dtype):
        pytest.skip("the device has no float64")
    zeros = [] if dtype == "complex64" else [0.0, -0.0]
    data = np.array([0.3, 1.7, 3e5, -2.25, 46341, np.pi, 1e-3, *zeros]).astype(dtype)
    x = gpu.array(data)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose((x**exponent).numpy(), data**exponent, rtol=1e-6 if dtype == "complex64" else 0)
    expected = (x**exponent).numpy()
    x **= exponent
    np.testing.assert_array_equal(x.numpy(), expected)


def test_squares_of_integers_wrap_as_numpys(gpu: vc.Runtime) -> None:
    data = np.array([46341, -3, 0], np.int32)
    np.testing.assert_array_equal((gpu.array(data) ** 2).numpy(), data**2)


def test_the_devices_of_the_namespace_are_a_tuple(gpu: vc.Runtime) -> None:
    assert vnp.__array_namespace_info__().devices() == (vnp.zeros(1).runtime,)
