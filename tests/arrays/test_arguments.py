"""Odd arguments of NumPy's functions: a selection of the calls of `scripts/arguments.py`, which makes them all."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))

import arguments

SELECTION = """
round(v, decimals=1.5)
cumulative_sum(v, include_initial=2)
delete(v, None)
logspace(0, 1, 3, axis=5)
bincount(i, minlength=1.5)
bincount(i, minlength=True)
sum(m, axis=True)
sum(v, where=c8([1j]))
mean(v, where=2)
array_split(v, [1.5])
array_split(v, 10**30)
dsplit(v.reshape(1, 1, 4), 1.5)
arange(0, 1j, 2)
choose(b, [v, w], out={})
compress(b, v, out={})
stack([v, w], out=True)
full_like(v, 3, dtype=False)
zeros(True)
array([1, 2], copy=0)
array([1, 2], ndmin=-0.5)
eye(2.5)
tril(s, k=-0.5)
diagonal(s, offset=inf)
trace(s, offset=nan)
mask_indices(3, xp.triu, k=nan)
corrcoef(m, dtype=i4)
cov(m, ddof=1.5)
cov(m, ddof=5, aweights=w[1:])
float_power(v, None)
gradient(v, None)
convolve(v, f4([nan, 1]))
histogram_bin_edges(v, bins=3, range=(0, 6), weights=True)
isposinf(1j)
isin(i, j, kind=True)
nan_to_num(v, nan=None)
nan_to_num(v, posinf=c8([1j]))
nanmax(v, initial=nan)
nanmin(v, axis=0, initial=nan, where=b)
nanquantile(v, c8([1j]))
percentile(v, 50j)
nanvar(v, ddof=None)
var(v, mean=1j)
pad(v, 2, mode="mean", stat_length=1.5)
pad((), 2, mode="mean", stat_length=2)
permute_dims(m, "")
polyder(v, m=-1)
polyint(v, m=1, k=1j)
repeat(v, c8([1j]))
vander(v, N=10**30)
diff(v, n=10**4)
unwrap(b)
trim_zeros(v, trim=None)
vecdot(v, w, axis=None)
logical_and.reduce(i, dtype=f4)
linalg.matrix_power(s, f4(1))
fft.fft(v, n=True)
fft.fftfreq(4, d=1j)
random.default_rng(0).random(size=True)
random.default_rng(0).chisquare(0)
"""


@pytest.mark.parametrize("text", SELECTION.strip().splitlines())
def test_calls_with_odd_arguments_are_numpys(gpu: vc.Runtime, text: str) -> None:
    verdict = arguments.judged(arguments.Case(text.replace("default_rng(0).", "").partition("(")[0], (), text))
    assert verdict in ("alike", "refused"), (arguments.outcome(np, text), arguments.outcome(vnp, text))


@pytest.mark.pure
def test_every_function_has_a_call() -> None:
    texts = arguments.CALLS.strip().splitlines()
    known = {text.partition("(")[0] for text in texts}
    missing = []
    for module, host, prefix in ((vnp, np, ""), (vnp.linalg, np.linalg, "linalg."), (vnp.fft, np.fft, "fft.")):
        for name in dir(module):
            function, own = getattr(host, name, None), getattr(module, name)
            is_ufunc = type(own).__name__ in ("BinaryUfunc", "UnaryUfunc")
            if callable(function) and not (is_ufunc or isinstance(own, type) or own is function):
                missing += [prefix + name] * (prefix + name not in known | EXEMPT)
    assert not missing


EXEMPT = {
    "__array_namespace_info__", "array2string", "array_repr", "array_str", "common_type", "empty", "from_dlpack",
    "info", "iscomplexobj", "isdtype", "isfortran", "isrealobj", "isscalar", "iterable", "load", "loadtxt",
    "may_share_memory", "min_scalar_type", "ndim", "result_type", "save", "savetxt", "savez", "savez_compressed",
    "shares_memory", "size", "unique_all", "unique_counts", "unique_inverse", "unique_values", "vectorize",
    "linalg.eig", "linalg.eigh", "linalg.eigvals", "linalg.eigvalsh", "linalg.matmul", "linalg.matrix_transpose",
    "linalg.qr", "linalg.svd", "linalg.svdvals", "linalg.tensordot", "fft.ifft2", "fft.irfft2", "fft.rfft2",
}  # fmt: skip
"""Functions of files, texts and types; those whose arguments others check; and factors that are not unique."""


def test_places_in_broadcast_views_take_no_copy(gpu: vc.Runtime) -> None:
    for values in ([[3, 1, 7, 7], [2, np.nan, 5, 9]], [[3, 1, 7, 7]], [[4]]):
        host = np.array(values, np.float32)
        view, expected = gpu.array(host).broadcast_to((5, 2, 4)), np.broadcast_to(host, (5, 2, 4))
        for name in ("argmax", "argmin", "nanargmax", "nanargmin"):
            for named in ({}, {"keepdims": True}, {"axis": 0}, {"axis": -1}):
                if name.startswith("nan") and np.isnan(host).any() and "axis" in named and len(host) == 1:
                    continue
                try:
                    wanted = getattr(np, name)(expected, **named)
                except ValueError:
                    continue
                assert np.array_equal(getattr(vnp, name)(view, **named).numpy(), wanted), (name, named)
    endless = gpu.array(np.array([2, 9, 9], np.float32)).broadcast_to((1 << 30, 3))
    assert vnp.argmax(endless).item() == 1
    assert vnp.nanargmin(endless).item() == 0
